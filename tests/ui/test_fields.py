import pytest

from onetrainer.config.fields import settings
from onetrainer.config.train import TrainConfig
from ui.forms.fields import as_text, as_value, as_words, page_of, pages, setting_of
from ui.search import find_settings


def setting(path):
    found = setting_of(path)
    assert found is not None
    return found


def test_every_setting_that_is_not_hidden_is_on_one_page():
    shown = [s.path for plan in pages() for group in plan.groups for s in group.settings]
    wanted = [s.path for s in settings(TrainConfig) if s.ui.level != "hidden"]
    assert sorted(shown) == sorted(wanted)


def test_every_setting_has_a_label_and_help():
    for plan in pages():
        for group in plan.groups:
            assert all(s.ui.label and s.help for s in group.settings)


def test_page_of_a_setting_is_the_page_that_shows_it():
    for plan in pages():
        for group in plan.groups:
            assert {page_of(s.path) for s in group.settings} == {plan.name}


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("optimizer.lr", "1e-4", 1e-4),
        ("optimizer.lr", " 0.003 ", 0.003),
        ("optimizer.lr", "1/4", 0.25),
        ("training.steps", "1_000", 1000),
        ("training.steps", "1e3", 1000),
        ("training.steps", "2.5", 2.5),
        ("training.steps", "abc", "abc"),
        ("training.steps", "", ""),
        ("training.steps", "-", "-"),
        ("optimizer.text_encoder_lr", "", None),
        ("model.path", ' "/a b/c" ', "/a b/c"),
        ("sampling.prompts.0.seed", "7", 7),
    ],
)
def test_text_becomes_the_value_it_means(path, text, value):
    made = as_value(text, setting(path))
    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e-4, "1e-4"), (2.5e-5, "2.5e-5"), (0.05, "0.05"), (16.0, "16"), (1e-8, "1e-8"), (None, "")],
)
def test_numbers_are_shown_as_people_write_them(value, text):
    assert as_text(value) == text


def test_a_choice_is_told_by_its_word_and_anything_else_as_it_is():
    assert as_words("sdxl", setting("model.family")) == "SDXL"
    assert as_words("what", setting("model.family")) == "what"
    assert as_words(1e-4, setting("optimizer.lr")) == "1e-4"
    assert as_words(None, setting("optimizer.text_encoder_lr")) == ""


@pytest.mark.parametrize("value", [1e-4, 3.3e-5, 0.999, 1e-8, 123456.5, 1e22])
def test_a_number_shown_and_read_again_is_the_same(value):
    assert as_value(as_text(value), setting("optimizer.lr")) == value


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("lr", "optimizer.lr"),
        ("learning", "optimizer.lr"),
        ("vram", "hardware.gradient_checkpointing"),
        ("cfg", "sampling.guidance"),
        ("batch", "training.batch_size"),
        ("keep check", "output.keep_checkpoints"),
        ("sdxl", "model.family"),
        ("inpainting", "model.family"),
        ("vpred", "model.prediction"),
        ("euler", "sampling.sampler"),
        ("privacy", "metadata.include_config"),
    ],
)
def test_search_finds_settings_by_what_people_call_them(query, path):
    hits = find_settings(query, pages())
    assert path in [hit.setting.path for hit in hits][:3]


def test_search_for_nothing_finds_nothing():
    assert find_settings("  ", pages()) == []
    assert find_settings("xylophone", pages()) == []
