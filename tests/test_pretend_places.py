"""The pretended GPU: every tensor of a program says where it is, forward and backward."""

import copy

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests import pretend

CUDA = torch.device("cuda:0")
CPU = torch.device("cpu")
DEVICE = torch.device("cuda")

NETS = {
    "linear": (lambda: nn.Linear(6, 4), (2, 6)),
    "convolution": (lambda: nn.Conv2d(3, 4, 3, padding=1), (2, 3, 8, 8)),
    "transposed": (lambda: nn.ConvTranspose2d(3, 4, 2, stride=2), (2, 3, 4, 4)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 8, 8)),
    "layer norm": (lambda: nn.LayerNorm(6), (2, 5, 6)),
    "attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), (2, 5, 8)),
    "upsampling": (lambda: nn.Upsample(scale_factor=2.0), (1, 2, 4, 4)),
    "pooling": (lambda: nn.AvgPool2d(2), (1, 2, 4, 4)),
    "dropout": (lambda: nn.Sequential(nn.Linear(6, 6), nn.SiLU(), nn.Dropout(0.5)), (2, 6)),
}
FACTORIES = {
    "empty": lambda device: torch.empty(2, device=device),
    "zeros": lambda device: torch.zeros(2, device=device),
    "tensor": lambda device: torch.tensor([1.0], device=device),
    "arange": lambda device: torch.arange(3, device=device),
    "full": lambda device: torch.full((2,), 1.0, device=device),
    "rand": lambda device: torch.rand(2, device=device),
    "randperm": lambda device: torch.randperm(3, device=device),
    "as_tensor": lambda device: torch.as_tensor([1.0], device=device),
    "new_zeros": lambda device: torch.ones(1).new_zeros(2, device=device),
    "new_tensor": lambda device: torch.ones(1).new_tensor([1.0], device=device),
    "ones_like": lambda device: torch.ones_like(torch.ones(1), device=device),
    "randn_like": lambda device: torch.randn_like(torch.ones(1), device=device),
    "to": lambda device: torch.ones(1).to(device),
    "to like another": lambda device: torch.ones(1).to(torch.ones(1, device=device)),
}


@pytest.fixture
def gpu():
    with pretend.accelerator() as made:
        yield made


def test_what_is_made_on_a_device_says_so(gpu):
    for name, make in FACTORIES.items():
        for asked, where in (("cuda", CUDA), (torch.device("cuda:0"), CUDA), ("cpu", CPU)):
            assert make(asked).device == where, name


def test_a_tensor_answers_every_question_for_its_device(gpu):
    here, there = torch.ones(2), torch.ones(2, device="cuda")
    assert (here.is_cuda, here.is_cpu, here.get_device()) == (False, True, -1)
    assert (there.is_cuda, there.is_cpu, there.get_device()) == (True, False, 0)
    assert (here.type(), there.type()) == ("torch.FloatTensor", "torch.cuda.FloatTensor")
    assert pretend.device_of(there) == CUDA
    assert torch.cuda.is_available()


def test_factories_without_a_device_follow_the_context_and_new_ones_their_source(gpu):
    with torch.device("cuda"):
        made = torch.ones(2)
        linear = nn.Linear(2, 2)
    assert made.device == linear.weight.device == made.new_ones(1).device == CUDA
    assert torch.zeros_like(made).device == torch.empty_like(made).device == CUDA
    assert torch.ones(1).device == torch.as_tensor([1]).device == CPU
    assert torch.as_tensor(made) is made


def test_views_and_changes_in_place_stay_where_they_are(gpu):
    tensor = torch.ones(4, 4, device="cuda")
    for view in (tensor[1], tensor.T, tensor.view(-1), tensor.detach(), tensor.data, tensor[:, 1:]):
        assert view.device == CUDA
    tensor.mul_(2).add_(1)
    assert tensor.device == torch.add(tensor, 1, out=torch.empty_like(tensor)).device == CUDA


def test_moving_copies_across_and_nowhere_else(gpu):
    source = torch.ones(3)
    there = source.to("cuda")
    assert there.to("cuda") is there
    assert there.cuda() is there
    assert source.cpu() is source
    source.fill_(5)
    back = there.cpu()
    there.fill_(7)
    assert (back.tolist(), back.device) == ([1.0, 1.0, 1.0], CPU)
    assert source.to("cuda", torch.float16).dtype == torch.float16


def test_gradients_are_where_weights_and_inputs_are(gpu):
    for name, (make, shape) in NETS.items():
        net = make().to(DEVICE)
        pixels = torch.randn(shape, device=DEVICE, requires_grad=True)
        made = net(pixels, pixels, pixels)[0] if name == "attention" else net(pixels)
        made.square().sum().backward()
        assert made.device == pixels.grad.device == CUDA
        assert {weight.grad.device for weight in net.parameters()} <= {CUDA}
        assert {sync.what for sync in gpu.syncs} <= {"copy to the GPU"}


def test_a_move_gives_its_gradient_back_where_it_came_from(gpu):
    weight = torch.ones(3, requires_grad=True)
    there = weight.to("cuda")
    (there * there.new_tensor([1.0, 2.0, 3.0])).sum().backward()
    assert weight.grad.device == CPU
    assert weight.grad.tolist() == [1.0, 2.0, 3.0]
    assert gpu.to_host.bytes == 12


def test_modules_move_with_their_gradients_and_the_callers_are_noted(gpu):
    net = nn.BatchNorm1d(3)
    weight = net.weight
    net.to("cuda")
    net(torch.randn(4, 3, device="cuda")).sum().backward()
    assert net.weight is weight
    assert weight.device == weight.grad.device == net.running_mean.device == CUDA
    net.cpu()
    assert weight.device == weight.grad.device == net.running_mean.device == CPU
    net.to(torch.float64)
    assert len(gpu.module_moves) == 2
    assert all(place.startswith("tests/test_pretend_places.py:") for place in gpu.module_moves)


def test_a_parameter_given_other_memory_is_where_that_is(gpu):
    weight = nn.Parameter(torch.ones(2))
    weight.data = weight.data.to("cuda")
    assert weight.device == CUDA
    weight.data = torch.zeros(2)
    assert weight.device == CPU
    assert gpu.allocated == 0


@pytest.mark.parametrize("is_reentrant", [True, False])
def test_checkpoints_are_computed_again_on_the_gpu(gpu, is_reentrant):
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh()).to("cuda")
    seen = []
    net[0].register_forward_hook(lambda module, args, made: seen.append(made.device))
    pixels = torch.randn(2, 4, device="cuda", requires_grad=True)
    checkpoint(net, pixels, use_reentrant=is_reentrant).sum().backward()
    assert seen == [CUDA, CUDA]
    assert pixels.grad.device == net[0].weight.grad.device == CUDA


def test_hooks_and_saved_tensors_see_the_gpu(gpu):
    seen = []
    weight = torch.ones(2, device="cuda", requires_grad=True)
    weight.register_hook(lambda gradient: seen.append(gradient.device))
    weight.register_post_accumulate_grad_hook(lambda one: seen.append(one.grad.device))

    def pack(tensor):
        seen.append(tensor.device)
        return tensor.cpu()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor.to("cuda")):
        made = weight.exp()
    made.sum().backward()
    assert seen == [CUDA, CUDA, CUDA]
    assert gpu.to_host.count == 1


def test_tensors_that_cpp_makes_by_itself_take_the_place_of_those_they_meet(gpu):
    rows = torch.tensor([0, 2], device="cuda")
    assert functional.one_hot(rows, 3).device == CUDA
    chosen = torch.where(rows > 1, 1.0, 0.0)
    assert chosen.device == CUDA
    assert functional.one_hot(rows.cpu(), 3).device == CPU


def test_autocast_of_the_gpu_is_that_of_the_processor(gpu):
    net, pixels = nn.Linear(4, 4), torch.randn(2, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = net(pixels)
    net.to("cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("cuda")
        assert torch.get_autocast_dtype("cuda") == torch.bfloat16
        made = net(pixels.cuda())
    assert made.dtype == torch.bfloat16
    assert torch.equal(made.cpu(), expected)


def test_generators_give_their_own_device_the_processors_numbers(gpu):
    sampled = torch.randn(3, generator=torch.Generator("cuda").manual_seed(1), device="cuda")
    expected = torch.randn(3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(sampled.cpu(), expected)
    assert torch.Generator("cuda").device == CUDA
    assert isinstance(torch.default_generator, torch.Generator)
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
        torch.randn(3, generator=torch.Generator(), device="cuda")


def test_files_of_tensors_on_the_gpu_are_written_and_read(gpu, tmp_path):
    tensor = torch.arange(4.0, device="cuda")
    save_file({"a": tensor}, tmp_path / "a.safetensors")
    torch.save(tensor, tmp_path / "a.pt")
    assert load_file(tmp_path / "a.safetensors")["a"].tolist() == [0, 1, 2, 3]
    assert load_file(tmp_path / "a.safetensors", device="cuda")["a"].device == CUDA
    assert torch.load(tmp_path / "a.pt").tolist() == [0, 1, 2, 3]
    assert gpu.to_host.count >= 2


def test_copies_of_objects_are_where_their_originals_are(gpu):
    net = nn.Linear(2, 2).to("cuda")
    tensor = torch.ones(2, device="cuda")
    assert copy.deepcopy(tensor).device == copy.deepcopy(net).weight.device == CUDA
    other = nn.Linear(2, 2)
    other.load_state_dict(net.state_dict())
    assert other.weight.device == CPU
    assert torch.equal(other.weight, net.weight.cpu())
