"""The card that explains a setting."""

from tkinter import ttk

from tests.ui.pages.settings.texts import texts_in
from ui.model.form_fields import find_setting
from ui.pages.settings.help_card import HelpCard


def test_the_help_of_a_choice_explains_what_is_chosen_and_ends_with_its_source(
    widgets, draft, root
):
    box = ttk.Frame(root)
    card = HelpCard(widgets, draft, box, name="help")
    card.show(find_setting("optimizer.kind"), "optimizer.kind")
    _, text, facts = texts_in(box)
    assert "AdamW: The usual optimizer: each weight gets a step size of its own" in text
    assert "Loshchilov" not in text
    assert facts.splitlines()[-1] == "Source: Loshchilov & Hutter 2017, arXiv:1711.05101."
    draft.set("optimizer.kind", "lion")
    card.refresh()
    _, text, facts = texts_in(box)
    assert "Lion: Changes all weights by the same amount" in text
    assert "Chen et al. 2023" in facts.splitlines()[-1]
