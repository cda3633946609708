"""Component configs within a single file, of models with other sizes than the published ones."""

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

from modules.formats.files.component_configs import Config, read_config
from modules.formats.models.component_shapes import shapes_of
from modules.formats.models.whole_model import INDEX, Description
from onetrainer.families.spec import FamilySpec
from onetrainer.model_files.kinds import ModelFile
from onetrainer.model_files.sizes import CONFIGS_KEY

SCHEDULER = "scheduler/scheduler_config.json"


def configs_to_store(description: Description) -> dict[str, str]:
    """Return the metadata by which a single file can be opened again; none for published sizes."""
    spec = description.family
    if not any(_differs(spec, name, config) for name, config in description.configs.items()):
        return {}
    files = {f"{name}/config.json": config for name, config in description.configs.items()}
    files |= {SCHEDULER: description.scheduler, INDEX: description.index}
    return {CONFIGS_KEY: json.dumps(files, sort_keys=True)}


def config_folder(model: ModelFile, published: Path) -> Path:
    """Return the folder with a model's configs: its own, else those its file holds, if any."""
    if model.layout == "folder":
        return model.path
    return _unpacked(model.stored_configs) if model.stored_configs else published


def has_own_configs(model: ModelFile) -> bool:
    """Return whether a model comes with the configs of its components."""
    return model.layout == "folder" or bool(model.stored_configs)


def _differs(spec: FamilySpec, name: str, config: Config) -> bool:
    published: Config = read_config(spec.configs / name / "config.json")
    if name == spec.unet.folder:
        published = {**published, "in_channels": spec.unet_channels}
    component = spec.components[name]
    return config != published and shapes_of(component, config) != shapes_of(component, published)


@cache
def _unpacked(configs: str) -> Path:
    """Return a temporary folder, of this process, with the configs of a file."""
    folder = Path(tempfile.mkdtemp(prefix="onetrainer-configs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, config in json.loads(configs).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(config), encoding="utf-8")
    return folder
