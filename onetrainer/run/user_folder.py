"""Where a user's own presets, window settings and trusted files are kept."""

import os
import sys
from pathlib import Path


def user_folder() -> Path:
    """Where this user's presets and window settings are kept."""
    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA", Path.home()))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "onetrainer"
