"""The page of tools around model files, as a person uses it; the files are real ones."""

import torch
from safetensors.torch import load_file, save_file

from onetrainer.config.train import TrainConfig
from onetrainer.demo.write import write_demo
from onetrainer.run.checkpoint_files import state_content
from onetrainer.run.client import WORKER
from onetrainer.run.run_folder import STATE_FILE, create_run

WEIGHT = "mid_block.attentions.0.transformer_blocks.0.attn2.to_k.weight"
LAYER = f"lora_unet_{WEIGHT.removesuffix('.weight').replace('.', '_')}"


def wait_report(desk, text):
    desk.wait(lambda: text in desk.state["tool"], text)


def test_a_lora_is_resized_with_what_was_lost_and_wrong_input_is_said(open_desk, project, tmp_path):
    desk = open_desk(project, worker=WORKER)
    generator = torch.Generator().manual_seed(0)
    source, target = tmp_path / "cat.safetensors", tmp_path / "cat-resized.safetensors"
    write_demo(tmp_path / "demo")
    base = tmp_path / "demo" / "base"
    rows, columns = load_file(base / "unet" / "diffusion_pytorch_model.safetensors")[WEIGHT].shape
    matrices = {"down": torch.randn(4, columns, generator=generator)}
    matrices["up"] = torch.randn(rows, 4, generator=generator)
    save_file({f"{LAYER}.lora_{key}.weight": m for key, m in matrices.items()}, source)
    desk.key("F11")
    desk.wait_state(page="tools")
    desk.click("tool target")
    desk.wait(lambda: "with “Into” also a folder" in desk.widget("tool help")["text"], "its help")
    desk.click("tool Resize")
    desk.replace("tool source", str(source))
    desk.click("run tool")  # with the name that is proposed
    wait_report(desk, "The new rank is missing. Expected “Rank”, “Energy kept” or both.")
    desk.replace("tool rank", "many")
    desk.wait(lambda: "8 to 32 is usual" in desk.widget("tool help")["text"], "a usual value")
    desk.click("run tool")
    wait_report(desk, "Rank: ")
    desk.replace("tool rank", "2")
    desk.replace("tool base", str(base))
    desk.replace("tool picture", "a circle --w 64 --h 64 --s 1")
    desk.click("run tool")
    desk.key("ctrl+plus")
    desk.wait(lambda: "“Resize” is at work." in desk.state["message"], "that it would be lost")
    desk.ask_to_close()
    desk.wait_question("answer end")
    desk.key("Escape")
    desk.wait_end_of_question("answer end")
    desk.click("tool Merge")  # whose report it is not
    desk.wait(lambda: desk.state["tool"] == "", "the report of Merge")
    desk.click("tool Resize")
    wait_report(desk, "1 layer of rank 2.")
    assert "Lost " in desk.state["tool"]
    assert load_file(target)[f"{LAYER}.lora_down.weight"].shape == (2, columns)
    wait_report(desk, "cat-resized-after.png")
    desk.click("tool images")
    desk.key("plus", "ctrl+Left")
    desk.wait_state(focus="tool images")


def test_the_base_model_of_a_run_from_elsewhere_is_downloaded_only_after_a_question(
    open_desk, project, tmp_path
):
    config = TrainConfig.model_validate({"model": {"path": "stranger/model"}})
    run = create_run(tmp_path / "received", name="a", config=config.model_dump(mode="json"))
    run.events.write_bytes(b"")
    run.checkpoint(4).mkdir()
    content = state_content({"step": 4, "events_size": 0}, {})
    (run.checkpoint(4) / STATE_FILE).write_bytes(content)
    desk = open_desk(project, worker=WORKER)
    desk.key("F11")
    desk.wait_state(page="tools")
    desk.click("tool Convert")
    desk.replace("tool source", str(run.path))
    desk.replace("tool target", str(tmp_path / "a.safetensors"))
    desk.click("run tool")
    desk.wait_question("answer start")
    desk.key("Return")  # takes the safe answer
    desk.wait_end_of_question("answer start")
    assert desk.state["tool"] == "" and not (tmp_path / "a.safetensors").exists()
