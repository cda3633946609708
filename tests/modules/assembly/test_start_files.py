"""What a run reports before it encodes a single image, and the files that it goes on from."""

import json

import pytest
import torch

from modules.formats.embeddings.embedding_file import Embedding, write_embedding
from modules.jobs.train import train
from modules.methods.adapters.adapters import Adapters
from modules.training.checkpoints import WEIGHTS_FILE
from onetrainer.errors import UserError
from onetrainer.presets.presets import load_document, resolve, with_absolute_paths
from onetrainer.run.events import Phase
from onetrainer.run.run_folder import create_run
from tests import runs, tiny
from tests.adapters import section, shake
from tests.exports import export

pytestmark = pytest.mark.slow

NO_SAMPLES = {"prompts": [], "every": 0, "at_start": False, "at_end": False}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return runs.write_project(tmp_path_factory.mktemp("project"))


def new_run(config, **sections):
    document = load_document(config) | {"sampling": NO_SAMPLES} | sections
    resolved = with_absolute_paths(resolve(document, source=str(config)))
    return create_run(config.parent / "runs", name="run", config=resolved.model_dump(mode="json"))


def adapter_file(folder, kind="lora"):
    method = Adapters.attach(tiny.family(), section(kind), seed=0)
    shake(method, 0.05)
    path = folder / "old.safetensors"
    export(method, path, dtype=torch.float32, metadata={})
    return path


def embedding_file(folder, name, count):
    path = folder / name / "word.safetensors"  # two files of one name
    path.parent.mkdir()
    write_embedding(path, Embedding("w", {"te": torch.randn(count, tiny.WIDTH)}), dtype=None)
    return path


def phases(folder):
    return {event.name for event in runs.events_of(folder) if isinstance(event, Phase)}


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ({"layers": [{"pattern": "mid_blok"}]}, r"method\.layers\.0\.pattern"),
        ({"start_from": "nowhere.safetensors"}, r"^method\.start_from: .*nowhere.* cannot be read"),
        (
            {
                "targets": "named",
                "layers": [
                    {"pattern": r"text_encoder\..*fc1"},
                    {"pattern": "unet", "train": False},
                ],
                "text_encoders": {"te1": {"train": True, "stop_after": 3}},
            },
            r"after 3 of 6 steps.*method\.text_encoders\.te1\.stop_after\)",
        ),
    ],
)
def test_wrong_layers_and_files_are_reported_before_images_are_encoded(config, method, said):
    folder = new_run(config, method=method)
    with pytest.raises(UserError, match=said):
        train(folder)
    assert phases(folder) == {"loading"}


def test_a_file_that_does_not_fit_is_reported_before_images_are_encoded(config, tmp_path):
    file = adapter_file(tmp_path, "loha")
    folder = new_run(config, method={"start_from": str(file), "rank": 4})
    with pytest.raises(UserError, match="holds LoHa"):
        train(folder)
    assert phases(folder) == {"loading"}


def test_a_missing_file_of_a_token_is_reported_with_its_setting(config):
    words = [{"token": "a", "initial_text": "cat"}, {"token": "b", "start_from": "/nowhere/b.pt"}]
    folder = new_run(config, embeddings={"tokens": words})
    with pytest.raises(UserError, match=r"^embeddings\.tokens\.1\.start_from: /nowhere/b\.pt"):
        train(folder)


def test_a_run_goes_on_as_it_began_when_its_start_files_are_gone(config, tmp_path):
    files = [
        adapter_file(tmp_path),
        *(embedding_file(tmp_path, name, 2) for name in ("one", "two")),
    ]
    words = [
        {"token": "red", "start_from": str(files[1]), "place": "output"},
        {"token": "blue", "start_from": str(files[2]), "train": False},
    ]
    method = {"start_from": str(files[0]), "rank": 4, "alpha": 2.0}
    straight, other = (
        new_run(config, method=method, embeddings={"tokens": words}, training=training)
        for training in (runs.SETTINGS["training"], runs.SETTINGS["training"] | {"steps": 3})
    )
    assert [train(straight), train(other)] == [0, 0]
    files[0].unlink()
    files[1].unlink()
    write_embedding(files[2], Embedding("w", {"te": torch.zeros(5, tiny.WIDTH)}), dtype=None)
    document = json.loads(other.config.read_text())
    document["training"]["steps"] = 6
    other.config.write_text(json.dumps(document))
    assert train(other) == 0
    one, two = (folder.checkpoint(6) / WEIGHTS_FILE for folder in (straight, other))
    assert one.read_bytes() == two.read_bytes()


def test_a_decoder_that_trains_uses_the_images_of_other_methods(config):
    latents = config.parent / "runs" / "cache"
    training = {"steps": 1, "batch_size": 2}
    assert train(new_run(config, training=training)) == 0
    before = {path.name for path in latents.rglob("*") if "latents" in str(path)}
    vae = {"kind": "vae", "weights": "bf16"}
    folder = new_run(
        config, training=training, method=vae, objective={"kind": "reconstruction", "lpips": 0.0}
    )
    assert train(folder) == 0
    assert before == {path.name for path in latents.rglob("*") if "latents" in str(path)} != set()
