import torch

from modules.formats.lora.lora_names import Layer
from modules.lora_tools.losses import LayerLoss, rounding_line
from modules.lora_tools.low_rank import Product, RankLimit, reduce, sum_of
from tests.close import FLOAT64, close, near
from tests.each import each


def matrix(rows: int, columns: int, *, decay: float = 0.7) -> torch.Tensor:
    """A matrix with falling singular values, float64."""
    generator = torch.Generator().manual_seed(rows + columns)
    size = min(rows, columns)
    left = torch.linalg.qr(torch.randn(rows, size, dtype=torch.float64, generator=generator))[0]
    right = torch.linalg.qr(torch.randn(columns, size, dtype=torch.float64, generator=generator))[0]
    return left * decay ** torch.arange(size) @ right.T


def multiplied(product: Product) -> torch.Tensor:
    return product.up @ product.down


@each(("shape", "rank"), [((12, 20), 3), ((20, 12), 5), ((8, 8), 8), ((6, 9), 40)])
def test_no_rank_approximates_better_and_the_loss_is_what_differs(shape, rank):
    """Against LAPACK's decomposition, to its rounding."""
    whole = matrix(*shape)
    u, values, v = torch.linalg.svd(whole, full_matrices=False)
    best = u[:, :rank] * values[:rank] @ v[:rank]
    for change in (whole, Product(whole, torch.eye(shape[1], dtype=torch.float64))):
        reduced = reduce(change, RankLimit(rank))
        found = multiplied(reduced.product)
        close(found, best)
        lost = float((whole - found).square().sum())
        assert reduced.lost == near(lost, eps=FLOAT64, of=float(whole.square().sum()))


@each("energy", [0.3, 0.9, 0.999])
def test_the_smallest_rank_that_keeps_the_energy_is_taken(energy):
    whole = matrix(16, 10)
    squares = torch.linalg.svdvals(whole).square()
    shares = squares.cumsum(0) / squares.sum()
    reduced = reduce(whole, RankLimit(energy=energy))
    rank = reduced.product.rank
    assert shares[rank - 1] >= energy
    assert rank == 1 or shares[rank - 2] < energy
    lost = float(1 - shares[rank - 1])
    assert reduced.lost / float(squares.sum()) == near(lost, eps=FLOAT64, of=1.0)


def test_a_sum_of_products_is_exact_and_reduces_to_its_own_rank():
    products = [Product(matrix(9, 3), matrix(3, 7)), Product(matrix(9, 2), matrix(2, 7))]
    total = sum(map(multiplied, products))
    added = sum_of(products)
    assert added.rank == 5
    close(multiplied(added), total)
    twice = reduce(sum_of([*products, *products]), RankLimit())
    assert twice.product.rank == 5
    close(multiplied(twice.product), 2 * total)


@each("change", [torch.zeros(4, 6, dtype=torch.float64), Product(*2 * [torch.zeros(4, 4)])])
def test_a_change_of_zero_has_no_rank(change):
    reduced = reduce(change, RankLimit(2))
    assert (reduced.product.rank, reduced.lost) == (0, 0.0)


def test_a_change_of_nothing_is_said_whatever_rounding_there_was():
    loss = LayerLoss(Layer("unet", "conv_in"), 4, energy=0.0, lost=1e-9)
    assert rounding_line([loss]) == "The LoRAs change nothing."
