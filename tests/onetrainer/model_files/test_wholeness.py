"""A base model is whole by its header: every name, every shape, and numbers where they belong."""

import json
import shutil

import pytest

from modules.formats.files.component_configs import read_config
from modules.formats.models.component_shapes import shapes_of
from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILIES, family_spec
from onetrainer.model_files.choices import require_family, require_vae
from onetrainer.model_files.inspection import inspect_model
from onetrainer.model_files.wholeness import whole_file
from tests import headers
from tests.each import each

TEXT = "cond_stage_model.transformer.text_model.embeddings.position_embedding.weight"
BASES = [spec for spec in FAMILIES if not spec.base and spec.engine]


def file_of(tmp_path, base="sd15", without="", **changes):
    shapes = whole_file(family_spec(base))
    left = {name: shapes[name] for name in shapes if not without or not name.startswith(without)}
    return headers.write(tmp_path / "model.safetensors", left | changes)


def test_the_list_is_what_the_networks_have():
    for spec in BASES:
        listed = json.loads((spec.configs / "shapes.json").read_text())
        for folder, component in spec.components.items():
            built = shapes_of(component, read_config(spec.configs / folder / "config.json"))
            assert listed[folder] == {name: list(shape) for name, shape in built.items()}


def test_published_models_of_every_family_are_whole(tmp_path):
    for spec in FAMILIES:
        found = inspect_model(file_of(tmp_path, spec.name))
        assert (found.kind, found.problems) == (spec.name, ())
        require_family(found, spec.name)


@each(
    ("options", "message"),
    [
        ({TEXT: (248, 768)}, r"text encoder is not whole: .* shape \[248, 768\], not \[77, 768\]"),
        ({"without": "first_stage_model.encoder."}, "VAE is not whole: 106 tensors are missing"),
        ({"without": "model.diffusion_model.out.2.bias"}, r"1 tensor is missing, first .*out\.2"),
        ({"without": "cond_stage_model.transformer.text_model.enc"}, "encoder is not whole"),
    ],
)
def test_what_a_network_lacks_is_said_before_anything_starts(tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        require_family(inspect_model(file_of(tmp_path, **options)), "sd15")


def test_a_vae_without_an_encoder_is_no_vae_to_train_with(tmp_path):
    path = file_of(tmp_path, without="first_stage_model.encoder.")
    require_family(inspect_model(path), "sd15", has_custom_vae=True)
    start = "first_stage_model."
    decoder = {n: s for n, s in whole_file(family_spec("sd15")).items() if n.startswith(start)}
    decoder = {n: s for n, s in decoder.items() if not n.startswith(f"{start}encoder.")}
    for prefix in (start, ""):
        bare = {n.replace(start, prefix): s for n, s in decoder.items()}
        with pytest.raises(UserError, match=r"VAE is not whole: .* missing"):
            require_vae(inspect_model(headers.write(tmp_path / "vae.safetensors", bare)), "sd15")


def test_a_place_reserved_for_a_download_is_no_model(tmp_path):
    path = file_of(tmp_path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size // 2)
        file.truncate(size)
    with pytest.raises(UserError, match="nothing but zeros, as in half a download"):
        require_family(inspect_model(path), "sd15")
    with path.open("r+b") as file:
        file.truncate(size // 2)
    with pytest.raises(UserError, match="cut short"):
        inspect_model(path)


def folder_of(path, changes):
    """A folder of the published SD 1.5 in diffusers' layout, with other tensors."""
    spec = family_spec("sd15")
    shutil.copytree(spec.configs, path)
    listed = json.loads((path / "shapes.json").read_text())
    for folder, component in spec.components.items():
        shapes = {name: tuple(shape) for name, shape in listed[folder].items()}
        shapes |= changes.get(folder, {})
        headers.write(path / folder / f"{component.weights}.safetensors", shapes)
    return path


def test_folders_are_checked_by_their_configs(tmp_path):
    longer = {"text_encoder": {TEXT.partition("transformer.")[2]: (248, 768)}}
    assert inspect_model(folder_of(tmp_path / "whole", {})).problems == ()
    path = folder_of(tmp_path / "longer", longer)
    with pytest.raises(UserError, match=r"shape \[248, 768\], not \[77, 768\]"):
        require_family(inspect_model(path), "sd15")
    config = path / "text_encoder" / "config.json"
    config.write_text(
        json.dumps({**json.loads(config.read_text()), "max_position_embeddings": 248})
    )
    require_family(inspect_model(path), "sd15")
    (path / "scheduler" / "scheduler_config.json").unlink()
    with pytest.raises(UserError, match=r"scheduler_config\.json is missing"):
        require_family(inspect_model(path), "sd15")
