"""Card that switches between training on images and training on rewards."""

import tkinter as tk
from dataclasses import dataclass

from ui.context import Context
from ui.model.form_fields import page_of
from ui.widgets.placing import show_in_grid
from ui.widgets.widgets import CARD_PAD

_OF_REWARDS, _OF_IMAGES = "alignprop", "denoising"
_VAE = "The VAE is trained by reconstruction only. Choose another method first."
_WRAP, _WRAP_WITH_BUTTON = 620, 430
# What a line that Tk wraps may be longer than was asked for.
_BEYOND = 8


@dataclass(frozen=True)
class ObjectiveMessage:
    """Text of the card, and what its button does. reason: why the button is disabled; "" if not."""

    title: str
    text: str
    button: str
    reason: str = ""


def objective_message(page: str, objective: object, method: object) -> ObjectiveMessage | None:
    """Return the text for a page; None if the card is hidden."""
    is_of_rewards = objective == _OF_REWARDS
    source = "between prompts, as a slider" if objective == "slider" else "on your images"
    match page, is_of_rewards:
        case ("rewards", True):
            text = (
                "The model generates images from prompts, rewards score them, and training "
                "raises the score."
            )
            return ObjectiveMessage("", text, "Train on images instead")
        case ("rewards", False):
            text = (
                f"This run trains {source}. It can train on rewards instead: the model"
                " generates images from prompts, rewards score them, and training raises the"
                " score. This needs prompts and no images."
            )
            reason = _VAE if method == "vae" else ""
            return ObjectiveMessage("Reward training is off", text, "Train on rewards", reason)
        case ("loss", True):
            text = (
                "This run maximizes the rewards of generated images, which have their own page."
                " Ordinary steps, if there are any, use the usual loss."
            )
            return ObjectiveMessage("Training maximizes the rewards", text, "Open Rewards")
    return None


class ObjectiveCard:
    """Card that explains the chosen objective on the pages Loss and Rewards."""

    def __init__(self, context: Context, parent: tk.Misc, page: str, *, line: int) -> None:
        self._context = context
        self._page = page
        self._shown: ObjectiveMessage | None = None
        self._width = 0
        widgets = context.widgets
        self._outer, inner = widgets.card(parent)
        self._outer.grid(row=line, column=0, sticky="ew", pady=(0, widgets.px(14)))
        self._title = widgets.label(inner, style="Heading")
        self._text = widgets.label(inner, style="Dim", wrap=_WRAP)
        self._button = widgets.button(inner, "", self._clicked, name=f"objective {page}")
        inner.grid_columnconfigure(0, weight=1)
        self._text.grid(row=1, column=0, sticky="w")
        self._outer.grid_remove()

    def refresh(self) -> None:
        """Show the current draft."""
        value = self._context.draft.value
        message = objective_message(self._page, value("objective.kind"), value("method.kind"))
        if message == self._shown:
            return
        self._shown = message
        show_in_grid(self._outer, message is not None)
        if message is None:
            return
        widgets, has_title = self._context.widgets, bool(message.title)
        self._title.say(message.title)
        self._text.say(message.text)
        self._button.set_text(message.button)
        self._button.set_kind("primary" if self._page == "rewards" and has_title else "plain")
        self._button.enable(message.reason)
        # Below the text, or next to it without a title.
        if has_title:
            self._title.grid(row=0, column=0, sticky="w")
            self._button.widget.grid(row=2, column=0, sticky="w", padx=0, pady=(widgets.px(10), 0))
        else:
            self._title.grid_remove()
            self._button.widget.grid(row=1, column=1, sticky="e", padx=(widgets.px(8), 0), pady=0)
        self.set_width(self._width)

    def set_width(self, width: int) -> None:
        """Wrap the text to the width of the card in pixels; 0 if it is not known yet."""
        self._width, px = width, self._context.widgets.px
        is_alone = self._shown is None or bool(self._shown.title)
        most = px(_WRAP if is_alone else _WRAP_WITH_BUTTON)
        taken = 0 if is_alone else self._button.widget.winfo_reqwidth() + px(8)
        room = width - 2 * px(CARD_PAD) - px(_BEYOND) - taken
        self._text.configure(wraplength=max(px(120), min(most, room)) if width else most)

    def _clicked(self) -> None:
        act, draft = self._context.act, self._context.draft
        if self._page == "loss":
            act.show_page(page_of("objective.rewards"))
            return
        act.commit()
        is_of_rewards = draft.value("objective.kind") == _OF_REWARDS
        draft.set("objective.kind", _OF_IMAGES if is_of_rewards else _OF_REWARDS)
