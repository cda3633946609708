"""Options of a conversion are checked against what its source is."""

import pytest
import torch
from safetensors.torch import save_file

from onetrainer.__main__ import _parse, main, make_parser
from onetrainer.errors import UserError
from onetrainer.jobs.convert_request import ConvertRequest, examine, source_run
from onetrainer.run.checkpoint_files import state_content
from onetrainer.run.run_folder import create_run
from tests import tiny
from tests.each import each

LORA = {
    "lora_unet_mid_block_attentions_0_proj_in.lora_down.weight": torch.zeros(2, 4, 1, 1),
    "lora_unet_mid_block_attentions_0_proj_in.lora_up.weight": torch.zeros(4, 2, 1, 1),
}
BUNDLED = {"bundle_emb.cat.clip_l": torch.zeros(2, 768)}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A file of each kind."""
    folder = tmp_path_factory.mktemp("sources")
    tiny.write_single_file(folder / "model.safetensors")
    save_file(LORA | BUNDLED, folder / "lora.safetensors")
    save_file({"emb_params": torch.zeros(2, 768)}, folder / "embedding.safetensors")
    save_file({"decoder.conv_in.weight": torch.zeros(4, 4, 3, 3)}, folder / "vae.safetensors")
    return folder


def request(folder, kind, target="out.safetensors", **options):
    source = str(folder / f"{kind}.safetensors")
    return ConvertRequest(source=source, target=str(folder / target), **options)


OTHERS = "cannot be used with it"
SUFFIX = r"written as \.safetensors only.* Use out\.safetensors"


@each(
    ("kind", "options", "message"),
    [
        ("lora", {"vae": "v.safetensors", "ema": True}, f"a LoRA; --vae, --ema {OTHERS}"),
        ("lora", {"prediction": "v_prediction"}, f"--prediction {OTHERS}"),
        ("lora", {"zero_terminal_snr": "on"}, f"--zero-terminal-snr {OTHERS}"),
        ("lora", {"name": "cat", "to": "comfyui"}, f"embedding in a LoRA's file; --to {OTHERS}"),
        ("embedding", {"bundle": ("b.safetensors",)}, f"--bundle {OTHERS}"),
        ("embedding", {"to": "kohya"}, f"an embedding; --to {OTHERS}"),
        ("embedding", {"family": "sdxl", "ema": True}, f"--family, --ema {OTHERS}"),
        ("model", {"name": "cat"}, f"an SD 1.5 model; --name {OTHERS}"),
        ("lora", {"target": "out.pt"}, SUFFIX),
        ("lora", {"target": "out"}, SUFFIX),
        ("embedding", {"target": "out.pt"}, SUFFIX),
        ("embedding", {"target": "out"}, SUFFIX),
        ("vae", {}, "a VAE alone"),
        ("model", {"vae": "lora.safetensors"}, "a LoRA.*Expected a VAE, or a model with one"),
        ("lora", {"vae": "out.safetensors", "overwrite": True}, "this would overwrite out"),
        ("lora", {"bundle": ("out.safetensors",), "overwrite": True}, "this would overwrite out"),
    ],
)
def test_what_does_not_fit_the_source_is_refused(sources, monkeypatch, kind, options, message):
    monkeypatch.chdir(sources)
    with pytest.raises(UserError) as caught:
        examine(request(sources, kind, **options))
    caught.match(message)


@each(
    ("kind", "options"),
    [
        ("lora", {"to": "comfyui", "family": "sd15", "precision": "fp16", "overwrite": True}),
        ("lora", {"name": "cat"}),
        ("lora", {"bundle": ("one.safetensors", "two.pt")}),
        ("embedding", {"name": "dog", "precision": "bf16", "overwrite": True}),
        ("model", {"to": "original", "family": "sd15", "prediction": "v_prediction", "ema": True}),
    ],
)
def test_options_of_a_kind_are_taken(sources, kind, options):
    assert examine(request(sources, kind, **options)).path.stem == kind


def test_the_terminal_reports_what_does_not_fit_by_the_names_of_options(sources, capsys):
    source, vae = (str(sources / f"{name}.safetensors") for name in ("model", "lora"))
    for option, words in (
        (("--name", "cat"), "--name cannot be used with it"),
        (("--vae", vae), "Here, model.vae is --vae."),
    ):
        assert main(["convert", source, str(sources / "x"), *option]) == 2
        assert words in capsys.readouterr().err


def test_a_run_is_a_source_whose_checkpoint_and_options_are_checked(tmp_path):
    run = create_run(tmp_path, name="run", config={})
    run.events.touch()
    with pytest.raises(UserError, match="run-001: this run has no checkpoint"):
        source_run(ConvertRequest(source=str(run.path)))
    run.checkpoint(20).mkdir()
    (run.checkpoint(20) / "state.json").write_bytes(
        state_content({"step": 20, "events_size": 0}, {})
    )
    assert source_run(ConvertRequest(source=str(run.path))).path == run.path
    for options, text in (
        ({"step": 9}, "no checkpoint of step 9. Expected one of the steps 20"),
        ({"name": "x"}, "this is a run; --name cannot be used with it"),
        ({"target": str(run.config)}, "this would overwrite config.json"),
        ({"target": str(run.checkpoint(20))}, "this would overwrite checkpoints"),
        ({"target": str(run.events)}, "exists already. Choose another name, or --overwrite"),
    ):
        with pytest.raises(UserError) as caught:
            source_run(ConvertRequest(source=str(run.path), **options))
        assert text in str(caught.value)
    assert source_run(ConvertRequest(source=str(tmp_path))) is None
    with pytest.raises(UserError, match="OUT is missing"):
        examine(ConvertRequest(source=str(tmp_path)))


def test_a_target_is_found_wherever_it_is_and_may_be_left_out():
    for given in ("in out --step 2", "in --step 2 out", "--step 2 in out"):
        options = _parse(make_parser("convert"), ["convert", *given.split()])
        assert (options.source, options.target, options.step) == ("in", "out", "2")
    assert _parse(make_parser("convert"), ["convert", "in", "--step", "2"]).target is None
    for given in ("in out more", "in out --nonsense"):
        with pytest.raises(SystemExit):
            _parse(make_parser("convert"), ["convert", *given.split()])
