"""A screen of its own, and its pointer and keyboard."""

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEADLINE = 120.0
"""Seconds that anything may take, however busy the machine is."""
NEEDED = ("Xvfb", "openbox", "xdotool")
BUTTONS = 0b11111 << 8
"""Of a mouse, in the mask that Xlib gives."""
MODIFIERS = {"ctrl": "Control_L", "shift": "Shift_L", "alt": "Alt_L"}


def missing_tools() -> list[str]:
    return [tool for tool in NEEDED if shutil.which(tool) is None]


@contextmanager
def screen(width: int = 1400, height: int = 1000) -> Iterator[str]:
    """An X server with a window manager; gives its DISPLAY."""
    missing = missing_tools()
    if missing:
        raise RuntimeError(
            f"The tests of the window need {', '.join(missing)}. "
            "On Debian and Ubuntu: apt install xvfb openbox xdotool"
        )
    reader, writer = os.pipe()
    server = subprocess.Popen(
        f"Xvfb -displayfd {writer} -screen 0 {width}x{height}x24 -nolisten tcp -noreset".split(),
        pass_fds=[writer],
        stderr=subprocess.DEVNULL,
    )
    os.close(writer)
    number = b""
    # Up to the newline: a server whose reader is gone after the digits dies.
    while not number.endswith(b"\n"):
        byte = os.read(reader, 1)
        if not byte:
            raise RuntimeError("Xvfb did not start")
        number += byte
    display = f":{number.decode().strip()}"
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder, "ready")
        manager = subprocess.Popen(
            ["openbox", "--sm-disable", "--startup", f"touch {shlex.quote(str(ready))}"],
            env={**os.environ, "DISPLAY": display},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _await_manager(manager, ready)
            yield display
        finally:
            for process in (manager, server):
                process.terminate()
                process.wait(DEADLINE)
            os.close(reader)


def _await_manager(manager: "subprocess.Popen[bytes]", ready: Path) -> None:
    """A window that opens while the manager starts may be left without a size, or the keyboard."""
    end = time.monotonic() + DEADLINE
    while not ready.exists():
        if manager.poll() is not None or time.monotonic() > end:
            raise RuntimeError("openbox did not start")
        time.sleep(0.005)


class Hands:
    """What a person does with pointer and keyboard of a screen, by the server's test extension.

    Each action has reached the server, and each window below it, when its method returns.
    """

    def __init__(self, display: str) -> None:
        self._xlib = ctypes.CDLL("libX11.so.6")
        self._test = ctypes.CDLL("libXtst.so.6")  # which xdotool brings along
        for name in ("XDefaultRootWindow", "XStringToKeysym", "XkbKeycodeToKeysym"):
            getattr(self._xlib, name).restype = ctypes.c_ulong
        self._xlib.XKeysymToKeycode.restype = ctypes.c_ubyte
        self._xlib.XOpenDisplay.restype = ctypes.c_void_p
        self._server = ctypes.c_void_p(self._xlib.XOpenDisplay(display.encode()))
        if not self._server:
            raise RuntimeError(f"no display {display}")

    def close(self) -> None:
        if self._server:
            self._xlib.XCloseDisplay(self._server)
        self._server = ctypes.c_void_p()

    def point(self, x: int, y: int) -> None:
        self._test.XTestFakeMotionEvent(self._server, -1, x, y, ctypes.c_ulong(0))
        self._wait()

    def park(self) -> None:
        """The pointer in the last corner of the screen, where nothing opens under it."""
        self.point(10_000, 10_000)

    def click(self, button: int = 1, times: int = 1) -> None:
        """times: 2 for a double click, however slow the machine: the server notes when."""
        for is_down in (True, False) * times:
            self._test.XTestFakeButtonEvent(self._server, button, is_down, ctypes.c_ulong(0))
        self._wait()

    def hold_button(self, *, is_down: bool) -> None:
        """The first button of the mouse. No waiting: a program that drags keeps it for long."""
        self._test.XTestFakeButtonEvent(self._server, 1, is_down, ctypes.c_ulong(0))
        self._xlib.XSync(self._server, False)

    def move(self, x: int, y: int) -> None:
        """Moves the pointer while a button is held."""
        self._test.XTestFakeMotionEvent(self._server, -1, x, y, ctypes.c_ulong(0))
        self._xlib.XSync(self._server, False)

    def press(self, combination: str) -> None:
        """Presses and releases keys such as "Return" and "ctrl+shift+z"."""
        *modifiers, key = combination.split("+")
        codes = [self._code(self._symbol(MODIFIERS[name])) for name in modifiers]
        self._tap(self._code(self._symbol(key)), codes)

    def hold(self, key: str, *, is_down: bool = True) -> None:
        self._key(self._code(self._symbol(key)), is_down=is_down)
        self._wait()

    def type(self, text: str) -> None:
        """text: of Latin-1, which is what the keyboard of Xvfb has."""
        shift = self._code(self._symbol("Shift_L"))
        for letter in text:
            code = self._code(ord(letter))
            is_plain = self._xlib.XkbKeycodeToKeysym(self._server, code, 0, 0) == ord(letter)
            self._tap(code, [] if is_plain else [shift])

    def _tap(self, code: int, modifiers: list[int]) -> None:
        for modifier in modifiers:
            self._key(modifier)
        self._key(code)
        self._key(code, is_down=False)
        for modifier in reversed(modifiers):
            self._key(modifier, is_down=False)
        self._wait()

    def _key(self, code: int, *, is_down: bool = True) -> None:
        self._test.XTestFakeKeyEvent(self._server, code, is_down, ctypes.c_ulong(0))

    def _symbol(self, name: str) -> int:
        symbol: int = self._xlib.XStringToKeysym(name.encode())
        assert symbol, f"no key is called {name}"
        return symbol

    def _code(self, symbol: int) -> int:
        code: int = self._xlib.XKeysymToKeycode(self._server, ctypes.c_ulong(symbol))
        assert code, f"no key gives {symbol:#x}"
        return code

    def _wait(self) -> None:
        self._xlib.XSync(self._server, False)
        end = time.monotonic() + DEADLINE
        while self._is_pressed() and time.monotonic() < end:
            time.sleep(0.001)

    def _is_pressed(self) -> bool:
        """Whether a button of the mouse is down, or a click on its way.

        The window manager is asked about every click before the window hears of it, and the
        server keeps all that follows until it has answered.
        """
        root = ctypes.c_ulong(self._xlib.XDefaultRootWindow(self._server))
        windows = [ctypes.c_ulong() for _ in range(2)]
        places = [ctypes.c_int() for _ in range(4)]
        mask = ctypes.c_uint()
        answers = [ctypes.byref(answer) for answer in (*windows, *places, mask)]
        self._xlib.XQueryPointer(self._server, root, *answers)
        return bool(mask.value & BUTTONS)
