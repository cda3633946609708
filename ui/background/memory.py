"""How the window's process gives memory back that it no longer needs."""

import ctypes
import sys
from contextlib import suppress

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # as glibc's malloc.h names them
_OWN_PAGES_FROM = 1 << 17


def give_back_memory() -> None:
    """Let large pieces of memory go back to the system as soon as they are free; glibc only.

    By itself it keeps pieces of the size of those that were freed before, a copy for each thread:
    each reading of 100,000 images made the window 10 MB larger.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library
            change = ctypes.CDLL(None).mallopt
            change(_M_MMAP_THRESHOLD, _OWN_PAGES_FROM)
            change(_M_ARENA_MAX, 2)


def give_back_now() -> None:
    """Give back what is free among what is still used: 8 MB after very many images; glibc only."""
    if sys.platform == "linux":
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
