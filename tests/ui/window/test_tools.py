"""The page of tools around model files, as a person uses it; the files are real ones."""

import torch
from safetensors.torch import load_file, save_file

LAYER = "lora_unet_mid_block_attentions_0_transformer_blocks_0_attn2_to_k"


def wait_report(desk, text):
    desk.wait(lambda: text in desk.state["tool"], text)


def test_a_lora_is_resized_with_what_was_lost_and_wrong_input_is_said(open_desk, project, tmp_path):
    desk = open_desk(project, worker="")  # the real worker
    generator = torch.Generator().manual_seed(0)
    source, target = tmp_path / "cat.safetensors", tmp_path / "small.safetensors"
    matrices = {"down": torch.randn(4, 768, generator=generator)}
    matrices["up"] = torch.randn(1280, 4, generator=generator)
    save_file({f"{LAYER}.lora_{key}.weight": m for key, m in matrices.items()}, source)
    desk.key("F11")
    desk.wait_state(page="tools")
    desk.click("tool Resize")
    desk.replace("tool source", str(source))
    desk.replace("tool target", str(target))
    desk.click("run tool")
    wait_report(desk, "The new rank is missing. Expected “Rank”, “Energy kept” or both.")
    desk.replace("tool rank", "many")
    desk.click("run tool")
    wait_report(desk, "Rank: ")
    desk.replace("tool rank", "2")
    desk.click("run tool")
    desk.click("tool Merge")  # whose report it is not
    desk.wait(lambda: desk.state["tool"] == "", "the report of Merge")
    desk.click("tool Resize")
    wait_report(desk, "1 layer of rank 2.")
    assert "Lost " in desk.state["tool"]
    assert load_file(target)[f"{LAYER}.lora_down.weight"].shape == (2, 768)
