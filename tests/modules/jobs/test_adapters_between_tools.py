"""What any tool writes, every other tool reads: files of adapters go round."""

import pytest
import torch

from modules.formats.lora.convert_lora import convert_lora
from modules.formats.lora.lora_file import read_lora
from modules.jobs.extract import extract
from modules.jobs.merge import merge
from modules.methods.adapters.adapters import Adapters
from modules.methods.layers.layer_presets import layer_names
from modules.methods.merge import MergedLoras
from onetrainer.jobs.lora_requests import ExtractRequest, MergeRequest
from onetrainer.jobs.sample_request import SampledLora
from onetrainer.model_files.adapters import adapter_at
from tests import adapters, exports, tiny
from tests.each import few_each

TOOLS = ("convert-kohya", "convert-diffusers", "convert-comfyui", "merge", "resize")
MAKERS = (
    *adapters.KINDS,
    *(f"{tool} {kind}" for tool in TOOLS for kind in ("lora", "dora-outputs")),
)
DIAGONAL = (
    "lora",
    "dora",
    "lokr",
    "oft",
    "extract",
    "convert-diffusers lora",
    "resize dora-outputs",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A base model, and the file of each maker, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("made")
    base, files = tiny.write_folder(folder / "base"), {}

    def of(maker):
        if maker not in files:
            files[maker] = folder / f"{maker.replace(' ', '-')}.safetensors"
            make(maker, files[maker], base, of)
        return files[maker]

    return base, of


def make(maker, target, base, of):
    tool, _, kind = maker.rpartition(" ")
    if tool:
        return run(tool, of(kind), target, base)
    if kind == "extract":
        merged = target.with_name("tuned")
        run("bake", of("lora"), merged, base)
        request = ExtractRequest(base=str(base), tuned=str(merged), target=str(target), energy=1)
        return extract(request, lambda event: None)
    method = Adapters.attach(tiny.family(), adapters.section(kind, text=True), seed=0)
    adapters.shake(method, scale=0.1)
    return exports.export(method, target, dtype=torch.float32, metadata={})


def run(tool, source, target, base):
    match tool.split("-"):
        case ["convert", naming]:
            wishes = {"family": "sd15", "precision": "keep", "overwrite": False}
            convert_lora(source, target, naming=naming, **wishes)
        case ["show"]:
            assert adapter_at(source).problems == []
        case ["try"]:
            family = tiny.family()
            MergedLoras(family).replace([(read_lora(source, layer_names(family)), 0.5)])
        case ["start"]:
            go_on(source)
        case _:
            given = {"into" if tool == "bake" else "base": str(base)}
            given |= {"energy": 1.0} if tool == "resize" else {}
            loras = [SampledLora(path=str(source), strength=1)]
            merge(MergeRequest(target=str(target), loras=loras, **given), lambda e: None)


def go_on(source):
    """Training that continues from a file, of the kind that the file is of."""
    title = adapter_at(source).title()
    dora = "dora-outputs" if "outputs" in source.stem else "dora"
    kinds = {"a DoRA": dora, "a LoHa": "loha", "an OFT": "oft", "an IA3": "ia3", "a LoRA": "lora"}
    rank = {"rank": 0} if title in ("a LoRA", "a DoRA", "a LoHa") else {}
    kind = kinds.get(title, source.stem)  # a LoKr's sizes follow from its settings
    section = adapters.section(kind, text=True, start_from=str(source), **rank)
    method = Adapters.attach(tiny.family(), section, seed=3)
    assert not any("scratch" in note for note in method.notes)


@few_each(("maker",), (*MAKERS, "extract"), DIAGONAL)
def test_what_a_tool_writes_every_other_reads(made, tmp_path, maker):
    base, of = made
    for tool in ("show", *TOOLS, "bake", "try", "start"):
        is_named = adapter_at(of(maker)).title() == "a LoRA" or "outputs" in maker
        if tool != "convert-diffusers" or is_named:
            run(tool, of(maker), tmp_path / tool / f"{of(maker).name}", base)
