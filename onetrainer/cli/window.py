"""The command that opens the window."""

import argparse
import sys
from importlib import import_module

from onetrainer import ROOT


def window(options: argparse.Namespace) -> int:
    """Open the window and wait until it is closed."""
    sys.path.insert(0, str(ROOT))  # has `ui`, which no installed command finds otherwise
    arguments = [] if options.preset is None else [options.preset]
    demo = [] if options.demo is None else ["--demo", *filter(None, [options.demo])]
    return int(import_module("ui.__main__").main([*arguments, *demo]))
