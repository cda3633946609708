"""On the pretended GPU nothing has arrived that nobody has waited for."""

import pytest
import torch

from tests import pretend

EARLY = "may still be writing"


@pytest.fixture(autouse=True)
def gpu():
    with pretend.accelerator() as made:
        yield made


def fetched(stream, source=None):
    """Pinned memory, and its copy on the GPU that a stream is still making."""
    source = torch.ones(4).pin_memory() if source is None else source
    with torch.cuda.stream(stream):
        return source, source.to("cuda", non_blocking=True)


def test_a_copy_on_another_stream_is_used_too_early():
    _, there = fetched(torch.cuda.Stream())
    with pytest.raises(RuntimeError, match=EARLY):
        there + 1


@pytest.mark.parametrize("way", ["wait_stream", "event", "synchronize", "device", "host event"])
def test_a_copy_that_was_waited_for_can_be_used(way):
    stream, event = torch.cuda.Stream(), torch.cuda.Event()
    _, there = fetched(stream)
    event.record(stream)
    {
        "wait_stream": lambda: torch.cuda.current_stream().wait_stream(stream),
        "event": lambda: torch.cuda.current_stream().wait_event(event),
        "synchronize": stream.synchronize,
        "device": torch.cuda.synchronize,
        "host event": event.synchronize,
    }[way]()
    assert (there + 1).tolist() == [2, 2, 2, 2]


def test_an_event_covers_what_came_before_it_and_no_more():
    stream, event = torch.cuda.Stream(), torch.cuda.Event()
    _, first = fetched(stream)
    event.record(stream)
    _, second = fetched(stream)
    event.wait()
    first + 1
    with pytest.raises(RuntimeError, match=EARLY):
        second + 1


def test_waiting_passes_on_what_others_have_waited_for():
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    _, there = fetched(one)
    other.wait_stream(one)
    torch.cuda.current_stream().wait_stream(other)
    there + 1


def test_another_stream_has_to_wait_for_what_it_copies_away():
    there, stream = torch.ones(4, device="cuda") * 2, torch.cuda.Stream()
    host = torch.empty(4, pin_memory=True)
    with pytest.raises(RuntimeError, match=EARLY), torch.cuda.stream(stream):
        host.copy_(there, non_blocking=True)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        host.copy_(there, non_blocking=True)
    stream.synchronize()
    assert host.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("read", [torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.sum])
def test_the_host_reads_too_early_what_is_on_its_way(gpu, read):
    host = torch.ones(4, device="cuda").to("cpu", non_blocking=True)
    assert gpu.syncs == []
    with pytest.raises(RuntimeError, match=EARLY):
        read(host)
    torch.cuda.synchronize()
    read(host)


def test_the_host_overwrites_what_is_being_fetched():
    stream = torch.cuda.Stream()
    source, _ = fetched(stream)
    with pytest.raises(RuntimeError, match="may still be reading"):
        source.zero_()
    stream.synchronize()
    source.zero_()


def test_what_the_host_has_read_and_written_is_done():
    stream = torch.cuda.Stream()
    host = torch.ones(4).pin_memory()
    host.mul_(2)
    assert host.tolist() == [2, 2, 2, 2]
    _, there = fetched(stream, host)
    torch.cuda.current_stream().wait_stream(stream)
    host.copy_(there, non_blocking=True)


def test_memory_that_is_still_used_is_given_away():
    stream = torch.cuda.Stream()
    source, there = fetched(stream)
    torch.cuda.current_stream().wait_stream(stream)
    there + 1
    del there
    with pytest.raises(RuntimeError, match="record_stream"):
        fetched(stream, source)


@pytest.mark.parametrize("way", ["record_stream", "wait_stream"])
def test_memory_is_given_away_in_order(way):
    stream = torch.cuda.Stream()
    source, there = fetched(stream)
    torch.cuda.current_stream().wait_stream(stream)
    there + 1
    if way == "record_stream":
        there.record_stream(torch.cuda.current_stream())
    else:
        stream.wait_stream(torch.cuda.current_stream())
    del there
    fetched(stream, source)


def test_pinned_memory_says_so_and_copies_from_ordinary_memory_are_there_at_once():
    with torch.cuda.stream(torch.cuda.Stream()):
        there = torch.ones(4).to("cuda", non_blocking=True)
    there + 1
    source = torch.ones(2)
    pinned = source.pin_memory()
    assert (source.is_pinned(), pinned.is_pinned(), pinned.device.type) == (False, True, "cpu")
    assert pinned.pin_memory() is pinned
    assert torch.empty(2, pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device="cuda").pin_memory()
