"""What is known to be wrong before a run starts, with real files."""

import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from onetrainer.checks.preflight import all_problems, document_problems, require_startable
from onetrainer.errors import Fix, ProblemsError
from onetrainer.presets.presets import resolve
from onetrainer.rules.rules import check_rules
from tests import headers, tiny
from tests.each import each


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("preflight")
    tiny.write_folder(folder / "base")
    tiny.write_images(folder / "pictures")
    return folder


def config(project: Path, **changes):
    document = {
        "model": {"path": str(project / "base")},
        "data": {"folder": str(project / "pictures"), "resolution": 64},
        "output": {"folder": str(project / "runs")},
    }
    for section, values in changes.items():
        document[section] = {**document.get(section, {}), **values}
    return resolve(document, source="test")


def problem(made):
    (found,) = all_problems(made)
    assert found.remedy
    return found


def test_a_sound_config_has_no_problems(project):
    assert require_startable(all_problems(config(project))) == []


def test_a_single_file_of_unusual_size_is_refused_and_its_folder_is_not(project, tmp_path):
    path = tiny.write_single_file(tmp_path / "small.safetensors")
    found = problem(config(project, model={"path": str(path)}))
    assert found.path == "model.path"
    assert "unusual size" in found.what
    assert "model_format=diffusers" in found.remedy
    folder = tiny.write_folder(tmp_path / "small")
    assert all_problems(config(project, model={"path": str(folder)})) == []


def test_an_sdxl_file_is_named_as_such(project, tmp_path):
    path = tiny.write_sdxl(tmp_path / "xl.safetensors")
    found = problem(config(project, model={"path": str(path)}))
    assert found.path == "model.family"
    assert "this is an SDXL model" in found.what
    assert 'to "sdxl"' in found.remedy


@each(
    ("changes", "place", "words"),
    [
        ({"zero_terminal_snr": "on"}, "model.zero_terminal_snr", 'to "off"'),
        ({"zero_terminal_snr": "on", "prediction": "epsilon"}, "model.zero_terminal_snr", '"off"'),
        ({"vae": "pictures"}, "model.vae", "Choose the folder that holds"),
        ({"vae": "nothing.safetensors"}, "model.vae", "Check the path"),
        ({"path": "pictures"}, "model.path", "Choose the folder that holds"),
        ({"path": "owner/nobody-has-this", "offline": True}, "model.path", "allow downloads"),
        ({"vae": "owner/nobody-has-this", "offline": True}, "model.vae", "allow downloads"),
    ],
)
def test_a_wrong_model_setting_is_reported_at_its_path(project, changes, place, words):
    places = {
        key: str(project / value)
        for key, value in changes.items()
        if key in ("path", "vae") and not str(value).startswith("owner/")
    }
    found = problem(config(project, model={**changes, **places}))
    assert found.path == place
    assert words in found.remedy


def write_marked(path, *, metadata=None, markers=()):
    """A whole SD 1.5 file, as far as its header says."""
    shapes = headers.full_size("sd15") | dict.fromkeys(markers, (0,))
    return str(headers.write(path, shapes, metadata=metadata))


def test_a_folder_may_be_trained_to_another_prediction_than_its_scheduler_says(project):
    (found,) = require_startable(
        all_problems(config(project, model={"prediction": "v_prediction"}))
    )
    assert (found.path, found.severity) == ("model.prediction", "warning")
    assert "its scheduler config says that it predicts noise" in found.what
    assert "thousands of steps" in found.expected


@pytest.mark.parametrize(
    ("said", "choices", "words"),
    [
        ({"modelspec.prediction_type": "epsilon"}, {"prediction": "v_prediction"},
         'its metadata "modelspec.prediction_type" says that it predicts noise'),
        ({"ss_zero_terminal_snr": "True", "modelspec.prediction_type": "v"},
         {"zero_terminal_snr": "off"}, "the file asks for zero terminal SNR"),
    ],
)  # fmt: skip
def test_choice_against_metadata_is_warned_of_and_counts(project, tmp_path, said, choices, words):
    path = write_marked(tmp_path / "m.safetensors", metadata=said)
    (place,) = choices
    made = config(project, model={"path": path, **choices})
    (found,) = require_startable(all_problems(made))
    assert (found.path, found.severity) == (f"model.{place}", "warning")
    assert words in found.what
    assert found.fix == Fix(f"model.{place}", "auto")


def test_zero_terminal_snr_that_a_file_asks_for_names_velocity_which_then_starts(project, tmp_path):
    path = write_marked(tmp_path / "m.safetensors", markers=["ztsnr"])
    for choices in ({}, {"prediction": "epsilon"}, {"zero_terminal_snr": "on"}):
        found = problem(config(project, model={"path": path, **choices}))
        assert found.fix == Fix("model.prediction", "v_prediction")
        assert found.path == "model.prediction"
        assert '"off"' not in found.remedy
    assert all_problems(config(project, model={"path": path, "prediction": "v_prediction"})) == []


def test_a_weighting_that_never_trains_the_pure_noise_of_a_file_is_warned_of(project, tmp_path):
    path = write_marked(tmp_path / "m.safetensors", markers=["ztsnr", "v_pred"])
    said = {}
    for kind in ("none", "min_snr", "debiased_other"):
        made = config(project, model={"path": path}, objective={"weighting": {"kind": kind}})
        said[kind] = [(p.path, p.severity, p.fix) for p in all_problems(made)]
    setting = "objective.weighting.kind"
    assert said.pop("min_snr") == [(setting, "warning", Fix(setting, "none"))]
    assert not any(said.values())


def test_metadata_that_contradicts_itself_leaves_both_ways_open(project, tmp_path):
    said = {"ss_zero_terminal_snr": "True", "modelspec.prediction_type": "epsilon"}
    path = write_marked(tmp_path / "m.safetensors", metadata=said)
    assert problem(config(project, model={"path": path})).fix is None
    for choices in ({"prediction": "v_prediction"}, {"zero_terminal_snr": "off"}):
        made = config(project, model={"path": path, **choices})
        assert [p.severity for p in all_problems(made)] == ["warning"]


def test_a_model_that_is_yet_to_be_downloaded_forbids_nothing(project):
    assert all_problems(config(project, model={"path": "owner/nobody-has-this"})) == []


def test_a_downloaded_model_is_inspected_by_its_name(project, monkeypatch):
    monkeypatch.setattr("onetrainer.checks.preflight.cached_folder", lambda _: project / "base")
    for offline in (True, False):
        made = config(project, model={"path": "owner/name", "offline": offline})
        assert all_problems(made) == []
    found = problem(config(project, model={"path": "owner/name", "family": "sd2"}))
    assert 'to "sd15"' in found.remedy


def test_another_vae_makes_up_for_a_missing_one(project, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(project / "base", folder)
    (folder / "vae").rename(tmp_path / "vae")
    found = problem(config(project, model={"path": str(folder)}))
    assert "Custom VAE" in found.remedy
    made = config(project, model={"path": str(folder), "vae": str(tmp_path / "vae")})
    assert all_problems(made) == []


@each("family", ["sd2", "sd2-inpainting"])
def test_the_layer_that_sd2_does_not_keep_cannot_be_chosen(family):
    for clip_skip, count in ((0, 0), (1, 1), (2, 0), (3, 0)):
        made = resolve({"model": {"family": family, "clip_skip": clip_skip}}, source="")
        found = [problem for problem in check_rules(made) if problem.path == "model.clip_skip"]
        assert len(found) == count


def test_a_truncated_file_is_named(project, tmp_path):
    path = tiny.write_single_file(tmp_path / "cut.safetensors")
    path.write_bytes(path.read_bytes()[:-1000])
    found = problem(config(project, model={"path": str(path)}))
    assert "cut.safetensors" in found.what
    with pytest.raises(ProblemsError):
        require_startable(all_problems(config(project, model={"path": str(path)})))


@each("make", ["nothing", "empty", "no captions", "text only"])
def test_a_folder_that_teaches_nothing_is_an_error(project, tmp_path, make):
    folder = tmp_path / "p"
    if make != "nothing":
        folder.mkdir()
    if make == "no captions":
        Image.new("RGB", (64, 64)).save(folder / "a.png")
    if make == "text only":
        (folder / "a.txt").write_text("a")
    found = problem(config(project, data={"folder": str(folder)}))
    assert (found.path, found.severity) == ("data.folder", "error")


def test_images_that_cannot_be_used_are_named_and_do_not_forbid_the_start(project, tmp_path):
    folder = tiny.write_images(tmp_path / "p")
    (folder / "broken.png").write_text("no picture")
    Image.new("RGB", (1, 1)).save(folder / "dot.png")
    Image.new("RGB", (20000, 50)).save(folder / "strip.png")
    (found,) = require_startable(all_problems(config(project, data={"folder": str(folder)})))
    assert found.severity == "warning"
    for name in ("broken.png", "dot.png", "strip.png"):
        assert name in found.what


def test_wrong_values_do_not_hide_what_is_wrong_with_files(project, tmp_path):
    document = {
        "training": {"steps": "abc", "sed": 1},
        "method": {"unet": {"lr": "x"}, "text_encoders": {"te9": {}}},
        "sampling": {"prompts": [{"prompt": "a", "width": 3}]},
        "model": {"path": str(project / "base")},
        "data": {"folder": str(tmp_path / "nope")},
    }
    paths = [found.path for found in document_problems(document, source="")[1]]
    inner = ["method.unet.lr", "method.text_encoders.te9"]
    assert sorted(paths) == sorted(
        ["training.steps", "training.sed", "sampling.prompts.0.width", "data.folder", *inner]
    )


def test_a_default_in_place_of_a_wrong_value_has_no_problems_of_its_own(project):
    def paths(steps):
        document = config(project).model_dump(mode="json")
        document["schedule"]["warmup_steps"] = 5000
        document["training"]["steps"] = steps
        prompt = {"prompt": "a", "width": 64, "height": 64}
        document["sampling"] |= {"sampler": "lcm", "steps": 60, "prompts": [prompt]}
        return {found.path for found in document_problems(document, source="")[1]}

    assert paths(1000) == {"schedule.warmup_steps", "sampling.steps"}
    assert paths("abc") == {"training.steps", "sampling.steps"}


def test_an_output_folder_that_is_a_file_is_an_error(project, tmp_path):
    (tmp_path / "file").touch()
    found = problem(config(project, output={"folder": str(tmp_path / "file" / "runs")}))
    assert found.path == "output.folder"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no file system of processes")
def test_a_file_system_that_takes_no_files_cannot_be_written_to(project):
    found = problem(config(project, output={"folder": "/proc/runs"}))
    assert (found.path, found.severity) == ("output.folder", "error")
    assert found.what == "/proc/runs: /proc cannot be written to"


@pytest.mark.parametrize(
    ("options", "words"), [("ro,size=100m", "written"), ("size=8m", "MB are free")]
)
def test_a_disk_that_cannot_take_a_run_is_an_error(project, tmp_path, options, words):
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(tmp_path)], capture_output=True
    )
    if mount.returncode != 0:
        pytest.skip("this user may not mount a small disk")
    try:
        found = problem(config(project, output={"folder": str(tmp_path / "runs")}))
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert (found.path, found.severity) == ("output.folder", "error")
    assert words in found.what


def test_wrong_class_folder_is_reported_next_to_its_setting(project, tmp_path):
    found = problem(config(project, data={"class_folder": str(tmp_path / "nothing")}))
    assert found.path == "data.class_folder"
    assert 'under "Class images"' in found.remedy
    found = problem(config(project, data={"class_folder": str(project / "pictures")}))
    assert (found.path, found.severity) == ("data.class_folder", "error")


def test_class_images_that_are_validation_images_are_reported(project, tmp_path):
    inner = tiny.write_images(tmp_path / "held")
    chosen = {"use": True, "folder": str(tmp_path), "every": 1}
    folders = {"class_folder": str(inner), "include_subfolders": True}
    found = all_problems(config(project, data=folders, validation=chosen))
    (error,) = (one for one in found if one.severity == "error")
    assert error.path == "validation.folder"
    assert "picture-0.png" in error.what
    found = all_problems(config(project, data=folders, validation={**chosen, "use": False}))
    assert [one for one in found if one.severity == "error"] == []


def test_class_images_without_captions_are_reported_next_to_their_setting(project, tmp_path):
    tiny.write_images(tmp_path, ("a dog", ""))
    found = problem(config(project, data={"class_folder": str(tmp_path)}))
    assert (found.path, found.severity) == ("data.class_folder", "warning")
    assert "1 of 2 images has no caption" in found.what


def test_class_images_inside_the_images_to_train_are_reported_where_both_are_read(tmp_path):
    outer = tiny.write_images(tmp_path / "pictures")
    inner = tiny.write_images(outer / "class")
    tiny.write_folder(tmp_path / "base")
    for trained, kept in ((outer, inner), (inner, outer)):
        folders = {"folder": str(trained), "class_folder": str(kept)}
        assert all_problems(config(tmp_path, data=folders)) == []
        found = problem(config(tmp_path, data={**folders, "include_subfolders": True}))
        assert (found.path, found.severity) == ("data.class_folder", "error")
        assert "picture-0.png" in found.what


def test_a_vae_needs_no_captions_and_is_reported_what_it_does_not_use(project, tmp_path):
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    changes = {"folder": str(tmp_path), "masks": "files", "class_folder": str(tmp_path / "x")}
    made = config(project, data=changes, objective={"kind": "reconstruction"})
    found = [one for one in all_problems(made) if one.path.startswith("data.")]
    assert [one.path for one in found] == ["data.masks", "data.class_folder"]
    assert {one.severity for one in found} == {"warning"}


@pytest.mark.parametrize("kind", ["lora", "oft"])
def test_files_to_go_on_from_that_are_not_there_are_reported(project, kind):
    word = {"token": "<x>", "start_from": str(project / "none.pt")}
    found = all_problems(
        config(
            project,
            method={"kind": kind, "start_from": str(project / "none.safetensors")},
            embeddings={"tokens": [word]},
        )
    )
    assert {"method.start_from", "embeddings.tokens.0.start_from"} <= {p.path for p in found}


def test_the_rank_of_a_file_to_go_on_from_is_checked_by_its_header(project, tmp_path):
    layer = "lora_unet_down_blocks_0_attentions_0_proj_in"
    shapes = {f"{layer}.lora_down.weight": (8, 32), f"{layer}.lora_up.weight": (32, 8)}
    start = str(headers.write(tmp_path / "start.safetensors", shapes))
    for rank, unet_rank, is_right in (
        (8, None, True),
        (16, 8, True),
        (0, None, True),
        (16, None, 0),
    ):
        method = {"rank": rank, "unet": {"rank": unet_rank}, "start_from": start}
        found = all_problems(config(project, method=method))
        assert [each.path for each in found] == ([] if is_right else ["method.rank"])
    assert "have rank 8, and method.rank is 16" in found[0].what
    alone = problem(config(project, method={"rank": 0}))
    assert (alone.path, alone.fix) == ("method.rank", Fix("method.rank", 16))


def test_a_file_to_go_on_from_that_is_incomplete_is_reported_before_the_start(project, tmp_path):
    layer = "lora_unet_down_blocks_0_attentions_0_proj_in"
    for kind, tensor in (("lora", "lora_down.weight"), ("oft", "oft_R.weight")):
        start = headers.write(tmp_path / f"{kind}.safetensors", {f"{layer}.{tensor}": (8, 32)})
        found = problem(config(project, method={"kind": kind, "start_from": str(start)}))
        assert found.path == "method.start_from"
        assert tensor in found.what


@pytest.mark.parametrize(("kind", "severity"), [("embedding", "error"), ("lora", "warning")])
def test_a_token_that_no_caption_contains_is_reported_next_to_it(project, kind, severity):
    words = [{"token": "<none>"}]
    (found,) = all_problems(config(project, method={"kind": kind}, embeddings={"tokens": words}))
    assert (found.path, found.severity) == ("embeddings.tokens.0.token", severity)
    chosen = [{"token": "<none>"}, {"token": "Red"}]
    found = all_problems(config(project, method={"kind": kind}, embeddings={"tokens": chosen}))
    assert [p.severity for p in found if p.path.startswith("embeddings")] == ["warning"]
