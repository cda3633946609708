"""A form whose sections come in kinds: rows that come, go and come back."""

import tkinter as tk

from ui.forms.row import CHECK_AFTER_MS
from ui.model.draft import Draft
from ui.pages.settings.summary_card import trained_lines


def widgets(widget):
    return sum(1 + widgets(child) for child in widget.winfo_children())


def test_every_variant_shows_its_values(make_form, draft, root):
    for name, sections in (
        ("method", ("method",)),
        ("training", ("optimizer", "schedule")),
        ("loss", ("objective.timesteps", "objective.weighting", "objective")),
    ):
        draft._listeners.clear()  # the forms before, which need not follow
        form = make_form(name)
        for section in sections:
            for kind in draft.setting(f"{section}.kind").choices:
                draft.set(f"{section}.kind", kind)
                for key, value in draft.value(section).items():
                    row = form.row(f"{section}.{key}")
                    assert row is None or row.editor.read() == value, (section, kind, key)
            root.update()
            draft.reset_all()


def test_switching_back_to_a_variant_creates_no_widget(make_form, draft, root):
    make_form("training")
    variants = ("lion", "sgd", "adamw")
    for kind in variants:
        draft.set("optimizer.kind", kind)
    before = widgets(root)
    for kind in variants * 3:
        draft.set("optimizer.kind", kind)
    assert widgets(root) == before


def test_text_typed_into_a_row_that_disappears_is_dropped(make_form, draft, root):
    form = make_form("training")
    draft.set("optimizer.kind", "sgd")
    form.row("optimizer.momentum").editor.focus.insert("end", "5")
    draft.undo()
    is_over = tk.BooleanVar(root)
    root.after(CHECK_AFTER_MS + 50, lambda: is_over.set(True))
    root.wait_variable(is_over)
    assert draft.value("optimizer.momentum") is None
    assert draft.value_errors == []


def test_a_letter_outlives_what_happens_before_tk_tells_of_it(make_form, draft):
    row = make_form("sampling").row("sampling.prompts.0.prompt")
    row.editor.focus.insert("end-1c", "a")
    draft.notify()  # such as by a check that ends between key and event
    assert row.editor.read().endswith("a")
    row.commit()
    assert draft.value("sampling.prompts.0.prompt") == row.editor.read()


def test_settings_without_effect_are_hidden(make_form, draft):
    form = make_form("loss")
    for path, other, value in (
        ("objective.mask.unmasked_weight", "data.masks", "alpha"),
        ("objective.prior.kind", "data.class_folder", "/cats"),
        ("objective.prior.weight", "data.class_folder", "/cats"),
        ("objective.loss.huber_threshold", "objective.loss.huber", 0.5),
        ("objective.noise.pyramid_discount", "objective.noise.pyramid_levels", 6),
        ("objective.noise.offset_by_timestep", "objective.noise.offset", 0.05),
    ):
        before = draft.value(other)
        assert not form.row(path).is_shown, path
        draft.set(other, value)
        assert form.row(path).is_shown, path
        draft.set(other, before)
        assert not form.row(path).is_shown, path


def test_the_trained_components_are_listed(home):
    for changes, lines in (
        ({}, ["LoRA: UNet"]),
        ({"method.text_encoders.te1.train": True}, ["LoRA: UNet and text encoder"]),
        ({"method.unet.train": False}, ["LoRA: no component"]),
        ({"method.kind": "full", "embeddings.tokens": [{}]}, ["Fine-tuning: UNet", "1 new token"]),
        ({"method.kind": "embedding"}, ["Embedding"]),
        ({"method.kind": "vae"}, ["VAE decoder"]),
        (
            {
                "model.family": "sdxl",
                "method.text_encoders.te1.train": True,
                "method.text_encoders.te2.train": True,
                "embeddings.tokens": [{}, {}],
            },
            ["LoRA: UNet, text encoder and second text encoder", "2 new tokens"],
        ),
    ):
        draft = Draft()
        for path, value in changes.items():
            draft.set(path, value)
        assert trained_lines(draft) == lines
