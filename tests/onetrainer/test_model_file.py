import json
import struct

import pytest

from onetrainer.errors import UserError
from onetrainer.model_file import inspect_model, require_family

UNET = "model.diffusion_model."
CONV_IN = UNET + "input_blocks.0.0.weight"
SD15 = {
    CONV_IN: (8, 4, 3, 3),
    "cond_stage_model.transformer.text_model.final_layer_norm.weight": (8,),
    "first_stage_model.quant_conv.weight": (8, 8, 1, 1),
}
SD2 = {CONV_IN: (8, 4, 3, 3), "cond_stage_model.model.ln_final.weight": (8,)}
SDXL = {CONV_IN: (8, 4, 3, 3), "conditioner.embedders.1.model.ln_final.weight": (8,)}


def write(path, shapes, *, cut=0, extra=b""):
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        size = 2
        for side in shape:
            size *= side
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    content = struct.pack("<Q", len(text)) + text + bytes(end) + extra
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content[: len(content) - cut])
    return path


def write_folder(folder, *, pipeline="StableDiffusionPipeline", act="quick_gelu", channels=4):
    configs = {
        "model_index.json": {"_class_name": pipeline},
        "unet/config.json": {"in_channels": channels},
        "vae/config.json": {},
        "text_encoder/config.json": {"hidden_act": act},
        "tokenizer/vocab.json": {},
        "tokenizer/merges.txt": {},
    }
    for name, config in configs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(config))
    for part, stem in (("unet", "diffusion_pytorch_model"), ("vae", "diffusion_pytorch_model"),
                       ("text_encoder", "model")):  # fmt: skip
        write(folder / part / f"{stem}.safetensors", {"weight": (4,)})
    return folder


@pytest.mark.parametrize(
    ("shapes", "kind"),
    [
        (SD15, "sd15"),
        (SD15 | {CONV_IN: (8, 9, 3, 3)}, "sd15-inpainting"),
        (SD15 | {CONV_IN: (8, 8, 3, 3)}, "unknown"),
        (SD2, "sd2"),
        (SDXL, "sdxl"),
        ({UNET + "joint_blocks.0.x": (1,)}, "sd3"),
        ({UNET + "double_blocks.0.x": (1,)}, "flux"),
        ({CONV_IN: (8, 4, 3, 3)}, "unet"),
        ({"down_blocks.0.resnets.0.conv1.weight": (1,)}, "unet"),
        ({"lora_unet_mid.lora_down.weight": (1,), "lora_unet_mid.alpha": ()}, "lora"),
        ({"unet.mid_block.to_q.lora_A.weight": (1,)}, "lora"),
        ({"lora_unet_mid.hada_w1_a": (1,)}, "lora"),
        ({"emb_params": (2, 768)}, "embedding"),
        ({"first_stage_model.decoder.conv_in.weight": (1,)}, "vae"),
        ({"decoder.conv_in.weight": (1,), "encoder.conv_in.weight": (1,)}, "vae"),
        ({"something.else": (1,)}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_single_file_is_recognized_by_its_tensors(tmp_path, shapes, kind):
    assert inspect_model(write(tmp_path / "m.safetensors", shapes)).kind == kind


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "sd15"),
        ({"channels": 9}, "sd15-inpainting"),
        ({"act": "gelu"}, "sd2"),
        ({"pipeline": "StableDiffusionXLPipeline"}, "sdxl"),
        ({"pipeline": "StableDiffusion3Pipeline"}, "sd3"),
        ({"pipeline": "FluxPipeline"}, "flux"),
        ({"pipeline": "KandinskyPipeline"}, "unknown"),
    ],
)
def test_folder_is_recognized_by_its_configs(tmp_path, changes, kind):
    model = inspect_model(write_folder(tmp_path / "model", **changes))
    assert (model.kind, model.layout) == (kind, "folder")


def test_right_family_is_accepted(tmp_path):
    require_family(inspect_model(write(tmp_path / "a.safetensors", SD15)), "sd15")
    require_family(inspect_model(write_folder(tmp_path / "b")), "sd15")


def test_wrong_family_is_named(tmp_path):
    with pytest.raises(UserError) as caught:
        require_family(inspect_model(write(tmp_path / "sdxl.safetensors", SDXL)), "sd15")
    assert str(caught.value) == (
        "sdxl.safetensors: this is an SDXL model. Only SD 1.5 can be trained by this version."
        " Choose an SD 1.5 file or diffusers folder."
    )


def test_file_without_vae_is_refused(tmp_path):
    shapes = {name: shape for name, shape in SD15.items() if "first_stage" not in name}
    with pytest.raises(UserError, match=r"this SD 1\.5 file has no VAE"):
        require_family(inspect_model(write(tmp_path / "a.safetensors", shapes)), "sd15")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.safetensors", b"", r"a\.safetensors: the file is empty"),
        ("a.ckpt", b"anything", r"a\.ckpt: this is a pickle.*\.safetensors version"),
        ("renamed.safetensors", b"PK\x03\x04" + b"\xff" * 50, "this is a pickle"),
        ("old.safetensors", b"\x80\x02ccollections\n" + b"\xff" * 50, "this is a pickle"),
        ("a.safetensors", b"<!DOCTYPE html><html>Sign in</html>", "a web page or a link"),
        ("a.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "a web page or a link"),
        ("photo.png", b"\x89PNG\r\n\x1a\n" + bytes(50), "this is not a safetensors file"),
        ("a.safetensors", b"abc", "this is not a safetensors file"),
        ("a.safetensors", struct.pack("<Q", 4) + b"{{{{", "this is not a safetensors file"),
        ("a.safetensors", struct.pack("<Q", 2) + b"[]", "this is not a safetensors file"),
        ("a.safetensors", struct.pack("<Q", 10) + b'{"a":1}   ', "this is not a safetensors"),
        ("a.safetensors", struct.pack("<Q", 5000) + b'{"a": ', "cut short: it ends inside"),
    ],
)
def test_what_is_no_model_file_is_named_for_what_it_is(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        inspect_model(tmp_path / name)


def test_truncated_and_overlong_files_are_refused(tmp_path):
    size = write(tmp_path / "whole.safetensors", SD15).stat().st_size
    with pytest.raises(UserError, match=f"cut short: it has {size - 10} of {size} bytes"):
        inspect_model(write(tmp_path / "cut.safetensors", SD15, cut=10))
    with pytest.raises(UserError, match="3 bytes more than its header says"):
        inspect_model(write(tmp_path / "long.safetensors", SD15, extra=b"abc"))


def test_shape_that_does_not_fit_its_bytes_is_refused(tmp_path):
    header = {"a": {"dtype": "F16", "shape": [3], "data_offsets": [0, 4]}}
    text = json.dumps(header).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(4))
    with pytest.raises(UserError, match="not a safetensors file"):
        inspect_model(tmp_path / "a.safetensors")


def test_missing_path_is_told(tmp_path):
    with pytest.raises(UserError, match="there is no such file or folder"):
        inspect_model(tmp_path / "nothing")


def test_folder_without_index_suggests_the_file_in_it(tmp_path):
    write(tmp_path / "models" / "nice.safetensors", SD15)
    with pytest.raises(UserError, match=r"no model_index\.json.*nice\.safetensors"):
        inspect_model(tmp_path / "models")


@pytest.mark.parametrize(
    "name",
    ["unet/config.json", "unet/diffusion_pytorch_model.safetensors",
     "text_encoder/model.safetensors", "tokenizer/merges.txt"],
)  # fmt: skip
def test_folder_with_a_part_missing_names_it(tmp_path, name):
    folder = write_folder(tmp_path / "model")
    (folder / name).unlink()
    with pytest.raises(UserError, match=name.split("/")[0]):
        inspect_model(folder)


def test_folder_with_a_truncated_part_is_refused(tmp_path):
    folder = write_folder(tmp_path / "model")
    write(folder / "vae" / "diffusion_pytorch_model.safetensors", {"weight": (4,)}, cut=1)
    with pytest.raises(UserError, match="cut short"):
        inspect_model(folder)


def test_folder_with_pickled_weights_is_refused(tmp_path):
    folder = write_folder(tmp_path / "model")
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(UserError, match="this is a pickle"):
        inspect_model(folder)


def test_folder_with_sharded_weights_needs_every_shard(tmp_path):
    folder = write_folder(tmp_path / "model")
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    shards = [weights.with_name(f"{weights.stem}-0000{n}-of-00002.safetensors") for n in (1, 2)]
    weights.rename(shards[0])
    table = {"a": shards[0].name, "b": shards[1].name}
    index = weights.with_name(weights.name + ".index.json")
    index.write_text(json.dumps({"weight_map": table}))
    with pytest.raises(UserError, match="00002-of-00002"):
        inspect_model(folder)
    write(shards[1], {"weight": (4,)})
    assert inspect_model(folder).kind == "sd15"


def test_damaged_config_is_told(tmp_path):
    folder = write_folder(tmp_path / "model")
    (folder / "model_index.json").write_text('{"_class_name": ')
    with pytest.raises(UserError, match=r"model_index\.json: the file cannot be read"):
        inspect_model(folder)
