"""What is told of files of every kind, real ones as their libraries write them."""

import dataclasses
import json

import pytest
import torch
from safetensors.torch import save_file

from onetrainer.cli.show import describe, lines
from onetrainer.errors import UserError
from tests import headers, tiny


def text(path, **options):
    description = describe(path)
    json.dumps(dataclasses.asdict(description))
    return "\n".join(lines(description, **options))


def save_lora(path, layers, *, alphas=(), metadata=None, **more):
    """layers: name → (rank, inputs, outputs); alphas by the same names."""
    tensors = dict(more)
    for name, (rank, inputs, outputs) in layers.items():
        tensors[f"{name}.lora_down.weight"] = torch.zeros(rank, inputs)
        tensors[f"{name}.lora_up.weight"] = torch.zeros(outputs, rank)
    for name, alpha in dict(alphas).items():
        tensors[f"{name}.alpha"] = alpha
    save_file(tensors, path, metadata)
    return path


def test_base_model_is_told_with_all_that_its_file_says(tmp_path):
    shapes = headers.full_size("sdxl") | {
        "v_pred": (0,), "ztsnr": (0,), "model_ema.diffusion_modelout0weight": (320,)
    }  # fmt: skip
    shapes = {n: s for n, s in shapes.items() if not n.startswith("first_stage_model.")}
    path = headers.write(tmp_path / "m.safetensors", shapes, metadata={"b": "2", "a": "1"})
    told = text(path, everything=True)
    assert told == (
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


SILENT = "noise (epsilon), the default, as the file does not say"
UNKNOWN = (
    "unknown; set model.prediction to train it (768-px models: v_prediction, 512-px base: epsilon)"
)


@pytest.mark.parametrize(("base", "words"), [("sd15", SILENT), ("sd2", UNKNOWN), ("sdxl", SILENT)])
def test_what_a_silent_model_predicts_is_told_too(tmp_path, base, words):
    told = text(headers.write(tmp_path / "m.safetensors", headers.full_size(base)))
    assert f"  Prediction: {words}\n" in told + "\n"
    assert "Zero terminal SNR" not in told


@pytest.mark.parametrize(
    "shapes",
    [
        {"emb_params": (4, 768)},
        {"lora_unet_x.lora_down.weight": (4, 8), "lora_unet_x.lora_up.weight": (8, 4)},
        {"decoder.conv_in.weight": (512, 4, 3, 3)},
        {"text_model.final_layer_norm.weight": (768,)},
    ],
)
def test_parts_predict_nothing(tmp_path, shapes):
    metadata = {"modelspec.prediction_type": "epsilon", "ss_zero_terminal_snr": "False"}
    told = text(headers.write(tmp_path / "m.safetensors", shapes, metadata=metadata))
    assert "Prediction" not in told
    assert "Zero terminal SNR" not in told


def test_model_of_unusual_size_is_told_as_one(tmp_path):
    told = text(tiny.write_single_file(tmp_path / "small.safetensors"))
    assert "Component sizes: unusual" in told
    assert "diffusers folder" in told
    usual = text(headers.write(tmp_path / "m.safetensors", headers.full_size("sd15")))
    assert "unusual" not in usual


def test_vae_of_both_is_told_for_both(tmp_path):
    shapes = {"decoder.conv_in.weight": (512, 4, 3, 3)}
    metadata = {"modelspec.architecture": "stable-diffusion-v1/vae"}
    told = text(headers.write(tmp_path / "m.safetensors", shapes, metadata=metadata))
    assert "Made for: SD 1.5 and SD 2\n" in told


@pytest.mark.parametrize(
    ("tensors", "title", "facts", "absent"),
    [
        ({"oft_blocks": (4, 8, 8), "alpha": ()}, "an OFT", ["Block size: 8"], ["Alpha", "Rank"]),
        (
            {"lokr_w1": (4, 4), "lokr_w2": (8, 8), "alpha": ()},
            "a LoKr",
            ["Rank: none, the second matrices are full", "Factor: 4"],
            ["Alpha"],
        ),
        (
            {"lokr_w1": (4, 4), "lokr_w2_a": (8, 2), "lokr_w2_b": (2, 8)},
            "a LoKr",
            ["Rank: 2", "Factor: 4", "Alpha: not stored: equals the rank"],
            [],
        ),
        (
            {"hada_w1_a": (8, 2), "hada_w1_b": (2, 8), "hada_w2_a": (8, 2), "hada_w2_b": (2, 8)},
            "a LoHa",
            ["Rank: 2"],
            ["Factor", "Block"],
        ),
        (
            {"lora_down.weight": (2, 8), "lora_up.weight": (8, 2), "dora_scale": (8, 1)},
            "a DoRA",
            ["Rank: 2"],
            [],
        ),
    ],
)
def test_relatives_of_loras_are_called_by_their_names(tmp_path, tensors, title, facts, absent):
    shapes = {f"lora_unet_mid_block_attentions_0_proj_in.{n}": s for n, s in tensors.items()}
    told = text(headers.write(tmp_path / "a.safetensors", shapes, dtype="F32"))
    assert told.startswith(f"a.safetensors: {title}, not a complete model\n")
    assert all(f"  {fact}" in told for fact in facts)
    assert not any(f"  {label}" in told for label in absent)


def test_one_tensor_is_one(tmp_path):
    path = headers.write(tmp_path / "m.safetensors", {"emb_params": (4, 768)})
    assert ", 1 tensor\n" in text(path)


def test_folder_of_a_unet_tells_what_it_is_for(tmp_path):
    path = tiny.write_folder(tmp_path / "model", name="sdxl")
    assert "a UNet alone, not a complete model" in text(path / "unet")
    assert "Made for: SDXL" in text(path / "unet")


def test_short_part_of_metadata_comes_first_and_the_rest_is_counted(tmp_path):
    metadata = {
        "modelspec.title": "Smiley", "modelspec.trigger_phrase": "smly", "ss_steps": "500",
        "ss_sd_model_name": "base.safetensors", "modelspec.resolution": "512x512",
        "ss_unet_lr": "0.0001", "ss_learning_rate": "None", "ss_seed": "7",
        "ss_num_train_images": "20", "ss_tag_frequency": '{"1_a": {"cat": 3, "dog": 1}}',
        **{f"ss_other_{n}": "x" for n in range(60)},
    }  # fmt: skip
    path = headers.write(tmp_path / "a.safetensors", {"emb_params": (1, 768)}, metadata=metadata)
    assert text(path).split("Metadata:\n")[1] == (
        "  Title: Smiley\n  Trigger words: smly\n  Base: base.safetensors\n"
        "  Resolution: 512x512\n  Steps: 500\n  Learning rate: 0.0001\n  Seed: 7\n"
        "  Images: 20\n  Top tags: cat (3), dog (1)\n  61 more fields; --all shows them"
    )
    assert text(path, everything=True).count("ss_other_") == 60
    assert len(describe(path).metadata) == 70


def test_tags_that_are_sentences_fill_one_line(tmp_path):
    tags = json.dumps({"1_a": {f"{n} " + "a long sentence " * 5: 100 - n for n in range(20)}})
    path = headers.write(
        tmp_path / "a.safetensors", {"emb_params": (1, 768)}, metadata={"ss_tag_frequency": tags}
    )
    line = text(path).splitlines()[-1]
    assert line.startswith("  Top tags: 0 a long sentence")
    assert line.endswith(" and 18 more")
    assert len(line) < 250


@pytest.mark.parametrize(
    ("metadata", "end"),
    [({"a": "1"}, "Metadata:\n  1 field; --all shows it"), ({"ss_seed": "1"}, "  Seed: 1")],
)
def test_little_metadata_is_counted_rightly(tmp_path, metadata, end):
    path = headers.write(tmp_path / "a.safetensors", {"emb_params": (1, 768)}, metadata=metadata)
    assert text(path).endswith(end)


def test_folder_is_told(tmp_path):
    path = tiny.write_folder(tmp_path / "model", name="sd2", prediction="v_prediction")
    description = describe(path)
    assert (description.kind, description.form, description.name) == ("sd2", "folder", "model")
    assert description.prediction == "v_prediction"
    assert description.size == sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    assert "from its scheduler config" in text(path)


def test_checkpoint_is_told(tmp_path):
    value = {"state_dict": {"emb_params": torch.zeros(1, 768)}, "epoch": 3, "ss_steps": 5}
    torch.save(value, tmp_path / "a.ckpt")
    told = text(tmp_path / "a.ckpt", everything=True)
    assert "Format: a file of torch.save (pickle); none of its code is run\n" in told
    assert "ss_steps: 5" in told
    assert "epoch" not in told


def test_model_with_averaged_weights_alone_is_told_with_the_command_for_it(tmp_path):
    shapes = {
        "model_ema.diffusion_modelout0weight": (320,),
        "first_stage_model.decoder.conv_in.weight": (512, 4, 3, 3),
        "cond_stage_model.transformer.text_model.final_layer_norm.weight": (768,),
    }
    told = text(headers.write(tmp_path / "m.safetensors", shapes))
    assert "EMA weights: yes, and no others; `convert --ema m.safetensors OUT`" in told
    assert "Missing: UNet" in told


def test_lora_of_kohya_is_told_with_its_ranks_and_alphas(tmp_path):
    layers = {
        "lora_unet_input_blocks_4_1_transformer_blocks_0_attn2_to_k": (8, 2048, 640),
        "lora_unet_input_blocks_4_1_transformer_blocks_1_attn2_to_k": (16, 2048, 640),
        "lora_te1_text_model_encoder_layers_0_mlp_fc1": (8, 768, 3072),
        "lora_te2_text_model_encoder_layers_0_mlp_fc1": (8, 1280, 5120),
    }
    alphas = dict(
        zip(
            layers,
            [torch.tensor(4.0), torch.tensor(1, dtype=torch.int64),
             torch.tensor(0.5, dtype=torch.float16), torch.tensor(2.5, dtype=torch.bfloat16)],
            strict=True,
        )
    )  # fmt: skip
    path = save_lora(tmp_path / "a.safetensors", layers, alphas=alphas)
    told = text(path)
    for line in (
        "a LoRA, not a complete model",
        "Made for: SDXL",
        "Method: LoRA",
        "Naming: kohya",
        "Components: UNet (2 layers), text encoder (1 layer), second text encoder (1 layer)",
        "Rank: 8, 16",
        "Alpha: 0.5, 1, 2.5, 4",
    ):
        assert line in told


def test_bundled_embeddings_are_told(tmp_path):
    layers = {"lora_unet_mid_block_attentions_0_transformer_blocks_1_attn1_to_q": (4, 8, 8)}
    bundle = {
        "bundle_emb.my.cat.clip_l": torch.zeros(3, 768),
        "bundle_emb.my.cat.clip_g": torch.zeros(3, 1280),
        "bundle_emb.my.cat.clip_g_out": torch.zeros(3, 1280),
    }
    told = text(save_lora(tmp_path / "a.safetensors", layers, **bundle))
    assert "Embedding: my.cat: 3 vectors × 768 + 1280, for SDXL" in told
    assert "Components: UNet (1 layer)" in told
    assert "Alpha: not stored: equals the rank" in told


@pytest.mark.parametrize(
    ("naming", "name", "downs"),
    [
        ("diffusers", "unet.down_blocks.0.attn2.to_k", ("lora_A.weight", "lora_B.weight")),
        ("diffusers", "base_model.model.unet.x.to_k", ("lora_A.weight", "lora_B.weight")),
        ("ComfyUI", "diffusion_model.input_blocks.1.1.to_k", ("lora_A.weight", "lora_B.weight")),
        ("LyCORIS", "lycoris_down_blocks_0_to_k", ("lora_down.weight", "lora_up.weight")),
        ("original", "input_blocks.1.1.to_k", ("lora_A.weight", "lora_B.weight")),
    ],
)
def test_namings_are_told(tmp_path, naming, name, downs):
    tensors = {f"{name}.{end}": torch.zeros(4, 4) for end in downs}
    save_file(tensors, tmp_path / "a.safetensors")
    told = text(tmp_path / "a.safetensors")
    assert f"Naming: {naming}" in told
    assert "(1 layer)" in told
    assert "Rank: 4" in told


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [("locon", "LoRA with convolutions (LoCon)"), ("loha", "LoHa"), ("lokr", "LoKr"),
     ("diag-oft", "OFT"), ("dora", "LoRA, DoRA")],
)  # fmt: skip
def test_methods_of_lycoris_are_told(tmp_path, algorithm, words):
    from lycoris.modules import LoConModule, LohaModule, LokrModule
    from lycoris.modules.diag_oft import DiagOFTModule

    layer = torch.nn.Conv2d(16, 16, 3) if algorithm == "locon" else torch.nn.Linear(16, 16)
    classes = {"loha": LohaModule, "lokr": LokrModule, "diag-oft": DiagOFTModule}
    made = classes.get(algorithm, LoConModule)(
        "lora_unet_x_attn2_to_k",
        layer,
        1.0,
        4,
        2.0,
        **({"weight_decompose": True} if algorithm == "dora" else {}),
    )
    tensors = {f"lora_unet_x_attn2_to_k.{n}": t.contiguous() for n, t in made.state_dict().items()}
    save_file(tensors, tmp_path / "a.safetensors")
    told = text(tmp_path / "a.safetensors")
    assert f"Method: {words}\n" in told
    assert "UNet (1 layer)" in told
    if algorithm in ("locon", "loha", "dora"):
        assert "Rank: 4\n  Alpha: 2" in told


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"emb_params": (4, 768)}, "Embedding: cat: 4 vectors × 768, for SD 1.5"),
        ({"emb_params": (1, 1024)}, "Embedding: cat: 1 vector × 1024, for SD 2"),
        ({"clip_l": (2, 768), "clip_g": (2, 1280)},
         "Embedding: cat: 2 vectors × 768 + 1280, for SDXL"),
        ({"<dog>": (768,)}, "Embedding: <dog>: 1 vector × 768, for SD 1.5"),
    ],
)  # fmt: skip
def test_embeddings_are_told_with_their_vectors(tmp_path, tensors, words):
    path = headers.write(tmp_path / "cat.safetensors", tensors)
    assert words in text(path)


def test_embedding_of_a1111_is_told_by_its_own_name(tmp_path):
    value = {"string_to_param": {"*": torch.zeros(2, 768)}, "name": "cat", "step": 5}
    torch.save(value, tmp_path / "x.pt", _use_new_zipfile_serialization=False)
    assert "Embedding: cat: 2 vectors × 768, for SD 1.5" in text(tmp_path / "x.pt")


@pytest.mark.parametrize("with_lora", [True, False])
def test_bundled_words_are_told_in_every_spelling_that_is_written(tmp_path, with_lora):
    bundle = {
        "bundle_emb.cat.string_to_param.*": torch.zeros(2, 768),
        "bundle_emb.v1.5 cat.clip_l": torch.zeros(3, 768),
        "bundle_emb.dog.emb_params": torch.zeros(1, 1024),
    }
    layers = {"lora_unet_mid_block_attentions_0_proj_in": (4, 8, 8)} if with_lora else {}
    path = save_lora(tmp_path / "a.safetensors", layers, **bundle)
    told = text(path)
    assert describe(path).kind == ("lora" if with_lora else "embedding")
    assert "Embedding: cat: 2 vectors × 768, for SD 1.5" in told
    assert "Embedding: v1.5 cat: 3 vectors × 768, for SD 1.5" in told
    assert "Embedding: dog: 1 vector × 1024, for SD 2" in told
    assert "string_to_param" not in told


def test_long_metadata_is_cut_and_images_are_only_counted(tmp_path):
    metadata = {
        "modelspec.thumbnail": "data:image/jpeg;base64," + "A" * 5000,
        "long": "x\n" * 500,
        "ss_tag_frequency": json.dumps(
            {"1_a": {f"tag{n}": n for n in range(1, 13)}, "2_b": {"tag1": 30, " tag2": 1}}
        ),
    }
    path = headers.write(tmp_path / "a.safetensors", {"emb_params": (1, 768)}, metadata=metadata)
    told = text(path, everything=True)
    assert "AAAA" not in told + json.dumps(dataclasses.asdict(describe(path)))
    assert "modelspec.thumbnail: (pictures, 5023 characters)" in told
    assert "… (1000 characters)" in told
    assert "ss_tag_frequency: tag1 (31), tag12 (12), tag11 (11)" in told
    assert "tag4 (4) and 2 more" in told
    assert max(map(len, told.splitlines())) < 300


def test_nothing_that_a_terminal_obeys_is_told(tmp_path):
    metadata = {"a\x1b[31m": "b\x1b]0;title\x07\u202e", "c\n": "d\r\nMissing: nothing"}
    path = headers.write(tmp_path / "a.safetensors", {"x\x1b": (768,)}, metadata=metadata)
    assert all(line.isprintable() for line in lines(describe(path)))


@pytest.mark.parametrize("value", ["", "[1]", "{", '{"a": {"b": "c"}}', "[" * 100_000])
def test_tags_that_are_none_do_no_harm(tmp_path, value):
    path = headers.write(
        tmp_path / "a.safetensors", {"a": (1,)}, metadata={"ss_tag_frequency": value}
    )
    assert "ss_tag_frequency" in text(path, everything=True)
    text(path)


def test_every_one_of_a_thousand_alphas_is_told(tmp_path):
    layers = {f"lora_unet_x_{n}_attn1_to_q": (4, 4, 4) for n in range(1000)}
    alphas = {name: torch.tensor(float(n)) for n, name in enumerate(layers)}
    path = save_lora(tmp_path / "a.safetensors", layers, alphas=alphas)
    assert list(describe(path).adapter.alphas) == list(range(1000))


@pytest.mark.parametrize("name", ["nothing.safetensors", "empty"])
def test_what_cannot_be_told_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError):
        describe(tmp_path / name)
