"""The menu of presets: a newcomer finds the family, everybody their own first."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from onetrainer.config.model import FAMILY_WORDS
from onetrainer.presets import BUILT_IN, Preset, find_presets, load_document, resolve
from ui.draft import Draft
from ui.jobs import Jobs
from ui.kit import Kit
from ui.preset_actions import PresetActions
from ui.preset_menu import line_of, menu_groups, summary
from ui.theme import Theme


@pytest.fixture
def built_in(home):
    return find_presets()


def test_the_built_in_presets_stand_below_their_families_in_the_settings_order(built_in):
    assert [group.title for group in menu_groups(built_in)] == ["SD 1.5", "SD 2", "SDXL"]


def test_a_person_s_own_presets_come_first(built_in):
    mine = Preset("sdxl/mine", Path("/p/sdxl/mine.json"), "About mine. And more.", "yours")
    first, *rest = menu_groups([*built_in, mine])
    assert (first.title, first.presets) == ("Your presets", (mine,))
    assert "SDXL" in [group.title for group in rest]
    assert line_of(mine) == ("sdxl/mine", "")


def test_every_preset_is_offered_once(built_in):
    offered = [preset for group in menu_groups(built_in) for preset in group.presets]
    assert sorted(offered, key=lambda p: p.name) == sorted(built_in, key=lambda p: p.name)


def test_a_line_says_what_for_and_ends_with_the_name(built_in):
    lines = dict(reversed(line_of(preset)) for preset in built_in)
    assert lines["sdxl/lora"] == "LoRA for SDXL at 1024 px"
    assert lines["sd2/lora-base"] == "LoRA for Stable Diffusion 2.1 base at 512 px"
    assert len(set(lines.values())) == len(lines)


def test_a_preset_without_words_is_called_by_its_name():
    silent = Preset("other/mine", Path("/p/other/mine.json"), "", "built in")
    assert line_of(silent) == ("other/mine", "other/mine")
    assert menu_groups([silent])[0].title == "other"


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ("LoRA at 2.1 px. For large cards.", "LoRA at 2.1 px"),
        ("LoRA of one thing; also more.", "LoRA of one thing"),
        ("Only this.", "Only this"),
        ("", ""),
    ],
)
def test_the_first_part_of_a_description_stands_for_it(description, words):
    assert summary(description) == words


@pytest.mark.parametrize("path", sorted(BUILT_IN.rglob("*.json")), ids=lambda path: path.stem)
def test_a_built_in_preset_lies_in_its_family_s_folder(path):
    config = resolve(load_document(path), source=str(path))
    assert path.parent.name in FAMILY_WORDS
    assert config.model.family == path.parent.name


def entries(menu):
    return [
        (menu.entrycget(place, "state"), menu.entrycget(place, "label"))
        for place in range(menu.index("end") + 1)
    ]


def test_the_menu_marks_the_preset_that_is_open_and_greys_no_heading(root):
    kit = Kit(Theme(root), Jobs())
    kit.theme.apply("dark")
    said, draft = [], Draft()
    draft.load(BUILT_IN / "sdxl" / "lora.json")
    act = SimpleNamespace(say=said.append)
    menus = PresetActions(SimpleNamespace(root=root, kit=kit, draft=draft, act=act), Path("demo"))
    menus._fill(menus._menu)
    shown = entries(menus._menu)
    assert [label for _, label in shown if "✓" in label] == ["  ✓  LoRA for SDXL at 1024 px"]
    headings = [label.strip() for state, label in shown if state == "disabled" and label]
    assert headings == ["SD 1.5", "SD 2", "SDXL", "To try things out"]
    palette = kit.theme.palette
    assert str(menus._menu.cget("disabledforeground")) == palette.accent
    assert str(menus._menu.entrycget(1, "foreground")) == palette.dim
    menus._menu.invoke(1)
    assert said == ["Nothing has been changed."]
