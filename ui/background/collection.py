"""Garbage collection in the window's thread alone, where Tcl may be called.

What tkinter makes (fonts, variables, images) calls Tcl when it is freed. In another thread that
call waits for the window's thread; and where the window waits for that thread, such as for its
start, neither ever goes on. Python collects in whichever thread makes an object at the moment.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_held: list[object] = []


def collect_in_this_thread() -> None:
    """Keep Python from collecting by itself: `collect_due` is called now and then instead."""
    gc.disable()


def collect_due() -> None:
    """Collect what Python would have collected by now, if it may not do so by itself."""
    if gc.isenabled() or _held:
        return
    counts, thresholds = gc.get_count(), gc.get_threshold()
    for generation in reversed(range(len(counts))):
        if counts[generation] > thresholds[generation]:
            gc.collect(generation)
            return


def collect_dropped() -> None:
    """Free all that is not used any more, also of what `without_collection` has kept from this."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def without_collection() -> Iterator[None]:
    """Keep garbage uncollected while a great many objects are made that stay.

    Each collection would stop the window for as long as looking at all of them takes: half a second
    for 100,000 images, a tenth of opening the window. They are never looked at later either, but
    by `collect_dropped`; what is in no circle is freed when it is dropped.
    """
    mark, was_enabled = object(), gc.isenabled()
    _held.append(mark)
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        _held.remove(mark)
        if was_enabled:
            gc.enable()
