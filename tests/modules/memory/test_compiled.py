"""Compiled blocks: a graph each, and the numbers of plain ones."""

import pytest
import torch
from torch._dynamo.exc import Unsupported
from torch._dynamo.testing import CompileCounterWithBackend

from modules.families.layers import UNET
from modules.memory.compiled import compile_blocks
from modules.methods.adapters.adapters import Adapters
from modules.objectives.denoising import Denoising
from onetrainer.config.methods.low_rank import Lora
from onetrainer.config.objectives.denoising import Denoising as Section
from tests import adapters, tiny
from tests.batches import batch_of, loss_of


def trained(backend=None):
    """The loss and gradients of two steps of a LoRA, and how many blocks are compiled.

    One block of each class, as each takes seconds.
    """
    family = tiny.family()
    method = Adapters.attach(family, Lora(rank=2, targets="attn-mlp"), seed=0)
    adapters.shake(method)
    method.train(True)
    blocks = list({type(block): block for block in family.layers()[UNET]}.values())
    if backend is not None:
        compile_blocks(blocks, backend)
    objective = Denoising(family, section=Section(), device=tiny.CPU)
    weights = [w for group in method.parameter_groups() for w in group.parameters.values()]
    batch, found = batch_of(family), []
    for step in range(2):
        loss = loss_of(objective, batch, step=step)
        found += [loss.value.detach(), *torch.autograd.grad(loss.value, weights)]
    return found, len(blocks)


# torch's compiler asks every tensor for its gradient, and torch warns of that.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
# It also makes an instance of the LoRA's autograd function, of which torch warns as well.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_a_block_with_its_adapters_is_one_graph_with_the_numbers_of_the_plain_one():
    counter = CompileCounterWithBackend("eager")
    plain, _ = trained()
    compiled, blocks = trained(counter)
    assert counter.frame_count == blocks > 1
    assert all(torch.equal(one, other) for one, other in zip(plain, compiled, strict=True))


def test_a_block_that_is_no_single_graph_is_an_error():
    class Reading(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x

    block = Reading()
    compile_blocks([block], "eager")
    with pytest.raises(Unsupported):
        block(torch.ones(2))
