"""The page of settings says what the program does."""

from pathlib import Path

from onetrainer.config.fields import settings
from onetrainer.config.train import TrainConfig
from onetrainer.reference import render

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def test_the_page_in_the_docs_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == render(), "make docs"


def test_the_page_tells_every_setting():
    text = render()
    for setting in settings(TrainConfig):
        if setting.ui.level != "hidden":
            assert f"| `{setting.path}` |" in text
            assert setting.help in text
