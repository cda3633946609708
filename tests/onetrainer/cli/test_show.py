"""`onetrainer show` of files of every kind, of runs, images and of what is not there."""

import json

import pytest
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from safetensors.torch import save_file

from onetrainer.__main__ import main
from onetrainer.cli.show import describe
from onetrainer.errors import UserError
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Finished, Progress, Started, Stopped
from onetrainer.run.run_folder import create_run
from tests import headers, tiny
from tests.each import each


def text(path, **options):
    description = describe(path, **options)
    json.dumps(description.document)
    return "\n".join(description.lines)


def of(folder, shapes, *, name="m.safetensors", **options):
    """What is shown of a file with these tensors."""
    return text(headers.write(folder / name, shapes, **options))


VAE = {"decoder.conv_in.weight": (512, 4, 3, 3)}
ENCODER = {"text_model.final_layer_norm.weight": (768,)}
EMBEDDING = {"emb_params": (4, 768)}
LAYER = "lora_unet_mid_block_attentions_0_proj_in"


def test_base_model_is_shown_with_all_that_its_file_says(tmp_path):
    shapes = headers.full_size("sdxl") | {
        "v_pred": (0,), "ztsnr": (0,), "model_ema.diffusion_modelout0weight": (320,)
    }  # fmt: skip
    shapes = {n: s for n, s in shapes.items() if not n.startswith("first_stage_model.")}
    path = headers.write(tmp_path / "m.safetensors", shapes, metadata={"b": "2", "a": "1"})
    assert text(path, everything=True) == (
        "m.safetensors: an SDXL model\n"
        "  Size: 6.77 GB, 2268 tensors\n"
        "  Format: safetensors\n"
        "  Precision: fp16\n"
        '  Prediction: velocity (v_prediction), from the marker "v_pred"\n'
        "  Zero terminal SNR: yes\n"
        "  EMA weights: yes, and the usual ones\n"
        "  Missing: VAE\n"
        "Metadata:\n"
        "  a: 1\n"
        "  b: 2"
    )


def test_what_a_silent_model_predicts_is_shown_too(tmp_path):
    silent = "noise (epsilon), the default, as the file does not say"
    unknown = "unknown; set model.prediction to train it (768-px models: v_prediction, 512-px"
    for base, words in (("sd15", silent), ("sd2", unknown), ("sdxl", silent)):
        shown = of(tmp_path, headers.full_size(base))
        assert f"  Prediction: {words}" in shown
        assert "Zero terminal SNR" not in shown
        assert "unusual" not in shown


def test_components_predict_nothing_and_an_unusual_size_is_shown(tmp_path):
    metadata = {"modelspec.prediction_type": "epsilon", "ss_zero_terminal_snr": "False"}
    for shapes in (VAE, ENCODER, EMBEDDING):
        shown = of(tmp_path, shapes, metadata=metadata)
        assert ", 1 tensor\n" in shown
        assert "Prediction" not in shown
        assert "Zero terminal SNR" not in shown
    for_both = {"modelspec.architecture": "stable-diffusion-v1/vae"}
    assert "Made for: SD 1.5 and SD 2\n" in of(tmp_path, VAE, metadata=for_both)
    shown = text(tiny.write_single_file(tmp_path / "small.safetensors"))
    assert "Component sizes: unusual" in shown
    assert "diffusers folder" in shown


def test_model_with_ema_weights_alone_is_shown_with_the_command_for_it(tmp_path):
    shapes = {
        "model_ema.diffusion_modelout0weight": (320,),
        **{f"first_stage_model.{name}": shape for name, shape in VAE.items()},
        **{f"cond_stage_model.transformer.{name}": shape for name, shape in ENCODER.items()},
    }
    shown = of(tmp_path, shapes)
    assert "EMA weights: yes, and no others; `convert --ema m.safetensors OUT`" in shown
    assert "Missing: UNet" in shown


@each(
    ("tensors", "title", "facts", "absent"),
    [
        ({"oft_blocks": (4, 8, 8), "alpha": ()}, "an OFT", ["Block size: 8"], ["Alpha", "Rank"]),
        ({"lokr_w1": (4, 4), "lokr_w2": (8, 8), "alpha": ()}, "a LoKr",
         ["Rank: none, the second matrices are full", "Factor: 4"], ["Alpha"]),
        ({"lokr_w1": (4, 4), "lokr_w2_a": (8, 2), "lokr_w2_b": (2, 8)}, "a LoKr",
         ["Rank: 2", "Factor: 4", "Alpha: not stored: equals the rank"], []),
        ({"hada_w1_a": (8, 2), "hada_w1_b": (2, 8), "hada_w2_a": (8, 2), "hada_w2_b": (2, 8)},
         "a LoHa", ["Rank: 2", "Method: LoHa"], ["Factor", "Block"]),
        ({"lora_down.weight": (2, 8), "lora_up.weight": (8, 2), "dora_scale": (8, 1)},
         "a DoRA", ["Rank: 2", "Method: LoRA, DoRA"], []),
        ({"lora_down.weight": (4, 8, 3, 3), "lora_up.weight": (8, 4, 1, 1)},
         "a LoRA", ["Rank: 4", "Method: LoRA with convolutions (LoCon)"], []),
    ],
)  # fmt: skip
def test_adapters_are_called_by_their_names(tmp_path, tensors, title, facts, absent):
    shown = of(tmp_path, {f"{LAYER}.{name}": s for name, s in tensors.items()}, dtype="F32")
    assert shown.startswith(f"m.safetensors: {title}, not a complete model\n")
    assert "UNet (1 layer)" in shown
    assert all(f"  {fact}" in shown for fact in facts)
    assert not any(f"  {label}" in shown for label in absent)


def test_lora_is_shown_with_its_components_ranks_alphas_and_bundled_embeddings(tmp_path):
    layers = {
        "lora_unet_input_blocks_4_1_transformer_blocks_0_attn2_to_k": (8, 2048, 640),
        "lora_unet_input_blocks_4_1_transformer_blocks_1_attn2_to_k": (16, 2048, 640),
        "lora_te1_text_model_encoder_layers_0_mlp_fc1": (8, 768, 3072),
        "lora_te2_text_model_encoder_layers_0_mlp_fc1": (8, 1280, 5120),
    }
    alphas = [
        torch.tensor(4.0), torch.tensor(1, dtype=torch.int64),
        torch.tensor(0.5, dtype=torch.float16), torch.tensor(2.5, dtype=torch.bfloat16),
    ]  # fmt: skip
    tensors = {f"{n}.alpha": alpha for n, alpha in zip(layers, alphas, strict=True)}
    for name, (rank, inputs, outputs) in layers.items():
        tensors[f"{name}.lora_down.weight"] = torch.zeros(rank, inputs)
        tensors[f"{name}.lora_up.weight"] = torch.zeros(outputs, rank)
    for name, width in (("clip_l", 768), ("clip_g", 1280), ("clip_g_out", 1280)):
        tensors[f"bundle_emb.my.cat.{name}"] = torch.zeros(3, width)
    save_file(tensors, tmp_path / "a.safetensors")
    shown = text(tmp_path / "a.safetensors")
    for line in (
        "a LoRA, not a complete model",
        "Made for: SDXL",
        "Method: LoRA",
        "Naming: kohya",
        "Components: UNet (2 layers), text encoder (1 layer), second text encoder (1 layer)",
        "Rank: 8, 16",
        "Alpha: 0.5, 1, 2.5, 4",
        "Embedding: my.cat: 3 vectors × 768 + 1280, for SDXL",
    ):
        assert line in shown


@each(
    ("naming", "name", "ends"),
    [
        ("diffusers", "unet.down_blocks.0.attn2.to_k", ("lora_A.weight", "lora_B.weight")),
        ("diffusers", "base_model.model.unet.x.to_k", ("lora_A.weight", "lora_B.weight")),
        ("ComfyUI", "diffusion_model.input_blocks.1.1.to_k", ("lora_A.weight", "lora_B.weight")),
        ("LyCORIS", "lycoris_down_blocks_0_to_k", ("lora_down.weight", "lora_up.weight")),
        ("original", "input_blocks.1.1.to_k", ("lora_A.weight", "lora_B.weight")),
    ],
)
def test_namings_are_shown(tmp_path, naming, name, ends):
    shown = of(tmp_path, {f"{name}.{end}": (4, 4) for end in ends})
    assert f"Naming: {naming}" in shown
    assert "(1 layer)" in shown


BUNDLED = {
    "bundle_emb.cat.string_to_param.*": (2, 768),
    "bundle_emb.v1.5 cat.clip_l": (3, 768),
    "bundle_emb.dog.emb_params": (1, 1024),
}


@each(
    ("tensors", "words"),
    [
        (EMBEDDING, ["cat: 4 vectors × 768, for SD 1.5"]),
        ({"emb_params": (1, 1024)}, ["cat: 1 vector × 1024, for SD 2"]),
        ({"clip_l": (2, 768), "clip_g": (2, 1280)}, ["cat: 2 vectors × 768 + 1280, for SDXL"]),
        ({"<dog>": (768,)}, ["<dog>: 1 vector × 768, for SD 1.5"]),
        (BUNDLED, ["cat: 2 vectors × 768, for SD 1.5", "v1.5 cat: 3 vectors × 768, for SD 1.5",
                   "dog: 1 vector × 1024, for SD 2"]),
    ],
)  # fmt: skip
def test_embeddings_are_shown_with_their_vectors(tmp_path, tensors, words):
    shown = of(tmp_path, tensors, name="cat.safetensors")
    assert all(f"Embedding: {each_}" in shown for each_ in words)
    assert "string_to_param" not in shown


def test_pickled_files_are_recognized_by_their_names_inside(tmp_path):
    value = {"string_to_param": {"*": torch.zeros(2, 768)}, "name": "cat", "step": 5}
    torch.save(value, tmp_path / "x.pt", _use_new_zipfile_serialization=False)
    assert "Embedding: cat: 2 vectors × 768, for SD 1.5" in text(tmp_path / "x.pt")
    value = {"state_dict": {"emb_params": torch.zeros(1, 768)}, "epoch": 3, "ss_steps": 5}
    torch.save(value, tmp_path / "a.ckpt")
    shown = text(tmp_path / "a.ckpt", everything=True)
    assert "Format: a file of torch.save (pickle); none of its code is run\n" in shown
    assert "ss_steps: 5" in shown
    assert "epoch" not in shown


def test_folder_is_shown_and_what_is_in_it(tmp_path):
    path = tiny.write_folder(tmp_path / "model", name="sd2", prediction="v_prediction")
    found = describe(path).document
    assert (found["kind"], found["form"], found["name"]) == ("sd2", "folder", "model")
    assert found["prediction"] == "v_prediction"
    assert found["size"] == sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    assert "from its scheduler config" in text(path)
    assert "a UNet alone, not a complete model" in (shown := text(path / "unet"))
    assert "Made for: SD 2" in shown
    assert "a VAE alone" in text(path / "vae")


def test_main_metadata_comes_first_and_the_rest_is_counted(tmp_path):
    metadata = {
        "modelspec.title": "Smiley", "modelspec.trigger_phrase": "smly", "ss_steps": "500",
        "ss_sd_model_name": "base.safetensors", "modelspec.resolution": "512x512",
        "ss_unet_lr": "0.0001", "ss_learning_rate": "None", "ss_seed": "7",
        "ss_num_train_images": "20", "ss_tag_frequency": '{"1_a": {"cat": 3, "dog": 1}}',
        **{f"ss_other_{n}": "x" for n in range(60)},
    }  # fmt: skip
    path = headers.write(tmp_path / "a.safetensors", EMBEDDING, metadata=metadata)
    assert text(path).split("Metadata:\n")[1] == (
        "  Title: Smiley\n  Trigger words: smly\n  Base: base.safetensors\n"
        "  Resolution: 512x512\n  Steps: 500\n  Learning rate: 0.0001\n  Seed: 7\n"
        "  Images: 20\n  Top tags: cat (3), dog (1)\n  61 more fields; --all shows them"
    )
    assert text(path, everything=True).count("ss_other_") == 60
    assert len(describe(path).document["metadata"]) == 70
    for little, end in (({"a": "1"}, "  1 field; --all shows it"), ({"ss_seed": "1"}, "Seed: 1")):
        assert of(tmp_path, EMBEDDING, metadata=little).endswith(end)


def test_long_metadata_is_cut_and_images_are_only_counted(tmp_path):
    sentences = {f"{n} " + "a long sentence " * 5: 100 - n for n in range(20)}
    tags = {"1_a": {f"tag{n}": n for n in range(1, 13)}, "2_b": {"tag1": 30, " tag2": 1}}
    metadata = {
        "modelspec.thumbnail": "data:image/jpeg;base64," + "A" * 5000,
        "long": "x\n" * 500,
        "ss_tag_frequency": json.dumps(tags),
    }
    path = headers.write(tmp_path / "a.safetensors", EMBEDDING, metadata=metadata)
    shown = text(path, everything=True)
    assert "AAAA" not in shown + json.dumps(describe(path).document)
    assert "modelspec.thumbnail: (images, 5023 characters)" in shown
    assert "… (1000 characters)" in shown
    assert "ss_tag_frequency: tag1 (31), tag12 (12), tag11 (11)" in shown
    assert "tag4 (4) and 2 more" in shown
    assert max(map(len, shown.splitlines())) < 300
    metadata = {"ss_tag_frequency": json.dumps({"1_a": sentences})}
    line = of(tmp_path, EMBEDDING, metadata=metadata).splitlines()[-1]
    assert line.startswith("  Top tags: 0 a long sentence")
    assert line.endswith(" and 18 more")
    assert len(line) < 250


@each("value", ["", "[1]", "{", '{"a": {"b": "c"}}', "[" * 100_000])
def test_tags_that_are_none_do_no_harm(tmp_path, value):
    path = headers.write(
        tmp_path / "a.safetensors", {"a": (1,)}, metadata={"ss_tag_frequency": value}
    )
    assert "ss_tag_frequency" in text(path, everything=True)
    text(path)


def test_nothing_that_a_terminal_obeys_is_printed(tmp_path):
    metadata = {"a\x1b[31m": "b\x1b]0;title\x07\u202e", "c\n": "d\r\nMissing: nothing"}
    path = headers.write(tmp_path / "a.safetensors", {"x\x1b": (768,)}, metadata=metadata)
    assert all(line.isprintable() for line in describe(path).lines)


CONFIG = {
    "model": {"family": "sdxl", "path": "/home/me/models/base.safetensors"},
    "method": {"kind": "lora", "rank": 16},
    "training": {"steps": 6},
}


@pytest.fixture
def run(tmp_path):
    folder = create_run(tmp_path / "runs", name="smiley", config=CONFIG)
    writer = EventWriter(folder.events)
    for event in (Started(1, 0, 6), Progress(6, 6, 0, 0.1, 0.1), Finished(6, [])):
        writer.write(event)
    writer.close()
    for name in ("smiley.safetensors", "part.tmp", "whole/model_index.json"):
        (folder.output / name).parent.mkdir(exist_ok=True)
        (folder.output / name).write_bytes(b"x")
    folder.checkpoint(3).mkdir()
    (folder.checkpoint(3) / "state.json").write_text("{}")
    return folder


def test_run_folder_is_shown_with_what_it_made(run, tmp_path):
    assert text(run.path) == (
        "smiley-001: a OneTrainer run folder\n"
        "  Trains: a LoRA of rank 16 for SDXL, on base.safetensors\n"
        "  State: finished, step 6 of 6\n"
        "  Checkpoints: 1, the newest after step 3\n"
        "  Files: output/smiley.safetensors, output/whole"
    )
    new = text(create_run(tmp_path, name="new", config=CONFIG).path)
    assert "State: not begun, step 0 of 6" in new
    assert "Files: none in output/ yet" in new


def test_steps_of_a_run_that_were_not_saved_are_named(tmp_path):
    folder = create_run(tmp_path, name="run", config=CONFIG)
    for kept, step, words in (
        (0, 4, "steps 1 to 4 are lost; a resumed run continues from the beginning"),
        (3, 6, "steps 4 to 6 are lost; a resumed run continues from step 3"),
        (3, 4, "step 4 is lost; a resumed run continues from step 3"),
        (3, 3, ""),
    ):
        if kept:
            folder.checkpoint(kept).mkdir(exist_ok=True)
            (folder.checkpoint(kept) / "state.json").touch()
        folder.events.unlink(missing_ok=True)
        writer = EventWriter(folder.events)
        writer.write(Started(7, 0, 6))
        writer.write(Stopped(step, "discard"))
        writer.close()
        assert (f"\n  Not saved: {words}\n" in text(folder.path)) == bool(words)
        assert ("Not saved" in text(folder.path)) == bool(words)


def test_checkpoint_and_its_files_are_shown_with_their_run(run, tmp_path):
    whose = "a checkpoint of the run smiley-001, after step 3"
    shown = text(run.checkpoint(3))
    assert shown.startswith(f"step-000003: {whose}\n  Trains: a LoRA of rank 16 for SDXL")
    assert "onetrainer convert" in shown
    for name, words in (
        ("weights", "the weights"), ("optimizer", "the optimizer state"), ("ema", "the EMA weights")
    ):  # fmt: skip
        path = headers.write(run.checkpoint(3) / f"{name}.safetensors", ENCODER)
        assert text(path).startswith(f"{name}.safetensors: {words} of {whose}\n")
    elsewhere = tiny.write_sdxl(tmp_path / "weights.safetensors")
    assert text(elsewhere).startswith("weights.safetensors: an SDXL model")


def test_image_prints_its_settings(tmp_path):
    settings = PngInfo()
    settings.add_text("parameters", "a cat\nSteps: 5, Seed: 3\x1b[31m")
    Image.new("RGB", (64, 32)).save(tmp_path / "a.png", pnginfo=settings)
    Image.new("RGB", (8, 8)).save(tmp_path / "b.jpg")
    assert text(tmp_path / "a.png") == (
        "a.png: an image of 64 × 32 pixels\n  a cat\n  Steps: 5, Seed: 3 [31m"
    )
    assert "No generation settings" in text(tmp_path / "b.jpg")


def test_what_cannot_be_shown_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError):
        describe(tmp_path / "empty")
    with pytest.raises(UserError, match="no such file or folder") as raised:
        describe(tmp_path / "nothing")
    assert "model" not in str(raised.value).replace(str(tmp_path), "")
    for content in (b"\x89PNG\r\n\x1a\n" + bytes(50), b"\xff\xd8\xff", b"RIFF...."):
        (tmp_path / "a.png").write_bytes(content)
        with pytest.raises(UserError, match=r"a\.png: this image cannot be read"):
            describe(tmp_path / "a.png")


def test_several_are_shown_and_one_that_cannot_be_read_hides_none(tmp_path, run, capsys):
    both = [str(tiny.write_sdxl(tmp_path / "xl.safetensors")), str(run.path)]
    assert main(["show", both[0], "nothing.safetensors", both[1]]) == 2
    out, err = capsys.readouterr()
    first, second = out.split("\n\n")
    assert first.startswith("xl.safetensors: an SDXL model\n")
    assert second.startswith("smiley-001: a OneTrainer run")
    assert "nothing.safetensors: no such file or folder" in err
    assert main(["show", *both, "--json"]) == 0
    assert [one["kind"] for one in json.loads(capsys.readouterr().out)] == ["sdxl", "run"]
    assert main(["show", both[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "sdxl"
