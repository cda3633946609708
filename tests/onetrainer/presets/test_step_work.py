"""What a step computes as a short text, and how long it takes: sums stay, times nearly so."""

import random

import pytest

from onetrainer.presets.step_work import (
    DeviceSpeed,
    Operation,
    combined,
    decode_work,
    encode_work,
)

SLOW = DeviceSpeed({"product float32": 1e9, "product bfloat16": 4e9}, 1e8, 1e-4)


@pytest.fixture
def work():
    """Operations of all sizes around the limits of a device, by a seed."""
    draw = random.Random(5)
    found = {}
    for _ in range(600):
        kind, dtype = draw.choice(["product", "other"]), draw.choice(["float32", "bfloat16"])
        flops = 10 ** draw.uniform(3, 9) if kind == "product" else 0
        found[Operation(kind, dtype, flops, 10 ** draw.uniform(2, 8))] = draw.randint(1, 9)
    return found


def sums(work):
    return [sum(one[place] * count for one, count in work.items()) for place in (2, 3)]


def test_a_text_keeps_the_sums_and_the_time_of_a_work(work):
    text = encode_work(work)
    again = decode_work(text)
    assert len(again) < len(work) / 3
    assert sum(again.values()) == sum(work.values())
    assert sums(again) == pytest.approx(sums(work), rel=0.01)  # three digits
    assert SLOW.seconds(again) == pytest.approx(SLOW.seconds(work), rel=0.1)
    assert decode_work("") == {}


def test_works_add_up_each_so_many_times(work):
    one = Operation("product", "float32", 1e9, 1)
    assert combined([({one: 2}, 3), ({one: 1}, 0.5), (work, 0)]) == {one: 6.5}
    assert SLOW.seconds(combined([(work, 2)])) == pytest.approx(2 * SLOW.seconds(work))
