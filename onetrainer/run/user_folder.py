"""The folder for a user's presets, window settings and list of trusted files."""

import os
import sys
from pathlib import Path


def user_folder() -> Path:
    """Return the folder for this user's presets and window settings."""
    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA", Path.home()))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "onetrainer"
