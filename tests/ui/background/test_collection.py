"""Garbage, whose end may call Tcl: no other thread than the window's meets it."""

import gc
import threading

from ui.background.collection import collect_due, collect_in_this_thread, without_collection


class Cycle:
    """Says in which thread it is freed."""

    def __init__(self, freed_in):
        self.me, self.freed_in = self, freed_in

    def __del__(self):
        self.freed_in.append(threading.current_thread())


def make_many(count):
    objects = [[] for _ in range(count)]
    assert len(objects) == count


def test_garbage_is_collected_in_the_windows_thread_alone_and_not_amid_much_that_stays():
    freed_in, many = [], 20 * gc.get_threshold()[0]
    was_enabled = gc.isenabled()
    try:
        collect_in_this_thread()
        Cycle(freed_in)
        thread = threading.Thread(target=make_many, args=(many,))
        thread.start()
        thread.join()
        keep = [[] for _ in range(many)]
        assert freed_in == []
        with without_collection():
            collect_due()
        assert (freed_in, gc.isenabled()) == ([], False)
        Cycle(freed_in)
        keep += [[] for _ in range(many)]
        collect_due()
        assert freed_in == [threading.current_thread()]
    finally:
        (gc.enable if was_enabled else gc.disable)()
