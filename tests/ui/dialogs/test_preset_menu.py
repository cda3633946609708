"""The menu of presets: a newcomer finds the family, everybody their own first."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from onetrainer.demo.write import write_demo
from onetrainer.presets.find import BUILT_IN, find_presets
from onetrainer.run.user_folder import user_folder
from ui.dialogs.preset_list import PresetMenu
from ui.dialogs.preset_menu import (
    family_groups,
    menu_line,
    other_demos,
    short_name,
    summary,
)
from ui.model.draft import Draft

SMALL_SCREEN = 800
BELOW_HEADER = 60


@pytest.fixture
def built_in(home):
    return find_presets()


def in_group(built_in, title):
    group = next(group for group in family_groups(built_in) if group.title == title)
    return {short_name(preset): menu_line(preset)[0] for preset in group.presets}


def test_the_built_in_presets_stand_below_their_families_in_the_settings_order(built_in):
    assert [group.title for group in family_groups(built_in)] == ["SD 1.5", "SD 2", "SDXL"]


def test_the_one_to_begin_with_is_first_and_numbers_follow_as_numbers(built_in):
    for title in ("SD 1.5", "SD 2", "SDXL"):
        names = list(in_group(built_in, title))
        assert names[0] == "lora"
        sizes = [name for name in names if name.startswith("fine-tune-")]
        assert sizes == sorted(sizes, key=lambda name: int(name[10:-2]))
        plain = [name for name in names[1:] if not name.endswith("gb")]
        assert plain == sorted(plain)


def test_a_line_says_what_for_without_the_family_and_ends_with_the_name(built_in):
    assert in_group(built_in, "SDXL")["lora"] == "LoRA at 1024 px"
    assert in_group(built_in, "SD 2")["lora-base"] == "LoRA for the base model at 512 px"
    assert in_group(built_in, "SDXL")["fine-tune-12gb"].startswith("Fine-tuning of the UNet at")
    for group in family_groups(built_in):
        lines = [menu_line(preset) for preset in group.presets]
        assert len({words for words, _ in lines}) == len(lines)
        assert not [words for words, _ in lines if "Stable Diffusion" in words or "SDXL" in words]


def test_the_other_demos_are_reported_by_what_they_do(tmp_path):
    assert other_demos(tmp_path) == []
    write_demo(tmp_path)
    (tmp_path / "demo-broken.json").write_text("{")
    found = {preset.name: menu_line(preset)[0] for preset in other_demos(tmp_path)}
    assert found["demo-dora"] == "Teaches the tiny model smileys by DoRA"
    assert set(found) == {path.stem for path in tmp_path.glob("demo-*.json")} - {"demo-broken"}


def test_the_first_part_of_a_description_stands_for_it():
    for description, words in [
        ("LoRA at 2.1 px. For large cards.", "LoRA at 2.1 px"),
        ("LoRA of one thing; also more.", "LoRA of one thing"),
        ("Only this.", "Only this"),
        ("", ""),
    ]:
        assert summary(description) == words, (description, words)


@pytest.fixture
def make_menu(root, widgets, tmp_path):
    def make(draft, *, said):
        act = Mock(show_message=said.append)
        context = SimpleNamespace(root=root, widgets=widgets, draft=draft, act=act)
        made = PresetMenu(context, tmp_path / "demo")
        made.fill()
        return made

    return make


def lines(menu):
    return [
        (menu.type(place), menu.entrycget(place, "state"), menu.entrycget(place, "label"))
        for place in range(menu.index("end") + 1)
    ]


def menus_within(menu):
    """A menu and all that open from it."""
    inner = [
        menu.nametowidget(menu.entrycget(place, "menu"))
        for place, (kind, *_) in enumerate(lines(menu))
        if kind == "cascade"
    ]
    return [menu, *(found for part in inner for found in menus_within(part))]


def test_the_menu_marks_the_preset_that_is_open_and_greys_no_heading(home, make_menu):
    said, draft = [], Draft()
    draft.load(BUILT_IN / "sdxl" / "lora.json")
    made = make_menu(draft, said=said)
    shown = [label for menu in menus_within(made.menu) for *_, label in lines(menu)]
    assert [label for label in shown if "•" in label] == ["  •  SDXL", "  •  LoRA at 1024 px"]
    first = lines(made.menu)
    headings = [label.strip() for _, state, label in first if state == "disabled" and label]
    assert headings == ["Demos", "Built-in presets"]
    lists = [label.strip(" •") for kind, _, label in first if kind == "cascade"]
    assert lists == ["SD 1.5", "SD 2", "SDXL"]
    palette = made._context.widgets.theme.palette
    assert str(made.menu.cget("disabledforeground")) == palette["accent"]
    assert str(made.menu.entrycget(1, "foreground")) == palette["dim"]
    made.menu.invoke(1)
    assert said == ["There are no changes."]


def test_no_list_is_higher_than_a_small_screen_however_many_presets_there_are(home, make_menu):
    own = user_folder() / "presets"
    own.mkdir(parents=True)
    for place in range(70):
        (own / f"mine-{place}.json").write_text('{"version": 2}')
    made = make_menu(Draft(), said=[])
    found = menus_within(made.menu)
    made.menu.update_idletasks()
    assert max(menu.winfo_reqheight() for menu in found) < SMALL_SCREEN - BELOW_HEADER
    names = [label.strip() for menu in found for *_, label in lines(menu)]
    assert [name for name in names if name.startswith("mine-")] == [f"mine-{n}" for n in range(70)]


def test_every_built_in_preset_is_loaded_from_its_line(home, make_menu):
    draft = Draft()
    made = make_menu(draft, said=[])
    opened = []
    made._context.act.load_file = lambda path, preset: opened.append(preset.name)
    made.fill()
    for menu in menus_within(made.menu)[1:]:
        for place in range(menu.index("end") + 1):
            menu.invoke(place)
    assert sorted(opened) == sorted(preset.name for preset in find_presets())
