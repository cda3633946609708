"""The page of captioning, as a person uses it; the worker and its small networks are real ones."""

import json

from PIL import Image

from onetrainer.captioning.results import JobFolder, Result, stamp_of
from onetrainer.jobs.caption_request import CaptionRequest
from onetrainer.run.client import WORKER
from tests import tiny_describers

COLORS = ("red", "blue", "lime") * 5


def wait_shown(desk, key, text):
    desk.wait(lambda: text in desk.state["captioning"][key], text)


def captions(images):
    return {path.stem: path.read_text().strip() for path in images.glob("*.txt")}


def masks_found_before(images, network, folder):
    """Results as a worker left them some time ago."""
    request = CaptionRequest(images=str(images), model=str(network), makes="masks")
    found = JobFolder(request, folder)
    with found.adding() as results:
        Image.new("L", (8, 8), 255).save(found.masks / "white.png")
        paths = sorted(images.glob("*.png"))
        results.add(Result(path.name, stamp_of(path), mask="white.png") for path in paths)


def test_models_describe_ten_then_all_and_what_is_written_can_be_taken_back(
    open_desk, project, tmp_path
):
    images, tagger, network = (tmp_path / name for name in ("images", "tagger", "isnet.onnx"))
    images.mkdir()
    for number, color in enumerate(COLORS):
        Image.new("RGB", (16, 16), color).save(images / f"{number:02d}.png")
    (images / "00.txt").write_text("mine")
    tiny_describers.save_tagger(tagger)
    tiny_describers.save_background(network)
    desk = open_desk(project, worker=WORKER)
    desk.page("captioning")
    desk.replace("caption images", str(images))
    desk.replace("caption model tagger", str(network))
    desk.click("caption preview")
    wait_shown(desk, "status", "isnet.onnx: this is a model of the kind Background removal.")
    desk.replace("caption model tagger", str(tagger))
    desk.click("caption preview")
    wait_shown(desk, "status", "10 images, 10 of them described now.")
    wait_shown(desk, "summary", "New 9  ·  Kept: your own 1  ·  Not described yet 5")
    assert desk.state["captioning"]["rows"][1] == [
        "01.png", "new", "blue sky, ^_^, someone (series)",
    ]  # fmt: skip
    desk.replace("caption tagger threshold", "0.6")
    desk.replace("caption tagger prefix", "ohwx")
    wanted = "ohwx, blue sky, someone (series)"
    # No rows are listed between the letters that are typed.
    desk.wait(lambda: [row[2] for row in desk.state["captioning"]["rows"][1:2]] == [wanted], wanted)
    desk.replace("caption tagger threshold", "2")
    wait_shown(desk, "status", "Tag threshold: ")
    desk.replace("caption tagger threshold", "0.6")

    desk.click("caption all")  # by way of the queue
    wait_shown(desk, "status", "15 images, 5 of them described now.")
    wait_shown(desk, "summary", "New 14  ·  Kept: your own 1")
    (entry,) = json.loads((desk.home / "config/onetrainer/queue/queue.json").read_text())["entries"]
    assert "captions-images-tagger" in entry["run"]
    assert captions(images) == {"00": "mine"}
    desk.click("caption write")
    wait_shown(desk, "status", "14 captions written.")
    assert len(captions(images)) == len(COLORS)
    assert (captions(images)["00"], captions(images)["01"]) == ("mine", wanted)
    wait_shown(desk, "summary", "The same already 14")
    desk.click("caption undo")
    wait_shown(desk, "status", "14 files have again what they held before.")
    assert captions(images) == {"00": "mine"}

    masks_found_before(images, network, desk.home / "config/onetrainer/captioning")
    desk.click("caption kind background")
    desk.replace("caption model background", str(network))
    wait_shown(desk, "summary", "New 15")
    desk.click("caption write")
    wait_shown(desk, "status", "15 masks written.")
    wait_shown(desk, "summary", "The same already 15")
    assert len(list(images.glob("*-masklabel.png"))) == len(COLORS)

    desk.replace("caption images", str(project.parent / "pictures"))
    desk.key("Return")
    wait_shown(desk, "unread", "Training would not read these masks: they are turned off")
