"""The page Preview in a window of its own: sizes, pictures and findings, by pointer and keys."""

import hashlib
import json
import os

import numpy as np
import pytest
from PIL import Image

from tests.ui.fake_paint import paint
from tests.ui.project import write_project

SHAPES = ((96, 96), (96, 64), (64, 96))


def write_shapes(folder):
    """Four pictures of each of three shapes."""
    for place in range(12):
        width, height = SHAPES[place % 3]
        image = paint(place, 1.0, size=96).crop((0, 0, width, height))
        image.save(folder / f"paper-{place:02d}.png")


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture
def shapes(tmp_path):
    path = write_project(tmp_path / "project", data={"captions": {"shuffle": True}})
    write_shapes(path.parent / "pictures")
    return path


def plan_of(desk):
    return desk.state["preview"]["plan"]


def check_of(desk):
    return desk.state["preview"]["check"]


def go_to_preview(desk):
    desk.key("F6")
    desk.wait_state(page="preview")
    desk.wait(lambda: plan_of(desk)["buckets"], "the sizes")


def test_sizes_and_images_are_chosen_by_pointer_and_keys(open_desk, shapes):
    desk = open_desk(shapes)
    go_to_preview(desk)
    plan = plan_of(desk)
    assert [line.partition(": ")[2] for line in plan["buckets"]] == ["4", "4", "4"]
    assert "Images: 12 training" in plan["facts"]
    first = plan["title"]
    desk.click("preview buckets")
    assert desk.state["focus"] == "preview buckets"
    desk.key("Home")
    tall = plan_of(desk)["title"]
    desk.key("Down", "Down")
    wide = plan_of(desk)["title"]
    assert len({tall, wide}) == 2
    assert {tall, wide, first} <= {tall, wide, plan["title"]}
    assert plan_of(desk)["image"][0] == "paper-01.png"
    desk.click("preview thumbnails")
    desk.key("Home", "Right", "Right")
    assert plan_of(desk)["image"][0] == "paper-07.png"
    desk.click("preview buckets")
    desk.key("Tab")
    assert desk.state["focus"] == "preview thumbnails"
    desk.key("Tab")
    assert desk.state["focus"] == "preview repeats"


def test_the_preview_follows_the_settings(open_desk, shapes):
    desk = open_desk(shapes)
    go_to_preview(desk)
    before = plan_of(desk)["buckets"]
    desk.page("data")
    desk.replace("data.resolution", "128")
    desk.key("F6")
    desk.wait(lambda: plan_of(desk)["buckets"] not in ([], before), "sizes of the new resolution")
    assert "enlarged" in plan_of(desk)["image"][1]
    desk.key("ctrl+z")
    desk.wait(lambda: plan_of(desk)["buckets"] == before, "the sizes of before")


def test_without_a_folder_the_page_leads_to_it(open_desk, tmp_path):
    desk = open_desk(write_project(tmp_path / "project", data={"folder": ""}))
    desk.key("F6")
    desk.wait(lambda: "no image folder" in plan_of(desk)["message"].lower(), "the message")
    desk.click("preview choose")
    desk.wait_state(page="data", focus="data.folder")


def test_what_is_put_right_on_the_disk_is_seen_by_looking_again(open_desk, shapes):
    images = shapes.parent / "pictures"
    images.rename(images.with_name("elsewhere"))
    desk = open_desk(shapes)
    desk.key("F6")
    desk.wait(lambda: desk.widget("preview again").get("shown"), "words about the folder")
    images.with_name("elsewhere").rename(images)
    desk.click("preview again")
    desk.wait(lambda: plan_of(desk)["buckets"], "the sizes")
    (images / "paper-00.txt").unlink()
    desk.click("preview refresh")
    desk.wait(lambda: "No caption: 1 image" in plan_of(desk)["facts"], "the news")


def test_the_page_of_data_leads_to_the_preview_which_counts_caching_when_asked(open_desk, shapes):
    desk = open_desk(shapes)
    desk.page("data")
    desk.click("see preview")
    desk.wait_state(page="preview")
    desk.wait(lambda: plan_of(desk)["buckets"], "the sizes")
    desk.click("count caching")
    desk.wait(lambda: "Caching: about 12 s" in plan_of(desk)["facts"], "the time")
    desk.wait(lambda: not desk.widget("count caching")["shown"], "no need to count again")


def test_findings_are_listed_filtered_and_nothing_is_changed(open_desk, shapes):
    images = shapes.parent / "pictures"
    (images / "lost.txt").write_text("nobody")
    (images / "bad.png").write_bytes(b"no picture")
    before = digests(images)
    desk = open_desk(shapes)
    go_to_preview(desk)
    desk.click("preview check")
    desk.click("check images")
    desk.wait(lambda: check_of(desk)["groups"], "the findings")
    check = check_of(desk)
    assert check["message"].startswith("12 images checked: 1 error")
    assert check["findings"][0] == "bad.png: unreadable"
    assert check["findings"][-1] == "lost.txt: orphan"
    desk.click("finding groups")
    desk.key("End")
    assert check_of(desk)["findings"] == ["lost.txt: orphan"]
    assert digests(images) == before


def test_findings_of_earlier_settings_are_said_to_be(open_desk, shapes):
    desk = open_desk(shapes)
    go_to_preview(desk)
    desk.click("preview check")
    desk.click("check images")
    desk.wait(lambda: check_of(desk)["groups"], "the findings")
    desk.page("data")
    desk.replace("data.resolution", "256")
    desk.key("F6")
    desk.wait(lambda: "out of date" in check_of(desk)["message"], "words about the change")
    desk.key("ctrl+z")
    desk.wait(lambda: "out of date" not in check_of(desk)["message"], "no such words")


def test_a_check_can_be_stopped(open_desk, tmp_path):
    path = write_project(tmp_path / "project")
    images = path.parent / "pictures"
    noise = np.random.default_rng(0).integers(0, 256, (1600, 1600, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.jpg")
    for place in range(200):
        os.link(tmp_path / "noise.jpg", images / f"{place}.jpg")
    desk = open_desk(path)
    desk.key("F6")
    desk.click("preview check")
    desk.click("check images")
    desk.wait(lambda: "checked …" in check_of(desk)["message"], "the progress")
    desk.click("check images")
    desk.wait(lambda: desk.widget("check images")["text"] == "Check now", "the end of it")
    assert check_of(desk)["groups"] == []


def test_a_run_that_learns_from_rewards_has_no_preview(open_desk, tmp_path):
    desk = open_desk(write_project(tmp_path / "project", objective={"kind": "alignprop"}))
    desk.key("F6")
    desk.wait(lambda: "rewards" in plan_of(desk)["message"], "words about rewards")
    assert not desk.widget("preview choose").get("shown")


def test_many_folders_are_folded_and_one_can_be_opened(open_desk, shapes):
    document = json.loads(shapes.read_text())
    document["data"]["concepts"] = [{"folder": "pictures", "name": name} for name in "abc"]
    shapes.write_text(json.dumps(document))
    desk = open_desk(shapes)
    desk.page("data")
    assert not desk.widget("data.concepts.1.folder").get("shown")
    desk.click("fold data.concepts.1")
    desk.replace("data.concepts.1.repeats", "3")
    desk.wait(lambda: desk.value("data.concepts.1.repeats") == 3, "the value")
    desk.click("fold data.concepts.1")
    assert not desk.widget("data.concepts.1.folder")["shown"]


def test_the_sentence_beside_the_check_has_room(open_desk, shapes):
    desk = open_desk(shapes)
    go_to_preview(desk)
    desk.click("preview check")
    for width in (1000, 1280):
        desk.resize(width, 760)
        desk.rest()
        told = desk.widget("check message")
        assert told["wanted_width"] <= told["width"]
        head = desk.widget("preview check")
        assert told["x"] + told["width"] <= head["x"] + head["width"]


def test_the_help_of_a_folder_goes_with_it(open_desk, shapes):
    document = json.loads(shapes.read_text())
    document["data"]["concepts"] = [{"folder": "pictures"}]
    shapes.write_text(json.dumps(document))
    desk = open_desk(shapes)
    desk.page("data")
    desk.click("data.concepts.0.folder")
    desk.wait_state(help="data.concepts.0.folder")
    desk.click("remove data.concepts.0")
    desk.wait_state(help="")
