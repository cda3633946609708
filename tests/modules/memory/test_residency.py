"""Parts are where each phase wants them, and afterwards where they were."""

from itertools import product

import pytest
import torch
from torch import nn

from modules.memory.residency import (
    METHOD,
    PHASES,
    PlacementInputs,
    Residency,
    placement_table,
)
from tests import pretend

CPU, META = torch.device("cpu"), torch.device("meta")
PLAIN = PlacementInputs(
    encoders=("te1", "te2"),
    trained=frozenset(),
    predicts=True,
    encodes_images=False,
    encodes_text=False,
    samples=True,
)


TRAINED = (frozenset(), {"unet"}, {"vae"}, {"unet", "te1"})


def needs(**changes):
    return PlacementInputs(**{**vars(PLAIN), **changes})


def where(part, **changes):
    return placement_table(needs(**changes))[part]


def test_encoders_and_vae_visit_the_device_when_they_are_needed():
    assert [p for p, place in where("te2").items() if place == "train"] == ["caching", "encoding"]
    assert [p for p, place in where("vae").items() if place == "train"] == ["caching", "decoding"]
    assert [p for p, place in where("unet").items() if place == "train"] == list(PHASES[2:])


def test_what_nothing_asks_for_any_more_is_given_back():
    for part in ("te1", "te2", "vae"):
        row = where(part, samples=False)
        assert (row["caching"], row["training"]) == ("train", "nowhere")
    blanks = where("vae", samples=False, encodes_blanks=True, encodes_images=True)
    assert (blanks["caching"], blanks["training"]) == ("train", "train")
    assert where("unet", predicts=False, samples=False)["training"] == "nowhere"


def test_every_phase_has_what_it_computes_with_in_every_combination():
    flags = product([False, True], [False, True], [False, True], [False, True], TRAINED)
    for predicts, images, text, samples, trained in flags:
        table = placement_table(
            needs(
                predicts=predicts,
                encodes_images=images,
                encodes_text=text,
                samples=samples,
                trained=trained,
            )
        )
        used = {("unet", "training")} if predicts else set()
        used |= {("vae", "training" if images else "caching")}
        used |= {(te, "training" if text else "caching") for te in ("te1", "te2")}
        used |= {(part, phase) for part in trained for phase in PHASES[2:]}
        if samples:
            used |= {("unet", "sampling"), ("vae", "decoding"), ("te1", "encoding")}
        assert {table[part][phase] for part, phase in used} == {"train"}


def placement_of(residency, component):
    return residency._components[component].placement


class Model:
    """Parts with a residency; both devices are the CPU."""

    def __init__(self, **changes):
        self.unet, self.vae, self.te = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
        for part in (self.vae, self.te):
            part.requires_grad_(False)
        self.residency = Residency(
            placement_table(needs(encoders=("te",), **changes)),
            {"unet": self.unet, "vae": self.vae, "te": self.te, METHOD: nn.Module()},
            train_device=CPU,
            offload_device=CPU,
        )

    def at(self):
        return {part: placement_of(self.residency, part) for part in ("unet", "vae", "te")}


def test_leaving_a_phase_puts_back_what_was_before():
    model = Model()
    with model.residency.phase("training"):
        before = model.at()
        with model.residency.phase("encoding"):
            assert model.at() == {"unet": "train", "vae": "offload", "te": "train"}
        assert model.at() == before
    assert model.at() == {"unet": "offload", "vae": "offload", "te": "offload"}


def test_an_exception_puts_back_too():
    model = Model()
    with pytest.raises(RuntimeError), model.residency.phase("training"):
        try:
            with model.residency.phase("decoding"):
                raise RuntimeError
        finally:
            assert model.at() == {"unet": "train", "vae": "offload", "te": "offload"}


def test_a_component_that_is_not_needed_any_more_has_no_memory():
    model = Model(samples=False)
    with model.residency.phase("training"):
        assert model.vae.weight.device == META
        assert not model.vae.weight.requires_grad
    assert placement_of(model.residency, "vae") == "nowhere"


def networks():
    """A part that trains and two that do not, in host memory."""
    parts = {
        name: nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)) for name in ("unet", "vae", "te")
    }
    for name in ("vae", "te"):
        parts[name].requires_grad_(False)
    return parts


def devices(part):
    return {weight.device.type for weight in part.parameters()}


def residency_on_gpu(parts, **options):
    return Residency(
        placement_table(needs(encoders=("te",))),
        parts,
        train_device=torch.device("cuda"),
        offload_device=CPU,
        **options,
    )


def test_weights_go_to_the_gpu_and_come_back_as_they_were():
    parts = networks()
    before = {name: part[0].weight.detach().clone() for name, part in parts.items()}
    with pretend.accelerator() as gpu:
        residency = residency_on_gpu(parts)
        with residency.phase("caching"):
            assert devices(parts["vae"]) == devices(parts["te"]) == {"cuda"}
            assert devices(parts["unet"]) == {"cpu"}
        with residency.phase("training"):
            assert devices(parts["unet"]) == {"cuda"}
            assert devices(parts["vae"]) == {"cpu"}
        assert gpu.allocated == 0
    for name, part in parts.items():
        assert torch.equal(part[0].weight, before[name])


def test_what_waits_in_pinned_memory_comes_as_one_copy_that_nothing_waits_for():
    parts = networks()
    before = {name: part[0].weight.detach().clone() for name, part in parts.items()}
    with pretend.accelerator() as gpu:
        residency = residency_on_gpu(parts, pins=True)
        with residency.phase("caching"), residency.phase("training"):
            assert all(weight.is_pinned() for weight in parts["te"].parameters())
            gpu.syncs.clear()
            copies = gpu.to_device.count
            with residency.phase("encoding"):
                assert devices(parts["te"]) == {"cuda"}
                assert torch.equal(parts["te"][0].weight.cpu(), before["te"])
            assert gpu.to_device.count == copies + 1
            assert [sync.what for sync in gpu.syncs] == ["copy to the host"]  # by this test
        assert gpu.allocated == 0
    for name, part in parts.items():
        assert torch.equal(part[0].weight, before[name])


def test_what_leaves_makes_room_for_what_comes():
    parts = networks()
    bytes_of_one = sum(weight.nbytes for weight in parts["vae"].parameters())
    with pretend.accelerator(capacity=2 * bytes_of_one + bytes_of_one // 2):
        residency = residency_on_gpu(parts)
        with residency.phase("caching"), residency.phase("training"):
            assert devices(parts["unet"]) == {"cuda"}


def test_an_update_that_runs_out_of_memory_is_undone():
    parts = networks()
    bytes_of_one = sum(weight.nbytes for weight in parts["vae"].parameters())
    with pretend.accelerator(capacity=bytes_of_one + bytes_of_one // 2) as gpu:
        residency = residency_on_gpu(parts)
        with pytest.raises(torch.OutOfMemoryError), residency.phase("caching"):
            pass
        assert all(devices(part) == {"cpu"} for part in parts.values())
        assert {placement_of(residency, part) for part in parts} == {"offload"}
        assert gpu.allocated == 0
