"""What opening a large model costs: `python -m tests.benchmarks.loading FOLDER`.

Writes full-size random models (fp16: SD 1.5 2 GB, SDXL 7 GB), as a file and as a folder, into a
folder inside FOLDER, and removes them after. Each is loaded in bf16 by our loader and by diffusers,
in a fresh process each; all find the model in the system's cache. peak: the most memory that the
process ever had resident. libraries: what it had before it began to load. weights: what it holds in
the end. Only on Linux, which reports the peak.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import torch
from torch import Size, Tensor, nn

from modules.formats.files.component_configs import MODELS
from modules.formats.files.tensor_source import LazyTensor
from modules.formats.models.component_shapes import shapes_of
from modules.formats.models.model_folder import write_model_folder
from modules.formats.models.single_file import write_single_file
from modules.formats.models.whole_model import WholeModel, describe
from onetrainer.families.registry import family_spec
from tests.own_user import own_user

BASES = ("sd15", "sdxl")
LOADERS = ("ours", "diffusers", "ours-folder", "diffusers-folder")
MIB = 1024**2
NOISE = 1024**2  # numbers, repeated over each tensor: sampling billions would take minutes
SCALE = 0.02  # small enough for every norm to stay finite


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--base", choices=BASES)
    parser.add_argument("--loader", choices=LOADERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loader:
        _report(_load(options.loader, options.folder, options.base))
        return
    for base in [options.base] if options.base else BASES:
        _compare(options.folder, base)


def _compare(folder: Path, base: str, models: Path = MODELS) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        home = Path(name)
        _write_configs(home / "configs", models / base)
        _write_model(home, base, models / base)
        for loader in LOADERS:
            _read_once(home / ("folder" if "folder" in loader else "model.safetensors"))
            command = [sys.executable, "-m", "tests.benchmarks.loading", str(home), "--base", base]
            result = subprocess.run(
                [*command, "--loader", loader], stdout=subprocess.PIPE, check=True, text=True
            )
            sys.stdout.write(result.stdout)
            sys.stdout.flush()


def _write_configs(folder: Path, source: Path) -> None:
    """What diffusers needs to open a file without a network: configs and whole tokenizers."""
    shutil.copytree(source, folder)
    for tokenizer in folder.glob("tokenizer*"):
        for file in ("vocab.json", "merges.txt"):
            shutil.copyfile(MODELS / "sd15" / "tokenizer" / file, tokenizer / file)


def _read_once(place: Path) -> None:
    for file in [place] if place.is_file() else place.rglob("*.safetensors"):
        with file.open("rb", buffering=0) as handle:
            while handle.read(1 << 24):
                pass


def _write_model(home: Path, base: str, configs: Path) -> None:
    spec = family_spec(base)
    description = describe(configs, spec, prediction="epsilon", zero_terminal_snr=False)
    noise = (torch.randn(NOISE, generator=torch.Generator().manual_seed(0)) * SCALE).half()
    components = {
        component: {
            name: LazyTensor(torch.float16, shape, _reader(noise, shape))
            for name, shape in shapes_of(spec.components[component], config).items()
        }
        for component, config in description.configs.items()
    }
    model = WholeModel(description, components, None, {})
    write_single_file(home / "model.safetensors", model, dtype=None, metadata={}, overwrite=False)
    write_model_folder(home / "folder", model, dtype=None, overwrite=False)


def _reader(noise: Tensor, shape: Size) -> Callable[[], Tensor]:
    count = shape.numel()
    return lambda: noise.repeat(-(-count // len(noise)))[:count].view(shape)


def _load(loader: str, home: Path, base: str) -> dict[str, object]:
    kind, _, place = loader.partition("-")
    path = home / (place or "model.safetensors")
    start_of, components_of = {"ours": _ours, "diffusers": _theirs}[kind](path, base)
    libraries = _resident("VmRSS")
    start = perf_counter()
    loaded = start_of()
    seconds = perf_counter() - start
    peak = _resident("VmHWM")
    weights = sum(
        tensor.numel() * tensor.element_size()
        for part in components_of(loaded)
        for tensor in part.state_dict().values()
    )
    return {
        "benchmark": "loading",
        "base": base,
        "loader": loader,
        "weights_mib": round(weights / MIB),
        "peak_mib": round(peak / MIB),
        "libraries_mib": round(libraries / MIB),
        "peak_of_weights": round(peak / weights, 3),
        "peak_without_libraries_of_weights": round((peak - libraries) / weights, 3),
        "seconds": round(seconds, 2),
    }


def _ours(path: Path, base: str) -> tuple[Callable[[], object], Callable[..., Iterator[nn.Module]]]:
    from modules.families.load import load as load_family
    from onetrainer.config.run.model import Model
    from onetrainer.families.registry import family_spec

    section = Model(path=str(path), family=base)

    def load() -> object:
        return load_family(
            family_spec(base),
            section,
            compute_dtype=torch.bfloat16,
            device=torch.device("cpu"),
            configs=path.parent / "configs",
        )

    return load, lambda family: iter((family.unet, family.vae, *family.text_encoders.values()))


def _theirs(
    path: Path, base: str
) -> tuple[Callable[[], object], Callable[..., Iterator[nn.Module]]]:
    from diffusers import StableDiffusionPipeline, StableDiffusionXLPipeline

    pipeline = {"sd15": StableDiffusionPipeline, "sdxl": StableDiffusionXLPipeline}[base]

    def load() -> object:
        options = {"local_files_only": True, "torch_dtype": torch.bfloat16}
        if path.is_dir():
            return pipeline.from_pretrained(path, **options)
        return pipeline.from_single_file(str(path), config=str(path.parent / "configs"), **options)

    return load, lambda loaded: (
        part for part in loaded.components.values() if isinstance(part, nn.Module)
    )


def _resident(field: str) -> int:
    """Bytes of a field of this process's memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def _report(result: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    with own_user():
        main()
