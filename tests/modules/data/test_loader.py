"""Threads read batches ahead; what they read does not depend on them."""

import threading

import pytest
import torch

from modules.data import batches as loading
from modules.data.batches import Batches
from modules.data.loader import Loader, reading_threads
from onetrainer.config.data.augmentation import Augmentation
from onetrainer.config.data.captions import Captions
from onetrainer.dataset.prefetch import prefetch
from onetrainer.errors import UserError
from tests.each import each
from tests.modules.data.test_batches import planned
from tests.runs import DEADLINE

STEPS = 6


def content(batch):
    """A batch as something to compare, bit for bit."""
    tensors = [batch.moments.mean, batch.moments.std, batch.time_ids, batch.pixels, batch.mask]
    tensors += [batch.conditioning.hidden, batch.masked]
    plain = (batch.captions, batch.step_captions, batch.positions, batch.weight)
    return plain, [None if one is None else one.tolist() for one in tensors]


def loader_of(batch_source, *, threads, with_pixels=False, draw=lambda batch, _: batch, **place):
    batches = Batches(batch_source, planned(batch_source, 1, 2), with_pixels=with_pixels)
    return Loader(batches, draw, threads=threads, steps=STEPS, **place)


def run(loader, steps=range(STEPS)):
    batches = [[content(batch) for batch in loader.at(step)] for step in steps]
    loader.close()
    return batches


@pytest.mark.parametrize(("keeps", "with_pixels"), [(True, True), (False, False)])
def test_number_of_threads_changes_no_bit(bench, keeps, with_pixels):
    bench.add_companion("p0", "masklabel", (64, 64), seed=20)
    bench.set(
        augmentation=Augmentation(flip="random", rotate=5),
        captions=Captions(dropout=0.3, shuffle=True),
        conditioning="masks",
    )
    batch_source = bench.encode(caches_latents=keeps, conditioning="masks")
    runs = [
        run(loader_of(batch_source, threads=threads, with_pixels=with_pixels)) for threads in (0, 3)
    ]
    assert sum(map(len, runs[0])) > STEPS
    assert runs[0] == runs[1]


@pytest.mark.parametrize("threads", [0, 2])
def test_any_step_can_be_asked_for_in_any_order(bench, threads):
    batch_source = bench.encode()
    whole = run(loader_of(batch_source, threads=0))
    order = [3, 4, 2, 5, 0, 1, 1]
    assert run(loader_of(batch_source, threads=threads), order) == [whole[step] for step in order]


@pytest.mark.parametrize("threads", [0, 2])
def test_processes_read_the_microbatches_of_a_step_in_turns(bench, threads):
    batch_source = bench.encode()
    whole = run(loader_of(batch_source, threads=0))
    for size in (2, 3):
        read = [[None] * len(batches) for batches in whole]
        for rank in range(size):
            loader = loader_of(batch_source, threads=threads, rank=rank, size=size)
            for step in range(STEPS):
                read[step][rank::size] = [content(batch) for batch in loader.at(step)]
                assert loader.microbatches_at(step) == len(whole[step])
            loader.close()
        assert read == whole


@pytest.mark.parametrize("threads", [0, 2])
def test_a_step_that_was_left_starts_again(bench, threads):
    batch_source = bench.encode()
    whole = run(loader_of(batch_source, threads=0))
    loader = loader_of(batch_source, threads=threads)
    step = next(number for number, batches in enumerate(whole) if number and len(batches) == 2)
    list(loader.at(step - 1))
    next(loader.at(step))
    assert [content(batch) for batch in loader.at(step)] == whole[step]
    loader.close()


def test_nothing_is_read_beyond_the_last_step(bench, monkeypatch):
    batch_source, read = bench.encode(), []

    def note(batch_source, plan, number, **_):
        read.append(plan.step)
        return lambda: None

    monkeypatch.setattr(loading, "read_batch", note)
    loader = loader_of(batch_source, threads=4)
    for step in range(STEPS):
        list(loader.at(step))
    loader.close()
    assert max(read) == STEPS - 1


def test_no_thread_outlives_the_loader(bench):
    batch_source = bench.encode()
    before = set(threading.enumerate())
    loader = loader_of(batch_source, threads=4)
    list(loader.at(0))
    assert (its := set(threading.enumerate()) - before)
    loader.close()
    assert not its & set(threading.enumerate())


def test_reading_some_at_once_gives_the_same_and_reports_errors_in_their_turn(bench):
    batch_source = bench.encode()
    whole = run(loader_of(batch_source, threads=0))
    assert run(loader_of(batch_source, threads=0, at_once=4)) == whole

    def work(number):
        if number == 4:
            raise UserError("4", "", "")
        return number

    results = prefetch(work, range(9), threads=0, most=3)
    assert [next(results) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(UserError, match="4"):
        next(results)


@pytest.mark.parametrize("threads", [0, 2])
def test_what_goes_wrong_in_a_thread_is_reported_where_it_is_asked_for(bench, threads):
    batch_source = bench.encode(caches_latents=False)
    for item in batch_source.images.items:
        item.path.unlink()
    loader = loader_of(batch_source, threads=threads)
    with pytest.raises(UserError, match="must not be changed"):
        list(loader.at(0))
    loader.close()


def test_vae_encodes_on_the_thread_that_asks(bench):
    batch_source, threads = bench.encode(caches_latents=False), set()
    inner = bench.family.inner

    def note(pixels):
        threads.add(threading.current_thread())
        return inner.encode_images(pixels)

    bench.family.encode_images = note
    run(loader_of(batch_source, threads=3))
    assert threads == {threading.current_thread()}


@pytest.mark.parametrize("is_cached", [True, False])
def test_threads_draw_what_needs_no_device(bench, is_cached):
    batch_source, threads = bench.encode(caches_latents=is_cached), set()

    def draw(batch, step):
        threads.add(threading.current_thread())
        return step, batch.positions

    loader = loader_of(batch_source, threads=3, draw=draw)
    drawn = [list(loader.at(step)) for step in range(STEPS)]
    loader.close()
    assert [{step for step, _ in each} for each in drawn] == [{step} for step in range(STEPS)]
    assert (threading.current_thread() in threads) != is_cached


@each("threads", [0, 1, 5])
def test_results_come_in_the_order_of_the_work(threads):
    gates = [threading.Event() for _ in range(20)]

    def work(number):
        if threads > 1:  # later work is done before earlier work
            gates[number].set()
            gates[min(number + 1, 19)].wait(DEADLINE)
        return number * number

    assert list(prefetch(work, range(20), threads=threads, most=8)) == [n * n for n in range(20)]


def test_no_more_is_begun_than_may_wait():
    begun = []
    results = prefetch(lambda number: number, (begun.append(n) or n for n in range(100)),
                    threads=2, most=5)  # fmt: skip
    assert next(results) == 0
    assert len(begun) == 6
    results.close()


def test_tensors_of_a_batch_are_its_own(bench):
    """A view of the cache's file would change with it, and be lost with it."""
    batch_source = bench.encode()
    (batch,) = list(loader_of(batch_source, threads=0).at(0))[:1]
    before = batch_source.images.moments(0, 0).mean.clone()
    batch.moments.mean.add_(1)
    batch.moments.std.add_(1)
    assert torch.equal(batch_source.images.moments(0, 0).mean, before)


def test_the_cpu_reads_ahead_only_what_it_has_to_decode():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert reading_threads(2, cpu, decodes_images=False) == 0
    assert reading_threads(2, cpu, decodes_images=True) == 2
    assert reading_threads(3, gpu, decodes_images=False) == 3
