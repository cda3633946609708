"""Base models between folders and single files, against diffusers' own loaders."""

import json
import shutil
from collections import namedtuple

import numpy
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from modules.families.load import load
from modules.formats.files.tensor_source import TensorReader
from modules.jobs.convert import convert
from onetrainer.config.run.model import Model
from onetrainer.errors import UserError
from onetrainer.families.registry import family_spec
from onetrainer.jobs.convert_request import ConvertRequest
from onetrainer.model_files.inspection import inspect_model
from tests.cases import cases
from tests.close import close
from tests.modules.formats import small_models
from tests.modules.formats.small_models import FAMILIES, assert_equal, read_folder

INPAINTING, VELOCITY, XL = ALWAYS = (
    ("sd15-inpainting", "epsilon"),
    ("sd2", "v_prediction"),
    ("sdxl", "epsilon"),
)


def families(*few):
    """Some families in every run, the others among the long tests."""
    return pytest.mark.parametrize(("family", "prediction"), cases(FAMILIES, few))


UNET = "model.diffusion_model."
Usage = namedtuple("Usage", "total used free")


def metadata_of(path):
    with safe_open(path, framework="pt") as file:
        return file.metadata()


def images(pipeline, family):
    """What a pipeline generates: (2, 64, 64, 3) in [0, 1], without its own progress bar."""
    pipeline.set_progress_bar_config(disable=True)
    options = {}
    if family.endswith("-inpainting"):
        options = {"image": torch.zeros(1, 3, 64, 64), "mask_image": torch.ones(1, 1, 64, 64)}
    return pipeline(
        "a cat",
        num_inference_steps=2,
        height=64,
        width=64,
        generator=torch.Generator().manual_seed(0),
        output_type="np",
        **options,
    ).images


@families(INPAINTING, XL)
def test_file_to_folder_to_file_gives_equal_bytes(tmp_path, singles, run, family, prediction):
    tensors = load_file(singles[family, prediction])
    # What a genuine file holds besides, and no folder: its own values have to survive.
    tensors |= {"alphas_cumprod": torch.rand(1000), "other.thing": torch.rand(3).half()}
    for name in tensors:
        if name.endswith("logit_scale"):
            tensors[name] = torch.tensor(4.2)
        if name.endswith("resblocks.3.ln_1.weight"):
            tensors[name] = torch.rand(24)
    save_file(tensors, tmp_path / "one.safetensors", metadata_of(singles[family, prediction]))
    run(tmp_path / "one.safetensors", tmp_path / "folder")
    run(tmp_path / "folder", tmp_path / "two.safetensors")
    assert_equal(load_file(tmp_path / "two.safetensors"), tensors)
    run(tmp_path / "one.safetensors", tmp_path / "three.safetensors")
    assert (tmp_path / "three.safetensors").read_bytes() == (
        tmp_path / "two.safetensors"
    ).read_bytes()


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # diffusers' own
@families(VELOCITY)
def test_diffusers_reads_our_file_and_our_folder_as_the_source(
    tmp_path, folders, singles, run, no_network, family, prediction
):
    source, pipeline = folders[family, prediction], small_models.PIPELINES[family]
    run(singles[family, prediction], tmp_path / "folder", prediction=prediction)
    expected = pipeline.from_pretrained(source, local_files_only=True)
    folder = pipeline.from_pretrained(tmp_path / "folder", local_files_only=True)
    file = pipeline.from_single_file(
        str(singles[family, prediction]), config=str(source), local_files_only=True
    )
    image = images(expected, family)
    assert numpy.ptp(image) > 0.01
    for found in (folder, file):
        for name in ("unet", "vae", "text_encoder", "text_encoder_2"):
            if hasattr(expected, name):
                states = (getattr(one, name).state_dict() for one in (found, expected))
                assert_equal(*states)
        assert found.scheduler.config["prediction_type"] == prediction
        close(images(found, family), image)


@pytest.mark.parametrize(
    ("precision", "target"),
    [
        ("fp16", "one.safetensors"),
        ("bf16", "folder"),
    ],
)
def test_every_weight_has_the_precision_that_was_asked_for(
    tmp_path, folders, run, precision, target
):
    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]
    run(folders["sdxl", "epsilon"], tmp_path / target, precision=precision)
    path = tmp_path / target
    found = load_file(path) if path.is_file() else read_folder(path)
    floats = [tensor for tensor in found.values() if tensor.is_floating_point()]
    assert {tensor.dtype for tensor in floats} == {dtype}
    source = read_folder(folders["sdxl", "epsilon"])
    if path.is_dir():
        assert_equal(found, {name: tensor.to(dtype) for name, tensor in source.items()})


def test_tables_of_the_noise_schedule_keep_their_precision(tmp_path, singles, run):
    tensors = load_file(singles["sd15", "epsilon"]) | {"alphas_cumprod": torch.rand(1000)}
    save_file(tensors, tmp_path / "one.safetensors")
    run(tmp_path / "one.safetensors", tmp_path / "two.safetensors", precision="fp16")
    found = load_file(tmp_path / "two.safetensors")
    assert torch.equal(found["alphas_cumprod"], tensors["alphas_cumprod"])
    assert found[f"{UNET}out.2.weight"].dtype == torch.float16


def test_sd2_file_made_of_a_folder_has_what_programs_expect(tmp_path, folders, run):
    notes = run(folders["sd2", "v_prediction"], tmp_path / "one.safetensors")
    found = load_file(tmp_path / "one.safetensors")
    start = "cond_stage_model.model."
    last = {n: t for n, t in found.items() if n.startswith(f"{start}transformer.resblocks.2.")}
    assert len(last) == 12
    for name, tensor in last.items():
        assert torch.equal(found[name.replace("resblocks.2", "resblocks.3")], tensor)
    assert torch.equal(found[f"{start}text_projection"], torch.eye(24))
    assert found[f"{start}logit_scale"].item() == pytest.approx(4.6052, abs=1e-4)
    assert any("Added 14 standard tensors" in note for note in notes)


def test_file_made_of_a_folder_has_the_buffers_of_genuine_files(singles):
    end = "transformer.text_model.embeddings.position_ids"
    for family, name in (("sd15", "cond_stage_model"), ("sdxl", "conditioner.embedders.0")):
        found = load_file(singles[family, "epsilon"])
        assert torch.equal(found[f"{name}.{end}"], torch.arange(77)[None])
    assert "conditioner.embedders.1.model.logit_scale" in found


@families(*ALWAYS)
def test_markers_and_scheduler_flags_say_what_the_model_predicts(
    tmp_path, folders, run, family, prediction
):
    source = folders[family, prediction]
    is_v = prediction == "v_prediction"
    run(source, tmp_path / "one.safetensors", zero_terminal_snr="on" if is_v else "auto")
    run(tmp_path / "one.safetensors", tmp_path / "folder", prediction=prediction)
    found = load_file(tmp_path / "one.safetensors")
    assert ({"v_pred", "ztsnr"} <= found.keys()) == is_v
    assert not is_v or found["v_pred"].shape == (0,)
    scheduler = json.loads((tmp_path / "folder/scheduler/scheduler_config.json").read_text())
    assert scheduler["prediction_type"] == prediction
    assert bool(scheduler.get("rescale_betas_zero_snr")) == is_v
    assert (scheduler["timestep_spacing"] == "trailing") == is_v
    index = json.loads((tmp_path / "folder/model_index.json").read_text())
    assert index["_class_name"] == small_models.PIPELINES[family].__name__
    assert index["scheduler"] == ["diffusers", scheduler["_class_name"]]
    unet = json.loads((tmp_path / "folder/unet/config.json").read_text())
    assert unet["in_channels"] == (9 if family.endswith("-inpainting") else 4)


def test_a_chosen_prediction_replaces_markers_and_scheduler_flags(tmp_path, folders, run):
    source, one, two = folders["sd15", "epsilon"], tmp_path / "v.safetensors", tmp_path / "eps"
    notes = run(source, one, prediction="v_prediction")
    assert "says that it predicts noise" in str(notes)
    assert "v_pred" in load_file(one)
    run(one, two, prediction="epsilon")
    scheduler = json.loads((two / "scheduler/scheduler_config.json").read_text())
    assert scheduler["prediction_type"] == "epsilon"
    assert inspect_model(two).prediction == "epsilon"


def test_zero_snr_model_of_sd15_gets_a_scheduler_that_can_rescale(tmp_path, singles, run):
    options = {"prediction": "v_prediction", "zero_terminal_snr": "on"}
    tensors = load_file(singles["sd15", "epsilon"])
    save_file(tensors, tmp_path / "untold.safetensors")
    run(tmp_path / "untold.safetensors", tmp_path / "folder", **options)
    pipeline = small_models.PIPELINES["sd15"].from_pretrained(tmp_path / "folder")
    assert type(pipeline.scheduler).__name__ == "DDIMScheduler"
    assert pipeline.scheduler.alphas_cumprod[-1] == 0


def test_file_says_what_it_is(singles):
    found = metadata_of(singles["sd2", "v_prediction"])
    assert found["modelspec.architecture"] == "stable-diffusion-v2-768-v"
    assert found["modelspec.resolution"] == "768x768"
    assert found["modelspec.prediction_type"] == "v"
    assert found["modelspec.hash_sha256"] == "0x" + found["sshs_model_hash"]
    assert "_name_or_path" not in found.pop("onetrainer.configs")
    assert not any("/" in text for text in found.values())


def test_metadata_of_the_source_is_kept_and_its_hashes_are_not(tmp_path, singles, run):
    said = {"modelspec.title": "T", "mine": "x", "modelspec.prediction_type": "epsilon"}
    save_file(
        load_file(singles["sd15", "epsilon"]),
        tmp_path / "one.safetensors",
        said | {"sshs_model_hash": "0"},
    )
    run(tmp_path / "one.safetensors", tmp_path / "folder")
    run(tmp_path / "folder", tmp_path / "two.safetensors")
    found = metadata_of(tmp_path / "two.safetensors")
    assert said.items() <= found.items()
    assert found["modelspec.sai_model_spec"] == "1.0.1"  # what it did not say is filled in
    assert found["sshs_model_hash"] != "0"


@pytest.mark.parametrize("target", ["one.safetensors", "folder"])
def test_what_exists_is_replaced_only_when_allowed(tmp_path, folders, run, target):
    run(folders["sd15", "epsilon"], tmp_path / target)
    with pytest.raises(UserError, match="already exists"):
        run(folders["sd15", "epsilon"], tmp_path / target)
    run(folders["sd15", "epsilon"], tmp_path / target, precision="fp16", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == [target]
    path = tmp_path / target
    found = load_file(path) if path.is_file() else read_folder(path)
    assert torch.float32 not in {tensor.dtype for tensor in found.values()}


def test_folder_that_holds_something_else_is_never_replaced(tmp_path, folders, run):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match="something other than a model"):
        run(folders["sd15", "epsilon"], tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize("target", ["one.safetensors", "folder"])
def test_interrupted_writing_leaves_nothing(tmp_path, folders, run, monkeypatch, target):
    read, count = TensorReader.read, 0

    def interrupted(self, name):
        nonlocal count
        count += 1
        if count > 800:  # after the UNet, within another component
            raise KeyboardInterrupt
        return read(self, name)

    monkeypatch.setattr(TensorReader, "read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(folders["sd15", "epsilon"], tmp_path / target)
    assert count > 800
    assert not list(tmp_path.iterdir())


def test_full_disk_is_reported_before_anything_is_written(tmp_path, folders, run, monkeypatch):
    source = folders["sd15", "epsilon"]
    sizes = [path.stat().st_size for path in source.glob("*/*.safetensors")]
    # Enough for each of a folder's files alone, but not for all of them.
    for target, free in (("one.safetensors", 1000), ("folder", max(sizes) + 1000)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: Usage(10, 10, free))
        with pytest.raises(UserError, match=f"/{target}: .* are needed, and the disk has .* free"):
            run(source, tmp_path / target)
    assert not list(tmp_path.iterdir())


def test_target_that_does_not_fit_its_format_is_refused(tmp_path, folders, run):
    for target, to, message in (
        ("one.ckpt", "", r"written as \.safetensors only"),
        ("one", "original", r"written as \.safetensors only"),
        ("one.safetensors", "diffusers", "expected a folder name"),
        ("one", "kohya", "no format for a base model"),
    ):
        with pytest.raises(UserError, match=message):
            run(folders["sd15", "epsilon"], tmp_path / target, to=to)
    for target in ("", "new.safetensors", "..", "x/../../"):  # of the source, in it or around it
        with pytest.raises(UserError, match="this would overwrite"):
            run(folders["sd15", "epsilon"], folders["sd15", "epsilon"] / target, overwrite=True)
    assert not list(tmp_path.iterdir())


def test_a_file_of_unusual_size_opens_if_this_program_wrote_it(tmp_path, folders):
    def changed(source, target):
        convert(ConvertRequest(source=str(source), target=str(target)), lambda _: None)
        return target

    folder = folders["sd15", "epsilon"]
    one = changed(folder, tmp_path / "one.safetensors")
    back = changed(one, tmp_path / "back")
    assert_equal(read_folder(back), read_folder(folder))
    for config in ("unet", "vae", "text_encoder"):
        shown = [json.loads((at / config / "config.json").read_text()) for at in (folder, back)]
        assert shown[0] == shown[1]
    spec = family_spec("sd15")
    options = {"compute_dtype": torch.float32, "device": torch.device("cpu")}
    assert load(spec, Model(path=str(one)), **options).unet.config["layers_per_block"]
    save_file(load_file(one), tmp_path / "other.safetensors")
    with pytest.raises(UserError, match="unusual size"):
        changed(tmp_path / "other.safetensors", tmp_path / "folder")
    damaged = metadata_of(one) | {"onetrainer.configs": '{"../evil": {}}'}
    save_file(load_file(one), tmp_path / "other.safetensors", damaged)
    with pytest.raises(UserError, match="unusual size"):
        changed(tmp_path / "other.safetensors", tmp_path / "folder")


def test_a_checkpoint_is_named_as_one(tmp_path):
    folder = tmp_path / "run" / "checkpoints" / "step-000001"
    folder.mkdir(parents=True)
    for name in ("state.json", "optimizer.safetensors"):
        (folder / name).touch()
    with pytest.raises(UserError, match=r"checkpoint of a run.*run.output") as caught:
        convert(ConvertRequest(source=str(folder), target=str(tmp_path / "x")), lambda _: None)
    assert "optimizer" not in str(caught.value)


def test_progress_is_reported(tmp_path, folders, configs, monkeypatch):
    reported = []
    monkeypatch.setattr("modules.jobs.convert._SECONDS_PER_PHASE", -1.0)
    source, target = folders["sd15", "epsilon"], tmp_path / "one.safetensors"
    convert(
        ConvertRequest(source=str(source), target=str(target)), reported.append, configs=configs
    )
    assert [phase.name for phase in reported[:2]] == ["loading", "saving"]
    counts = [phase.done for phase in reported[2:]]
    assert counts == list(range(1, len(read_folder(source)) + 1))
    assert {phase.total for phase in reported[2:]} == {len(counts)}


def test_what_only_a_folder_can_hold_is_noted(tmp_path, folders, run):
    shutil.copytree(folders["sd15", "epsilon"], tmp_path / "odd")
    path = tmp_path / "odd" / "vae" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"scaling_factor": 0.5}))
    notes = run(tmp_path / "odd", tmp_path / "one.safetensors")
    assert any("scaling_factor is 0.5" in note for note in notes)
    assert not any("scaling" in note for note in run(tmp_path / "odd", tmp_path / "folder"))
