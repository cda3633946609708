"""The settings reference is complete and up to date."""

import re

import pytest

from onetrainer import ROOT
from onetrainer.config.base.variants import KIND, selected_variants
from onetrainer.config.fields import Setting, settings
from onetrainer.config.train import TrainConfig
from onetrainer.presets.settings_reference import render

PAGE = ROOT / "docs" / "settings.md"
CHOICES = [s for s in settings(TrainConfig) if s.path.endswith(f".{KIND}")]
EVERY_KIND = [(choice, kind) for choice in CHOICES for kind in choice.choices]


@pytest.fixture(scope="module")
def page():
    return render()


def with_variant(choice: Setting, kind: str) -> list[Setting]:
    """Return the settings of a variant, and of the variants around it."""
    around = {section: min(selected) for section, selected in choice.needs}
    selected = (
        selected_variants({}, TrainConfig) | around | {choice.path.removesuffix(f".{KIND}"): kind}
    )
    return [s for s in settings(TrainConfig, selected=selected) if s.ui.level != "hidden"]


def test_the_page_in_the_docs_is_up_to_date(page):
    assert PAGE.read_text(encoding="utf-8") == page, "make docs"


def test_the_page_lists_every_setting_of_every_variant(page):
    rows = {}
    for line in page.splitlines():
        if line.startswith("| `"):
            rows.setdefault(line.split("`")[1], []).append(line)
    for choice, kind in EVERY_KIND:
        for setting in with_variant(choice, kind):
            place = f"{setting.path} of {choice.path} {kind}"
            assert f"`{setting.path}`" in page, place
            help_text = setting.help.replace("|", "\\|")
            if setting.path.endswith(f".{KIND}"):
                assert help_text in page, place
            else:
                lines = rows[setting.path]
                assert any(help_text in row and setting.expected in row for row in lines), place


def test_no_row_is_printed_twice(page):
    rows = [line for line in page.splitlines() if line.startswith("| `") and ".0." not in line]
    assert len(set(rows)) == len(rows)


def test_every_variant_is_listed_with_a_link_to_its_own_part(page):
    titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", title).replace(" ", "-").lower() for title in titles}
    links = re.findall(r"\]\(#([^)]+)\)", page)
    assert set(links) <= anchors
    assert len(links) == len(EVERY_KIND)
    assert len(set(titles)) == len(titles)


def test_a_default_that_variants_differ_in_is_reported_with_each(page):
    assert "`optimizer.lr` (`0.0001`)" in page
    assert "| varies |" in page
