"""What processes do together: orders, shared work, and errors that none of them waits for."""

from contextlib import closing

import pytest
import torch

from modules.world.world import alone
from onetrainer.errors import EndsRun, UserError


def squares(world, count, before_each=lambda _: None, broken=None):
    def square(number):
        if number == broken:
            raise UserError(f"{number} is wrong", "Expected another", "Choose one.")
        return number * number

    return world.map(square, count, before_each)


def orders(world):
    return {
        "square": lambda count, broken=None: list(squares(world, count, broken=broken)),
        "twice": lambda: [list(squares(world, 4)), list(squares(world, 4))],
    }


def test_shared_results_come_in_order_whatever_their_number(together):
    def first(world):
        found = []
        for count in (0, 1, 3, 7):
            with world.shared("square", count):
                found.append(list(squares(world, count)))
        return found

    counts = (0, 1, 3, 7)
    assert together(3, first, orders) == [[n * n for n in range(count)] for count in counts]


def test_an_error_of_any_process_is_that_of_all_and_the_next_order_is_obeyed(together):
    def first(world):
        told = []
        for broken in range(4):
            with pytest.raises(UserError) as caught, world.shared("square", 4, broken):
                list(squares(world, 4, broken=broken))
            told.append(str(caught.value))
        return [*told, *squares(alone(), 2)]

    told = [f"{number} is wrong. Expected another. Choose one." for number in range(4)]
    assert together(2, first, orders) == [*told, 0, 1]


def test_rank_0_may_stop_before_any_result_and_after_any(together):
    def stop(_):
        raise KeyError

    def first(world):
        with pytest.raises(KeyError), world.shared("square", 9):
            list(squares(world, 9, stop))
        with (
            pytest.raises(KeyError),
            world.shared("square", 9),
            closing(squares(world, 9)) as results,
        ):
            for _ in results:
                raise KeyError
        with world.shared("square", 2):
            return list(squares(world, 2))

    assert together(2, first, orders) == [0, 1]


def test_an_error_that_the_others_do_not_know_of_ends_the_run(together):
    def first(world):
        with pytest.raises(EndsRun), world.shared("twice"):
            raise OSError("no memory")
        return "ended"

    assert together(2, first, orders) == "ended"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_arrive_as_they_were_sent(together, dtype):
    def numbers(rank):
        return torch.tensor([-0.0, 1.1, float("inf"), rank], dtype=dtype)

    def exchange(world):
        gathered = world.gather(numbers(world.rank))
        rows = torch.stack([numbers(10 * world.rank + to) for to in range(world.size)])
        return gathered, world.exchange(rows)

    def first(world):
        world.call("exchange")
        gathered, exchanged = exchange(world)
        expected = torch.stack([numbers(rank) for rank in range(2)])
        sent_here = torch.stack([numbers(10 * rank) for rank in range(2)])
        return [
            bytes(one.view(torch.uint8).flatten().tolist())
            == bytes(other.view(torch.uint8).flatten().tolist())
            for one, other in ((gathered, expected), (exchanged, sent_here))
        ]

    orders = lambda world: {"exchange": lambda: exchange(world)}  # noqa: E731
    assert together(2, first, orders) == [True, True]
