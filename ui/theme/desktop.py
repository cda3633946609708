"""What the window asks of Windows and macOS: real pixels, and a title bar in its colors."""

import sys
import tkinter as tk
from contextlib import suppress

from ui.theme.palette import Mode

# From the headers of Windows.
_SYSTEM_DPI_AWARE = 1
_DWMWA_USE_IMMERSIVE_DARK_MODE = 20


def use_real_pixels() -> None:
    """Keep Windows from enlarging the window as a blurred image; call it before there is one."""
    if sys.platform == "win32":
        import ctypes

        with suppress(AttributeError, OSError):  # older than Windows 8.1, or decided already
            ctypes.OleDLL("shcore").SetProcessDpiAwareness(_SYSTEM_DPI_AWARE)


def color_title_bar(root: tk.Tk, mode: Mode) -> None:
    """Make the title bar dark or light; on Linux it is the desktop's."""
    is_dark = mode == "dark"
    if sys.platform == "win32":
        if root.winfo_viewable():
            _color_frame(root, is_dark)
        else:  # Tk makes the frame as the window comes up

            def color_once(event: "tk.Event[tk.Misc]") -> None:
                if waiting and event.widget is root:
                    waiting.clear()
                    _color_frame(root, is_dark)

            waiting = [root]
            root.bind("<Map>", color_once, add="+")
    elif sys.platform == "darwin":
        look = "darkaqua" if is_dark else "aqua"
        with suppress(tk.TclError):  # older than Tk 8.6.10
            root.tk.call("tk::unsupported::MacWindowStyle", "appearance", ".", look)


def _color_frame(root: tk.Tk, is_dark: bool) -> None:
    import ctypes

    if sys.platform == "win32":
        window = ctypes.windll.user32.GetParent(root.winfo_id())
        value = ctypes.c_int(is_dark)
        with suppress(AttributeError, OSError):  # older than Windows 10
            ctypes.windll.dwmapi.DwmSetWindowAttribute(
                window, _DWMWA_USE_IMMERSIVE_DARK_MODE, ctypes.byref(value), ctypes.sizeof(value)
            )
