"""Third step: what to make of the images."""

import tkinter as tk
from collections.abc import Callable
from functools import partial
from tkinter import ttk

from ui.context import Context
from ui.pages.start.choices import LOOKING, Choices
from ui.widgets.button import Button
from ui.widgets.changes import on_change
from ui.widgets.placing import give_focus, show, show_in_grid
from ui.widgets.widgets import Label

_BUTTON = 150
_FROM_BUTTON = 190
_TRIGGER = (
    "A made-up word that means nothing yet, such as “ohwx” or “mika-k”. It is put in front of "
    "every caption, and calls up what was trained in your prompts."
)
_TOKEN = "The word that stands for the embedding in prompts, such as “<my-cat>”."
_SHOWS = "What it is, in a few usual words, such as “a red cat”: training begins there."


class AimStep:
    """Choice of what is made, with a word where only the person can know it.

    take: Called when what is chosen is pressed again and nothing is left to say.
    """

    def __init__(
        self, context: Context, parent: tk.Misc, choices: Choices, take: Callable[[], None]
    ) -> None:
        # Imported late to keep the start of the window fast.
        from onetrainer.guide.aims import AIMS, gpu_memory

        self._context = context
        self._choices, self._take = choices, take
        self._aims = AIMS
        widgets, px = context.widgets, context.widgets.px
        self.outer: tk.Widget = widgets.frame(parent)
        lead = "What is to be made of your images? All other settings follow from it."
        widgets.label(self.outer, lead, wrap=640).pack(anchor="w", pady=(0, px(8)))
        self._buttons = [self._add_aim(index) for index in range(len(AIMS))]
        self._words = widgets.frame(self.outer)
        self._asks = widgets.kept.value("start asks", "")
        self._word = widgets.kept.variable(parent, "start word")
        self._shows = widgets.kept.variable(parent, "start shows")
        self._word_label, self._word_entry, self._word_help = self._add_word(
            0, self._word, "start word"
        )
        self._shown = self._add_word(1, self._shows, "start shows")
        self.entries = (self._word_entry, self._shown[1])
        self._shown[0].say("What it shows")
        self._shown[2].say(_SHOWS)
        self._preset = widgets.label(self.outer, style="SmallDim", wrap=640)
        self._preset.pack(anchor="w", pady=(px(12), 0))
        context.widgets.jobs.run(gpu_memory, self._know_gpu)

    def refresh(self) -> None:
        """Show what is chosen, and the field for the word that it needs."""
        from onetrainer.guide.aims import asked

        chosen, images = self._choices.aim, self._choices.images
        for aim, button in zip(self._aims, self._buttons, strict=True):
            button.set_kind("primary" if aim is chosen else "plain")
        # While the images are looked at again, as after a change of size, the field stays.
        if images is not None:
            self._asks = asked(chosen, images) if chosen is not None else ""
            self._context.widgets.kept.keep("start asks", self._asks)
        asks = self._asks
        self._word_label.say("Token" if asks == "token" else "Trigger word")
        self._word_help.say(_TOKEN if asks == "token" else _TRIGGER)
        for widget in self._shown:
            show_in_grid(widget, asks == "token")
        pad = (self._context.widgets.px(12), 0)
        show(self._words, bool(asks), fill="x", pady=pad, before=self._preset)
        name = self._choices.preset_name
        self._preset.say(f"This begins with the preset {name}." if name else "")

    def commit(self) -> None:
        """Take what is being typed."""
        self._choices.word, self._choices.shows = self._word.get(), self._shows.get()

    @property
    def is_working(self) -> bool:
        """Whether it waits for the images alone."""
        return self._choices.aim is not None and self.blocked_reason() == LOOKING

    def blocked_reason(self) -> str:
        """Return what is still to be said."""
        return self._choices.aim_reason()

    def take_focus(self) -> None:
        """Take the keyboard."""
        chosen = self._choices.aim
        self._buttons[self._aims.index(chosen) if chosen in self._aims else 0].take_focus()

    def _add_aim(self, index: int) -> Button:
        widgets, aim = self._context.widgets, self._aims[index]
        line = widgets.frame(self.outer)
        line.pack(fill="x", pady=widgets.px(3))
        choose, name = partial(self._choose, index), f"start aim {aim.name}"
        button = widgets.button(line, aim.title, choose, name=name, width=_BUTTON)
        button.widget.pack(side="left")
        text = widgets.label(line, aim.text, style="Dim", wrap=460)
        text.inset = widgets.px(_FROM_BUTTON)
        text.pack(side="left", padx=(widgets.px(14), 0))
        for key, by in (("<Down>", 1), ("<Up>", -1)):
            button.widget.bind(key, partial(self._move, index + by))
        return button

    def _add_word(
        self, place: int, variable: tk.StringVar, name: str
    ) -> tuple[Label, ttk.Entry, Label]:
        widgets, row = self._context.widgets, 2 * place
        label = widgets.label(self._words)
        entry = ttk.Entry(self._words, textvariable=variable, width=28, font="OneTrainerBody")
        help_text = widgets.label(self._words, style="SmallDim", wrap=460)
        help_text.inset = widgets.px(_FROM_BUTTON)
        self._words.grid_columnconfigure(0, minsize=widgets.px(_BUTTON + 14))
        label.grid(row=row, column=0, sticky="w")
        entry.grid(row=row, column=1, sticky="w", pady=(widgets.px(4), 0))
        help_text.grid(row=row + 1, column=1, sticky="w", pady=(widgets.px(2), widgets.px(4)))
        on_change(variable, entry, self._typed)
        widgets.name(entry, name)
        return label, entry, help_text

    def _typed(self) -> None:
        self.commit()
        self._context.act.refresh()

    def _choose(self, index: int) -> None:
        is_answered = self.is_working or not self.blocked_reason()
        if self._choices.aim is self._aims[index] and is_answered:
            self._take()
            return
        self._choices.aim = self._aims[index]
        self._context.act.refresh()
        if self._words.winfo_manager() and not self._word.get():
            # Tk gives a field the focus once it is on the screen; keys would be lost till then.
            self._words.update_idletasks()
            self._word_entry.focus_set()

    def _move(self, index: int, _: "tk.Event[tk.Misc]") -> str:
        if 0 <= index < len(self._buttons):
            self._buttons[index].take_focus()
        return give_focus(None)

    def _know_gpu(self, gib: float) -> None:
        self._choices.gpu_gib = gib
        self._context.act.refresh()
