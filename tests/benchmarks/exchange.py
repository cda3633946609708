"""What goes between programs unchanged, in figures: `python -m tests.benchmarks.exchange`.

Tiny models of every family go from a diffusers folder to a single file and back, and into diffusers
from both; LoRA files of every naming give images in diffusers and here; prompts are encoded by
both. Every figure is the largest absolute difference: of tensors, of pixels in [0, 1], of
encodings. The tests hold them below the tolerances that they name.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import torch
from diffusers import (
    DDIMScheduler,
    StableDiffusionInpaintPipeline,
    StableDiffusionPipeline,
    StableDiffusionXLInpaintPipeline,
    StableDiffusionXLPipeline,
)
from safetensors.torch import load_file

from modules.formats.lora.lora_file import read_lora
from modules.jobs.convert import convert
from modules.methods.layers.layer_presets import layer_names
from modules.methods.merge import merge_loras
from modules.sampling.sampler import sample
from onetrainer.config.run.sampling import Prompt
from onetrainer.jobs.convert_request import ConvertRequest
from tests import tiny
from tests.benchmarks.lines import say
from tests.exports import export
from tests.modules.methods.adapters.test_lora_exchange import trained
from tests.own_user import own_user

PIPELINES = {
    "sd15": StableDiffusionPipeline,
    "sd15-inpainting": StableDiffusionInpaintPipeline,
    "sd2": StableDiffusionPipeline,
    "sd2-inpainting": StableDiffusionInpaintPipeline,
    "sdxl": StableDiffusionXLPipeline,
    "sdxl-inpainting": StableDiffusionXLInpaintPipeline,
}
# Without "!", which the tokenizers of SD 2 and SDXL take for padding, and we do not.
PROMPTS = ("", "a cat", "wow (détail:1.2), " * 7)
STEPS, GUIDANCE = 4, 3.0


def main() -> None:
    warnings.simplefilter("ignore")  # diffusers' own
    torch.set_num_threads(1)
    tiny.layers_per_block = 2  # diffusers reads no single file of networks with fewer
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for family in sys.argv[1:] or tiny.FAMILIES:
            _round_trip(folder / family, family)
        for family in sys.argv[1:] or ("sd15", "sd2", "sdxl"):
            _loras(folder / family, family)
            _prompts(folder / family, family)


def _round_trip(home: Path, name: str) -> None:
    home.mkdir()
    tiny.write_folder(home / "folder", name=name)
    _convert(home / "folder", home / "file.safetensors", home / "folder")
    _convert(home / "file.safetensors", home / "back", home / "folder")
    tensors = 0
    for part in sorted((home / "folder").glob("*/*.safetensors")):
        one, other = load_file(part), load_file(home / "back" / part.relative_to(home / "folder"))
        assert one.keys() == other.keys(), part
        assert all(torch.equal(one[key], other[key]) for key in one), part
        tensors += len(one)
    theirs = PIPELINES[name].from_pretrained(home / "folder", local_files_only=True)
    single = PIPELINES[name].from_single_file(
        home / "file.safetensors", config=str(home / "folder"), local_files_only=True
    )
    difference = float(abs(_generate(theirs, name) - _generate(single, name)).max())
    say(
        "exchange",
        family=name,
        result=f"folder -> file -> folder: {tensors} tensors, equal bit for bit",
    )
    say(
        "exchange",
        family=name,
        result=f"image by diffusers from our file against from the folder: {difference:.1e}",
    )


def _convert(source: Path, target: Path, configs: Path) -> None:
    request = ConvertRequest(source=str(source), target=str(target), prediction="auto")
    models = configs.parent / "models"
    if not models.exists():
        models.mkdir()
        for base in ("sd15", "sd2", "sdxl"):
            (models / base).symlink_to(configs)
    convert(request, lambda _: None, configs=models)


def _generate(pipe, name: str, prompt: Prompt | None = None):
    pipe.set_progress_bar_config(disable=True)
    # As SD's own config has it, for SDXL too, whose config is Euler's.
    own = {"set_alpha_to_one": False, "clip_sample": False, "timestep_spacing": "leading"}
    pipe.scheduler = DDIMScheduler.from_config(pipe.scheduler.config, steps_offset=1, **own)
    extra = {}
    if name.endswith("-inpainting"):
        extra = {"image": torch.zeros(1, 3, 64, 64), "mask_image": torch.ones(1, 1, 64, 64)}
    return pipe(
        "a cat",
        negative_prompt="",
        num_inference_steps=STEPS,
        guidance_scale=GUIDANCE,
        height=64,
        width=64,
        generator=torch.Generator().manual_seed(0),
        output_type="np",
        **extra,
    ).images


def _loras(home: Path, name: str) -> None:
    _, method = trained(name)
    prompt = Prompt(prompt="a cat", seed=0, width=64, height=64)
    plain = sample(tiny.family(name), [prompt], steps=STEPS, guidance=GUIDANCE)
    for naming in ("kohya", "diffusers", "comfyui"):
        path = home / f"{naming}.safetensors"
        export(method, path, dtype=torch.float32, metadata={}, naming=naming)
        family = tiny.family(name)
        merge_loras(family, [(read_lora(path, layer_names(family)), 1.0)])
        merged = sample(family, [prompt], steps=STEPS, guidance=GUIDANCE)
        attached = sample(trained(name)[0], [prompt], steps=STEPS, guidance=GUIDANCE)
        text = f"LoRA as {naming}: effect {_pixels(merged, plain):.2f}"
        text += f", merged by the formula against attached {_pixels(merged, attached):.1e}"
        if naming != "comfyui":
            pipe = PIPELINES[name].from_pretrained(home / "folder", local_files_only=True)
            pipe.load_lora_weights(home, weight_name=path.name)
            theirs = torch.from_numpy(_generate(pipe, name)).permute(0, 3, 1, 2) * 2 - 1
            text += f", diffusers against ours {_pixels(attached, theirs):.1e}"
        say("exchange", family=name, result=text)


def _pixels(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max()) / 2


def _prompts(home: Path, name: str) -> None:
    pipe = PIPELINES[name].from_pretrained(home / "folder", local_files_only=True)
    family, worst = tiny.family(name), 0.0
    for prompt in PROMPTS:
        with torch.no_grad():
            ours = family.encode_text([prompt])
            if name == "sdxl":
                hidden, _, pooled, _ = pipe.encode_prompt(prompt, do_classifier_free_guidance=False)
                worst = max(worst, float((ours.pooled - pooled).abs().max()))
            else:
                hidden, _ = pipe.encode_prompt(prompt, "cpu", 1, False)
        worst = max(worst, float((ours.hidden - hidden).abs().max()))
    say("exchange", family=name, result=f"prompts against diffusers' pipeline: {worst:.1e}")


if __name__ == "__main__":
    with own_user():
        main()
