"""The page Preview in a window: sizes, images and findings, by pointer and keys."""

import os

import numpy as np
import pytest
from PIL import Image

from onetrainer.presets.find import BUILT_IN
from tests.ui.fake_paint import paint
from tests.ui.project import write_project

SHAPES = ((96, 96), (96, 64), (64, 96))


@pytest.fixture
def images(project):
    """The project's folder, with four images of each of three shapes."""
    folder = project.parent / "pictures"
    for place in range(12):
        width, height = SHAPES[place % 3]
        image = paint(place, 1.0, size=96).crop((0, 0, width, height))
        image.save(folder / f"paper-{place:02d}.png")
    return folder


def plan_of(desk):
    return desk.state["preview"]["plan"]


def check_of(desk):
    return desk.state["preview"]["check"]


def go_to_preview(desk):
    desk.key("F6")
    desk.wait_state(page="preview")
    desk.wait(lambda: plan_of(desk)["buckets"], "the sizes")


def test_sizes_and_images_are_chosen_by_pointer_and_keys(images, desk):
    desk.page("data")
    desk.click("see preview")
    go_to_preview(desk)
    plan = plan_of(desk)
    assert [line.partition(": ")[2] for line in plan["buckets"]] == ["4", "4", "4"]
    assert "Images: 12 training" in plan["facts"]
    desk.click("preview buckets")
    desk.wait_state(focus="preview buckets")
    desk.key("Home")
    tall = plan_of(desk)["title"]
    desk.key("Down", "Down")
    assert plan_of(desk)["title"] != tall
    assert plan_of(desk)["image"][0] == "paper-01.png"
    desk.click("preview thumbnails")
    desk.key("Home", "Right", "Right")
    assert plan_of(desk)["image"][0] == "paper-07.png"
    desk.click("preview buckets")
    desk.key("Tab", "Tab")
    assert desk.state["focus"] == "preview repeats"
    desk.click("count caching")
    desk.wait(lambda: "Caching: about 12 s" in plan_of(desk)["facts"], "the time")
    desk.wait(lambda: not desk.widget("count caching")["shown"], "no need to count again")
    # Another program adds one meanwhile, and takes it away.
    for count in (13, 12):
        desk.page("data")
        if count > 12:
            paint(12, 1.0, size=96).save(images / "more.png")
        else:
            (images / "more.png").unlink()
        go_to_preview(desk)
        desk.wait(lambda: f"Images: {count} training" in plan_of(desk)["facts"], "its count")  # noqa: B023


def test_cards_and_preview_tell_the_same_numbers_and_leave_out_a_cut_image(images, begin, project):
    cut = images / "paper-04.png"
    cut.write_bytes(cut.read_bytes()[:-40])
    desk = begin(project)
    desk.page("validation")
    desk.click("validation.use")
    desk.page("training")
    desk.replace("training.steps", "3 epochs")
    # Of 12 images one is validated, and of three sizes each takes a step of up to four.
    length = {"9 steps", "3 epochs, 30 images seen", "each of 10 images 3 times"}
    desk.wait(lambda: length <= set(desk.state["summary"]), "the length of the run")
    left_out = "1 left out: paper-04.png: damaged: its end is missing, as after an incomplete copy"
    assert {"1 image for validation", left_out} <= set(desk.state["summary"])
    desk.page("data")
    desk.wait(lambda: left_out in desk.state["summary"], "the card of the images")
    assert desk.state["summary"][:2] == ["10 training, 1 validation", "10 with a caption"]
    go_to_preview(desk)
    facts = {"Images: 10 training, 1 validation", "Run: 9 steps, 3 epochs", "Total: 30 images"}
    assert facts | {"Left out: 1 image"} <= set(plan_of(desk)["facts"])


def test_the_preview_and_the_findings_follow_the_settings(images, desk):
    go_to_preview(desk)
    before = plan_of(desk)["buckets"]
    desk.click("preview check")
    desk.click("check images")
    desk.wait(lambda: check_of(desk)["groups"], "the findings")
    desk.page("data")
    desk.replace("data.resolution", "128")
    desk.key("F6")
    desk.wait(lambda: "out of date" in check_of(desk)["message"], "words about the change")
    desk.click("preview plan")
    desk.wait(lambda: plan_of(desk)["buckets"] not in ([], before), "sizes of the new resolution")
    assert "enlarged" in plan_of(desk)["image"][1]
    desk.key("ctrl+z")
    desk.wait(lambda: plan_of(desk)["buckets"] == before, "the sizes of before")


def test_the_colors_change_after_a_preview_whose_images_are_no_longer_used(images, desk):
    go_to_preview(desk)
    desk.ask("load", path=str(BUILT_IN / "sd15" / "reward.json"))
    desk.key("F6")
    desk.wait_state(page="preview")
    desk.wait(lambda: plan_of(desk)["message"], "words about the preset")
    desk.key("ctrl+d")
    desk.wait_state(mode="light", errors=[])


def test_changed_images_are_noticed_by_checking_again(begin, project, images):
    images.rename(images.with_name("elsewhere"))
    desk = begin(project)
    desk.key("F6")
    desk.wait(lambda: desk.widget("preview again").get("shown"), "words about the folder")
    images.with_name("elsewhere").rename(images)
    desk.click("preview again")
    desk.wait(lambda: plan_of(desk)["buckets"], "the sizes")
    (images / "paper-00.txt").unlink()
    desk.click("preview refresh")
    desk.wait(lambda: "No caption: 1 image" in plan_of(desk)["facts"], "the news")


def test_where_there_is_nothing_to_preview_the_page_says_why(begin, tmp_path):
    desk = begin(write_project(tmp_path / "project", data={"folder": ""}))
    desk.key("F6")
    desk.wait(lambda: "no image folder" in plan_of(desk)["message"].lower(), "the message")
    desk.click("preview choose")
    desk.wait_state(page="data", focus="data.folder")
    desk = begin(write_project(tmp_path / "project", objective={"kind": "alignprop"}))
    desk.key("F6")
    desk.wait(lambda: "prompts alone" in plan_of(desk)["message"], "words about prompts")
    assert not desk.widget("preview choose").get("shown")


def test_findings_are_listed_and_filtered(images, desk):
    (images / "lost.txt").write_text("nobody")
    (images / "bad.png").write_bytes(b"no picture")
    go_to_preview(desk)
    desk.click("preview check")
    desk.click("check images")
    desk.wait(lambda: check_of(desk)["groups"], "the findings")
    check = check_of(desk)
    assert check["message"].startswith("12 images checked: 1 error")
    assert check["findings"][0] == "bad.png: unreadable"
    desk.click("finding groups")
    desk.key("End")
    assert check_of(desk)["findings"] == ["lost.txt: orphan"]


def test_a_check_can_be_stopped(desk, images, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (1200, 1200, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.jpg")
    for place in range(100):
        os.link(tmp_path / "noise.jpg", images / f"{place}.jpg")
    desk.key("F6")
    desk.click("preview check")
    desk.click("check images")
    desk.wait(lambda: "checked …" in check_of(desk)["message"], "the progress")
    desk.click("check images")
    desk.wait(
        lambda: desk.widget("check images")["text"] in ("Check now", "Check again"), "its end"
    )
