"""A window on a screen of its own, used as a person does: by pointer and keyboard."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from PIL import ImageGrab

from onetrainer import ROOT
from tests.ui.window_server import Served
from tests.ui.xscreen import DEADLINE, Hands

SHORT_WAITS = {
    "ui.app._SAVE_AFTER_MS": 100,
    "ui.dialogs.desktop_dialog._PROGRAMS": (),
    "ui.pages.preparations.AFTER_MS": 3_600_000,
    "ui.actions.dropping._ENABLE_AFTER_MS": 3_600_000,
    "ui.widgets.drag_source._ENABLE_AFTER_MS": 3_600_000,
    "ui.actions.file_check.CHECK_AFTER_MS": 50,
    "ui.pages.queue.page._POLL_MS": 100,
    "ui.background.pump.TICK_MS": 10,
    "ui.background.pump._TICKS_PER_SECOND": 100,
}
"""For a window that nobody uses as slowly as a person does, and the same on every desktop."""


class GoneError(AssertionError):
    """The process of a window has ended."""


class Desk:
    """One window in a process of its own. Reads through its inspection socket, acts through X."""

    def __init__(
        self,
        display: str,
        home: Path,
        *arguments: str,
        mode: str = "ok",
        worker: str = "tests.ui.fake_worker",
        server: str = "",
        workers: str = "",
        constants: dict[str, float] | None = None,
    ) -> None:
        """server: address of a window server that forks the window; "" to start a process.

        workers: address of a server that forks its workers; "" for the same.
        constants: of the program, by module and name, and what they are in this window.
        """
        self.home = home
        self.environment = {
            **os.environ,
            "DISPLAY": display,
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "PYTHONPATH": str(ROOT),
            "FAKE_WORKER": mode,
            "WINDOW_CONSTANTS": json.dumps(constants or {}),
        }
        ours, theirs = socket.socketpair()
        ours.settimeout(DEADLINE)
        os.set_inheritable(theirs.fileno(), True)
        self.process = self._start(theirs, [worker, *arguments], server, workers or server)
        theirs.close()
        self._channel = ours.makefile("rw", encoding="utf-8", newline="\n")
        self._socket = ours
        self._hands = Hands(display)
        self.window = self._find_window()

    def _start(
        self, channel: socket.socket, arguments: list[str], server: str, workers: str
    ) -> "subprocess.Popen[bytes] | Served":
        if not server:
            command = [sys.executable, "-X", "faulthandler", "-m", "tests.ui.inspected_window"]
            return subprocess.Popen(
                [*command, str(channel.fileno()), *arguments],
                cwd=self.home,  # where what goes to a relative path does no harm
                env=self.environment,
                pass_fds=[channel.fileno()],
                stderr=subprocess.PIPE,
            )
        reader, writer = os.pipe()
        process = Served(
            server,
            "window",
            arguments,
            env=self.environment,
            workers=workers,
            descriptors=[writer, channel.fileno()],
        )
        os.close(writer)
        process.stderr = os.fdopen(reader, "rb")
        return process

    def ask(self, question: str, **details: str) -> dict[str, Any]:
        try:
            self._channel.write(json.dumps({"ask": question, **details}) + "\n")
            self._channel.flush()
            line = self._channel.readline()
        except TimeoutError:
            self.process.send_signal(signal.SIGABRT)  # it says where it stands
            self.process.wait(DEADLINE)
            raise AssertionError(f"the window does not answer: {self.errors()}") from None
        except (BrokenPipeError, ConnectionResetError):
            line = ""
        if not line:
            ended = self.process.wait(DEADLINE)
            raise GoneError(f"the window is gone ({ended}): {self.errors()}")
        answer = json.loads(line)
        assert "raised" not in answer, answer["raised"]
        return answer

    @property
    def state(self) -> dict[str, Any]:
        return self.ask("state")

    def value(self, path: str) -> Any:
        return self.ask("value", path=path)["value"]

    def error(self, path: str) -> str:
        return self.ask("value", path=path)["error"]

    def wait(self, condition: Callable[[], object], what: str, deadline: float = DEADLINE) -> None:
        end = time.monotonic() + deadline
        pause = 0.002
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"waited {deadline:g} s for {what}; {self.state}")
            time.sleep(pause)
            pause = min(1.3 * pause, 0.05)  # each question takes the window's time

    def wait_question(self, name: str) -> None:
        """Waits until a dialog is on the screen and has the keyboard. name: of a control in it."""
        self.wait(lambda: self.widget(name).get("shown"), f"{name} on the screen")
        self.wait(lambda: self.state["focus"].startswith("answer"), "the keyboard in the dialog")

    def wait_end_of_question(self, name: str) -> None:
        """Waits until a dialog is gone and the window has the keyboard; name: of its control."""
        self.wait(lambda: not self.widget(name)["exists"], f"the end of {name}")
        self.wait(lambda: self.state["focus"] != "None", "the keyboard in the window")

    def wait_state(self, deadline: float = DEADLINE, **wanted: Any) -> None:
        def reached() -> bool:
            state = self.state
            return all(state[key] == value for key, value in wanted.items())

        self.wait(reached, str(wanted), deadline)

    def widget(self, name: str) -> dict[str, Any]:
        return self.ask("widget", name=name)

    def click(self, name: str) -> None:
        place = self.place(name)
        x = place["x"] + min(place["width"] // 2, 60)
        self.click_at(x, place["y"] + place["height"] // 2)

    def place(self, name: str) -> dict[str, Any]:
        """A control once it can be used, is in sight, and stays where it is."""
        sides = ("x", "y", "width", "height")
        found: dict[str, Any] = {}

        def is_still() -> bool:
            nonlocal found
            found = self._scroll_to(name)
            again = self.widget(name)
            return all(found[side] == again.get(side) for side in sides)

        def can_be_used() -> bool:
            widget = self.widget(name)
            return bool(widget.get("shown") and widget["enabled"] and widget["has_keyboard"])

        self.wait(lambda: can_be_used() and is_still(), f"{name} on the screen, enabled and still")
        return found

    def _scroll_to(self, name: str) -> dict[str, Any]:
        """Turns the wheel until a control lies between header and status line."""
        left, top, width, height = self.state["place"]
        place = self.widget(name)
        for _ in range(60):
            is_above = place["y"] < top
            is_below = place["y"] + place["height"] > top + height
            if name.startswith("answer") or not (is_above or is_below or self._is_hidden(place)):
                break
            button = "4" if place["y"] < top + 60 else "5"
            self.wheel(left + width // 2, top + height // 2, button)
            place = self.widget(name)
        return place

    def _is_hidden(self, place: dict[str, Any]) -> bool:
        """Whether a control of a page lies under the status line, as far as the page is cut."""
        _, top, __, height = self.state["place"]
        return place["on_page"] and (
            place["y"] + place["height"] > top + height - 40 or place["y"] < top + 50
        )

    def click_at(self, x: int, y: int, times: int = 1) -> None:
        self._hands.point(x - 3, y)
        self._hands.point(x, y)
        self._hands.click(times=times)
        self._settle()

    def click_and_type(self, name: str, text: str) -> None:
        """Types at once after a click, before the window has taken it in."""
        place = self.place(name)
        self._hands.point(place["x"] + 10, place["y"] + 10)
        self._hands.click()
        self._hands.type(text)
        self._settle()

    def drag(
        self, start: tuple[int, int], end: tuple[int, int], until: Callable[[], object]
    ) -> None:
        """Drags by the first button, to and fro at the end, until something becomes true."""
        self._hands.point(*start)
        assert not until(), "a drag has nothing to wait for"
        self._hands.hold_button(is_down=True)
        (x, y), places = end, itertools.count()

        def is_there() -> object:
            self._hands.move(x + next(places) % 20, y)
            return until()

        self.wait(is_there, "what is dragged over the window")

    def let_go(self) -> None:
        """Ends a drag."""
        self._hands.hold_button(is_down=False)

    def park(self) -> None:
        """The pointer in the last corner of the screen, where no menu opens under it."""
        self._hands.park()
        self._settle()

    def wheel(self, x: int, y: int, button: str, turns: int = 1) -> None:
        """button: "4" for up, "5" for down."""
        self._hands.point(x, y)
        for _ in range(turns):
            self._hands.click(int(button))
        self._settle()

    def key(self, *keys: str) -> None:
        for key in keys:
            self._hands.press(key)
        self._settle()

    def hold(self, key: str) -> None:
        self._hands.hold(key)
        self._settle()

    def release(self, key: str) -> None:
        self._hands.hold(key, is_down=False)
        self._settle()

    def type(self, text: str) -> None:
        self._hands.type(text)
        self._settle()

    def replace(self, name: str, text: str) -> None:
        """Clicks into a field, selects all and types."""
        self.click(name)
        self.key("ctrl+a")
        self.type(text)

    def page(self, name: str) -> None:
        self.wait_state(resizing=False)  # the list of pages may be folded then
        if self.widget("pages")["shown"]:  # of a small window, whose list of pages is folded
            self.click("pages")
        self.click(f"page {name}")
        self.wait_state(page=name)

    def rest(self, turns: int = 20) -> None:
        """Lets the window come to rest, and the threads that work for it."""
        self.wait(lambda: not self.state["work"], "the threads")
        end = self.state["turns"] + turns

        def is_resting() -> bool:
            state = self.state
            return state["turns"] >= end and not state["work"]

        self.wait(is_resting, "some turns")

    def image(self, path: Path) -> None:
        """The window and what lies over it, such as a dialog."""
        x, y, width, height = self.state["place"]
        box = (x, y, x + width, y + height)
        ImageGrab.grab(bbox=box, xdisplay=self.environment["DISPLAY"]).save(path)

    def resize(self, width: int, height: int) -> None:
        self._xdotool("windowsize", self.window, width, height)
        self.wait(lambda: self.state["place"][2:] == [width, height], "the size")

    def move(self, x: int, y: int) -> None:
        """Moves the window, with the border that the window manager gives it."""
        before = self.state["place"]
        self._xdotool("windowmove", self.window, x, y)
        self.wait(lambda: self.state["place"] != before, "another place")

    def ask_to_close(self) -> None:
        """What the window manager's close button does."""
        self.key("alt+F4")

    def wait_end(self, deadline: float = DEADLINE) -> int:
        return self.process.wait(deadline)

    def errors(self) -> str:
        if self.process.poll() is None or self.process.stderr is None:
            return ""
        return self.process.stderr.read().decode(errors="replace")

    def end(self) -> list[str]:
        """Ends the window, and gives the defects it met."""
        error_log: list[str] = []
        if self.process.poll() is None:
            try:
                error_log = self.state["errors"]
            except (OSError, AssertionError):
                error_log = ["the window did not answer"]
            self.process.terminate()
            self.process.wait(DEADLINE)
        with suppress(OSError):  # a question that the window did not live to hear
            self._channel.close()
        self._socket.close()
        self._hands.close()
        if self.process.stderr is not None:
            self.process.stderr.close()
        return error_log

    def end_worker(self) -> None:
        """Kills a worker that was left at work."""
        for events in self.home.rglob("events.jsonl"):
            for line in events.read_text().splitlines():
                body = json.loads(line)
                if body["type"] == "Started":
                    try:
                        os.kill(body["pid"], signal.SIGKILL)
                    except ProcessLookupError:
                        continue

    def _find_window(self) -> str:
        end = time.monotonic() + DEADLINE
        # As soon as it is on the screen, above others: their names are the same.
        self.wait(lambda: self.widget("start").get("shown"), "the window on the screen")
        while time.monotonic() < end:
            found = self._xdotool("search", "--onlyvisible", "--name", "OneTrainer$").split()
            if found:
                self._xdotool("windowactivate", "--sync", found[-1])
                return found[-1]
            time.sleep(0.01)
        raise AssertionError("no window came up")

    def _xdotool(self, *words: object) -> str:
        command = ["xdotool", *(str(word) for word in words)]
        return subprocess.run(
            command,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ).stdout

    def _settle(self) -> None:
        """Waits until the window has taken in what was done to it."""
        try:
            self.ask("state")
        except (OSError, GoneError):
            # What was done may have closed the window; a test that did not mean that goes on
            # to ask and gets the answer.
            self.process.wait(DEADLINE)
