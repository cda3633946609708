"""The window."""

import onetrainer  # noqa: F401 # first: it takes the current folder off the module path
