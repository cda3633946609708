"""Merging and resizing of LoRAs by request: from files to files."""

from pathlib import Path

import numpy
import pytest
import torch
from diffusers import StableDiffusionPipeline
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file

from modules.formats.lora.lora_file import read_lora
from modules.jobs.extract import extract as extract_job
from modules.jobs.merge import merge as merge_job
from modules.jobs.sample import sample as sample_job
from modules.methods.adapters.adapters import Adapters
from modules.methods.adapters.weight_formulas import merged_weight
from modules.methods.layers.layer_presets import layer_names
from onetrainer.errors import UserError
from onetrainer.jobs.lora_requests import (
    ExtractRequest,
    MergeRequest,
    ResizeRequest,
    merge_of_resize,
)
from onetrainer.jobs.sample_request import SampledLora, SampleRequest
from onetrainer.run.device_owner import Owner, owning, places_of
from onetrainer.run.events import Sample
from tests import adapters, exports, tiny
from tests.close import close
from tests.each import each, few_each


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.write_folder(tmp_path_factory.mktemp("models") / "base")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The file of each kind of adapter, with an effect; made when it is first asked for."""
    folder = tmp_path_factory.mktemp("loras")
    made = {}

    def of(kind, seed=1, dtype=torch.float32):
        key = (kind, seed, dtype)
        if key not in made:
            section = adapters.section(kind, text=True)
            method = Adapters.attach(tiny.family(), section, seed=seed)
            adapters.shake(method, scale=0.1, seed=seed)
            made[key] = folder / f"{kind}-{seed}-{len(made)}.safetensors"
            exports.export(method, made[key], dtype=dtype, metadata={})
        return str(made[key])

    return of


def merge(target, *loras, **options):
    request = MergeRequest(
        target=str(target),
        loras=[SampledLora(path=path, strength=s) for path, s in loras],
        **options,
    )
    return merge_job(request, lambda event: None).summary


def changes(path, *, family):
    """How a file changes the weight of every layer, in float64."""
    modules = {
        "unet": dict(family.unet.named_modules()),
        **{name: dict(e.named_modules()) for name, e in family.text_encoders.items()},
    }
    found = {}
    for layer, tensors in read_lora(Path(path), layer_names(family)).layers.items():
        named = modules[layer.component]
        module = named.get(layer.path) or named[layer.path.removeprefix("text_model.")]
        weight = module.weight.double()
        doubled = {
            key: tensor.double() if tensor.is_floating_point() else tensor
            for key, tensor in tensors.items()
        }
        found[layer] = merged_weight(weight, doubled, 1.0) - weight
    return found


@few_each(("kind",), adapters.KINDS, ["dora", "loha", "lokr", "oft"])
def test_every_kind_becomes_a_lora_of_the_same_change(tmp_path, files, base, kind):
    """As far as float32 matrices of a float64 product can, of the largest change of the layer."""
    family, target = tiny.family(), tmp_path / "lora.safetensors"
    report = merge(target, (files(kind), 1.0), base=str(base))
    assert "Nothing of the change was lost." in report
    before, after = changes(files(kind), family=family), changes(target, family=family)
    for layer, change in before.items():
        found = after.get(layer, torch.zeros_like(change))
        close(found, change, dtype=torch.float32)


def test_merged_loras_are_their_sum_with_their_strengths(tmp_path, files):
    family, target = tiny.family(), tmp_path / "sum.safetensors"
    merge(target, (files("lora"), 0.8), (files("lora", seed=2), -0.5))
    first, second, both = (
        changes(path, family=family) for path in (files("lora"), files("lora", seed=2), target)
    )
    for layer, change in both.items():
        expected = 0.8 * first[layer] - 0.5 * second[layer]
        close(change, expected, dtype=torch.float32)
    assert {len(t) for key, t in load_file(target).items() if key.endswith("down.weight")} == {8}


def test_a_lower_rank_loses_what_the_report_says(tmp_path, files):
    family, target = tiny.family(), tmp_path / "small.safetensors"
    request = ResizeRequest(source=files("lora"), target=str(target), rank=2)
    report = merge_job(merge_of_resize(request), lambda event: None).summary
    before, after = changes(files("lora"), family=family), changes(target, family=family)
    lost = sum(float((after[layer] - before[layer]).square().sum()) for layer in before)
    energy = sum(float(change.square().sum()) for change in before.values())
    assert f"Lost {lost / energy:.2%} of the change's energy" in " ".join(report)
    assert {len(t) for key, t in load_file(target).items() if key.endswith("down.weight")} == {2}


def test_what_rounding_loses_is_measured_on_the_file_that_was_written(tmp_path, files, base):
    """Against the formula in float64, to the digits of the report."""
    family, target = tiny.family(), tmp_path / "half.safetensors"
    exact = changes(files("loha"), family=family)
    energy = sum(float(change.square().sum()) for change in exact.values())
    report = " ".join(merge(target, (files("loha"), 1.0), base=str(base), precision="bf16"))
    stored = changes(target, family=family)
    lost = sum(float((stored[layer] - exact[layer]).square().sum()) for layer in exact)
    assert f"together is {(lost / energy) ** 0.5:.2%} as long as the change" in report

    model = tmp_path / "model"
    report = " ".join(merge(model, (files("loha"), 1.0), into=str(base), precision="bf16"))
    after = load_file(model / "unet" / "diffusion_pytorch_model.safetensors")
    after |= load_file(model / "text_encoder" / "model.safetensors")
    (encoder,) = family.text_encoders.values()
    modules = dict(family.unet.named_modules()), dict(encoder.named_modules())
    lost = 0.0
    for layer, change in exact.items():
        path = layer.path if layer.component == "unet" else layer.path.removeprefix("text_model.")
        weight = modules[layer.component != "unet"][path].weight.double()
        written = next(after[n] for n in (f"{layer.path}.weight", f"{path}.weight") if n in after)
        lost += float((written.double() - weight - change).square().sum())
    assert f"together is {(lost / energy) ** 0.5:.2%} as long as the change" in report


def test_pictures_of_loras_of_their_merger_and_of_the_model_with_them_are_equal(
    tmp_path, files, base
):
    """To 1 of 255: all add in float32, in another order."""
    loras = [(files("lora"), 0.9), (files("loha"), 0.7)]
    merge(tmp_path / "one.safetensors", *loras, base=str(base))
    merge(tmp_path / "model", *loras, into=str(base))
    plain = picture(tmp_path, base)
    separate = picture(tmp_path, base, *loras)
    assert abs(separate - plain).max() > 10
    for found in (
        picture(tmp_path, base, (str(tmp_path / "one.safetensors"), 1.0)),
        picture(tmp_path, tmp_path / "model"),
    ):
        assert abs(found - separate).max() <= 1


def picture(folder, model, *loras):
    request = SampleRequest(
        base=str(model), prompts=("a cat",), width=64, height=64, steps=2, precision="fp32",
        device="cpu", out=str(folder / "out"),
        loras=[SampledLora(path=p, strength=s) for p, s in loras],
    )  # fmt: skip
    (path,) = sample_job(request, lambda event: None).outputs
    with Image.open(path) as image:
        return numpy.asarray(image).astype(int)


@pytest.mark.filterwarnings("ignore:Already found a `peft_config`")  # it is meant to have two
def test_diffusers_generates_the_same_with_two_loras_with_their_merger_and_in_the_model(
    tmp_path, files, base
):
    """To 2e-4 of values from 0 to 1, where the LoRAs change them by more than 0.05."""
    loras = [(files("lora"), 0.9), (files("lora", seed=2), -0.6)]
    merge(tmp_path / "one.safetensors", *loras, to="diffusers")
    merge(tmp_path / "model", *loras, into=str(base))
    small = ResizeRequest(
        source=str(tmp_path / "one.safetensors"), target=str(tmp_path / "k.safetensors"), energy=1
    )
    merge_job(merge_of_resize(small), lambda event: None)
    separate = diffusers_picture(base, *loras)
    assert abs(separate - diffusers_picture(base)).max() > 0.05
    for found in (
        diffusers_picture(base, (str(tmp_path / "one.safetensors"), 1.0)),
        diffusers_picture(base, (str(tmp_path / "k.safetensors"), 1.0)),
        diffusers_picture(tmp_path / "model"),
    ):
        assert abs(found - separate).max() <= 2e-4


def diffusers_picture(model, *loras):
    pipe = StableDiffusionPipeline.from_pretrained(model, safety_checker=None)
    pipe.set_progress_bar_config(disable=True)
    for number, (path, _) in enumerate(loras):
        path = Path(path)
        pipe.load_lora_weights(path.parent, weight_name=path.name, adapter_name=f"lora{number}")
    if loras:
        pipe.set_adapters([f"lora{n}" for n in range(len(loras))], [s for _, s in loras])
    return pipe(
        "a cat", width=64, height=64, num_inference_steps=2, output_type="np",
        generator=torch.Generator().manual_seed(3),
    ).images[0]  # fmt: skip


def test_images_from_before_and_after_are_generated_and_compared(tmp_path, files, base):
    target, events = tmp_path / "small.safetensors", []
    request = ResizeRequest(
        source=files("lora"), target=str(target), rank=1, base=str(base),
        picture="a cat --w 64 --h 64 --s 2 --d 9",
    )  # fmt: skip
    finished = merge_job(merge_of_resize(request), events.append)
    paths = [tmp_path / f"small-{side}.png" for side in ("base", "before", "after")]
    assert finished.outputs == [str(target), *map(str, paths)]
    assert [event.path for event in events if isinstance(event, Sample)] == finished.outputs[1:]
    plain, before, after = (numpy.asarray(Image.open(path)).astype(float) for path in paths)
    lost, effect = abs(after - before).mean(), abs(before - plain).mean()
    assert 0 < lost < effect
    assert f"the one before by {lost:.2f} of 255" in finished.summary[-1]
    assert f"base model's by {effect:.2f}" in finished.summary[-1]
    with pytest.raises(UserError, match="exists already"):
        merge_job(
            merge_of_resize(request.model_copy(update={"target": str(target)})), events.append
        )
    lonely = request.model_copy(update={"base": "", "target": str(tmp_path / "x.safetensors")})
    with pytest.raises(UserError, match="Images to compare need a base model"):
        merge_job(merge_of_resize(lonely), events.append)


def test_the_file_says_what_it_was_merged_from_and_keeps_its_precision(tmp_path, files):
    target = tmp_path / "both.safetensors"
    halves = [files("lora", seed=seed, dtype=torch.float16) for seed in (1, 2)]
    report = merge(target, (halves[0], 1.0), (halves[1], 0.25), to="diffusers")
    assert report[0].startswith("Wrote both.safetensors: kohya -> diffusers, fp16")
    with safe_open(target, "pt") as file:
        metadata = file.metadata()
        assert file.get_tensor(next(iter(file.keys()))).dtype == torch.float16
    assert metadata["modelspec.merged_from"].endswith("(0.25)")
    assert "/" not in metadata["modelspec.merged_from"]
    assert metadata["ss_network_dim"] == "8"


REFUSED = [
    (("dora",), {}, "Add --base MODEL"),
    ((), {}, "there is no LoRA"),
    (("base",), {}, "Expected a LoRA (--lora)"),
    (("lora",), {"into": "base", "rank": 4}, "--rank cannot be used with --into"),
    (("lora",), {"into": "lora"}, "Expected a complete model"),
]


@each(("loras", "options", "what"), REFUSED)
def test_what_cannot_be_merged_is_refused_in_words(tmp_path, files, base, loras, options, what):
    def path(name):
        return str(base) if name == "base" else files(name)

    if "into" in options:
        options = {**options, "into": path(options["into"])}
    target = tmp_path / "out.safetensors"
    with pytest.raises(UserError) as raised:
        merge(target, *((path(name), 1.0) for name in loras), **options)
    assert what in str(raised.value)
    assert not target.exists()


def test_the_gpu_is_waited_for_where_matrices_are_decomposed_on_it(tmp_path, files, base):
    """The report of the wait ends it here, before anything is computed."""

    class Waited(Exception):
        pass

    def report(event):
        raise Waited(event)

    target = str(tmp_path / "out.safetensors")
    loras = [SampledLora(path=files("lora"))]
    merging = MergeRequest(target=target, loras=loras, rank=1, device="cuda")
    extracting = ExtractRequest(target=target, base=str(base), tuned=str(base), device="cuda")
    with owning(places_of("cuda"), Owner("run-001")):
        for job, request in ((merge_job, merging), (extract_job, extracting)):
            with pytest.raises(Waited, match="run-001 uses the device"):
                job(request, report)


def test_resizing_asks_for_a_rank_or_an_energy(tmp_path):
    with pytest.raises(UserError, match="new rank is missing"):
        merge_of_resize(ResizeRequest(source="a.safetensors", target=str(tmp_path / "b")))
