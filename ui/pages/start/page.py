"""Guided start: three steps from images to settings that can be started."""

import tkinter as tk
from collections.abc import Callable
from functools import partial

from ui.context import Context, Offer, View
from ui.model.preset_origin import without_demo_value
from ui.pages.start.aim_step import AimStep
from ui.pages.start.choices import Choices
from ui.pages.start.images_step import ImagesStep
from ui.pages.start.model_step import ModelStep
from ui.pages.start.ready_step import ReadyStep
from ui.pages.start.step import Step
from ui.widgets.placing import show
from ui.widgets.scroller import Scroller

_WIDTH, _MARGIN = 720, 28
_HELP = 60  # below a field
_TITLES = ("1  Images", "2  Base model", "3  What to make of them")
_READY = len(_TITLES)
_NOT_FILLED_IN = (
    "Your answers are not in the settings yet. Finish the questions, or go to another page."
)


class StartPage(View):
    """One step at a time; the last one is what was filled in, with Start."""

    name = "start"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets, px = context.widgets, context.widgets.px
        self._choices = choices = widgets.kept.once("start choices", Choices)
        self._at = widgets.kept.value("start step", 0)
        self._goes_on = False  # once what Next waits for is known
        self._scroller = Scroller(widgets, parent)
        self._scroller.follow_keyboard()
        self.outer: tk.Widget = self._scroller.outer
        column = self._column = widgets.frame(self._scroller.inner, ground="window")
        column.grid(row=0, column=0, sticky="nw", padx=(px(_MARGIN), 0), pady=px(24))
        head, _, _ = widgets.heading(column, "Train on my images")
        head.grid(row=0, column=0, sticky="w")
        trail = widgets.frame(column, ground="window")
        trail.grid(row=1, column=0, sticky="w", pady=(0, px(12)))
        self._marks = [widgets.label(trail, title, ground="window") for title in _TITLES]
        for mark in self._marks:
            mark.pack(side="left", padx=(0, px(22)))
        outer, self._card = widgets.card(column)
        outer.grid(row=2, column=0, sticky="ew")
        makers: tuple[Callable[[], Step], ...] = (
            lambda: ImagesStep(context, self._card, choices),
            lambda: ModelStep(context, self._card, choices, self._go_on),
            lambda: AimStep(context, self._card, choices, self._go_on),
            lambda: ReadyStep(context, self._card, choices),
        )
        self._makers = makers
        self._steps: dict[int, Step] = {}
        self._make_foot()
        self._scroller.canvas.bind("<Configure>", self._arrange, add="+")
        self._prefill()
        self._show(self._at)
        images = self._step(0)
        assert isinstance(images, ImagesStep), "its maker is the first"
        # A run that is started, or another page, leaves this one.
        self.outer.bind("<Unmap>", lambda _: images.pause(), add="+")
        self.outer.bind("<Map>", lambda _: images.resume(), add="+")

    @property
    def step(self) -> int:
        """The number of the shown step, from 0 on."""
        return self._at

    @property
    def start_blocked_reason(self) -> str:
        """Why the settings cannot be started before these questions have filled them in."""
        return "" if self._at == _READY else _NOT_FILLED_IN

    def refresh(self) -> None:
        """Show what is known now."""
        step = self._step(self._at)
        step.refresh()
        self._wrap()  # it may have made labels
        reason, is_working = step.blocked_reason(), step.is_working
        was_pressed, self._goes_on = self._goes_on, self._goes_on and is_working
        # It can be pressed while the answer is being found out, and then goes on by itself.
        self._next.enable("" if is_working else reason)
        self._next.set_kind("plain" if is_working else "primary")
        self._waits_for.say(reason if self._goes_on else "")
        self._start.enable(self._context.act.start_blocked_reason())
        is_ready = self._context.draft.is_startable
        self._start.set_kind("primary" if is_ready else "plain")
        for index, mark in enumerate(self._marks):
            is_here = index == self._at
            mark.say(_TITLES[index], "Accent" if is_here else "" if index < self._at else "Dim")
        if was_pressed and not (is_working or reason):
            self._go_on()

    def take_focus(self) -> None:
        """Take the keyboard when the page is opened, before the next key comes."""
        # Tk gives a field the focus once it is on the screen; keys would be lost till then.
        self.outer.update_idletasks()
        if self._at == _READY:
            self._start.take_focus()
        else:
            self._step(self._at).take_focus()

    def take_path(self, kind: str, path: str) -> bool:
        """Answer the question that is about what was dropped, and show it."""
        index = {"images": 0, "model": 1}.get(kind, _READY)
        step = self._step(index)
        if not isinstance(step, ImagesStep | ModelStep):
            return False
        self._show(index)
        step.field.set(path)
        self._context.act.refresh()
        self.take_focus()
        return True

    def commit(self) -> None:
        """Take what is being typed, and go on no longer by itself: something else is begun."""
        self._stay()
        self._step(self._at).commit()

    def _step(self, index: int) -> Step:
        if index not in self._steps:
            step = self._steps[index] = self._makers[index]()
            for entry in step.entries:
                entry.bind("<Return>", lambda _: self._go_on())
                entry.bind("<Key>", lambda _: self._stay(), add="+")
                # One that has just appeared gets the keyboard by itself.
                entry.bind("<FocusIn>", self._follow, add="+")
        return self._steps[index]

    def _follow(self, event: "tk.Event[tk.Misc]") -> None:
        self._scroller.follow(event.widget, margin=_HELP)

    def _make_foot(self) -> None:
        widgets, px = self._context.widgets, self._context.widgets.px
        foot = widgets.frame(self._column, ground="window")
        foot.grid(row=3, column=0, sticky="ew", pady=(px(14), 0))
        make = partial(widgets.button, foot, ground="window")
        self._back = make("Back", self._go_back, name="start back")
        self._next = make("Next", self._go_on, name="start next", kind="primary", width=110)
        self._start = make(
            "Start", self._context.act.start, name="start now", kind="primary", width=110
        )
        self._form = make("All settings", self._show_form, name="start form")
        self._waits_for = widgets.label(foot, style="Dim", ground="window")

    def _prefill(self) -> None:
        """Begin with the answers so far, else with what is in the form and not of the demo."""
        for index, path in ((0, "data.folder"), (1, "model.path")):
            value = without_demo_value(self._context.draft.value(path))
            step = self._step(index)
            if isinstance(step, ImagesStep | ModelStep):
                step.field.set(step.field.text or (value if isinstance(value, str) else ""))

    def _show(self, index: int) -> None:
        for step in self._steps.values():
            step.outer.pack_forget()
        self._at, self._goes_on = index, False
        self._context.widgets.kept.keep("start step", index)
        self._step(index).outer.pack(fill="both", expand=True)
        is_ready = index == _READY
        gap = self._context.widgets.px(8)
        for button, is_shown in (
            (self._next, not is_ready),
            (self._start, is_ready),
            (self._form, is_ready),
        ):
            show(button.widget, is_shown, side="right", padx=(gap, 0))
        show(self._back.widget, index > 0, side="left")
        show(self._waits_for, not is_ready, side="right", padx=(gap, gap))
        self._next.set_text("Fill in the settings" if index == _READY - 1 else "Next")
        self._wrap()
        self._scroller.to_top()

    def _go_on(self) -> None:
        """Show the next step; after the last question, fill in the settings."""
        self.commit()
        self._context.act.refresh()
        step = self._step(self._at)
        if step.is_working:
            self._goes_on = True
            self.refresh()
        if step.blocked_reason():
            return
        if self._at == _READY - 1:
            self._fill_in()
        self._show(self._at + 1)
        self._context.act.refresh()
        self.take_focus()

    def _stay(self) -> None:
        """Go on no longer by itself: what was pressed was about another answer."""
        self._goes_on = False
        self._waits_for.say("")

    def _go_back(self) -> None:
        self._show(self._at - 1)
        self._context.act.refresh()
        self.take_focus()

    def _fill_in(self) -> None:
        context, draft = self._context, self._context.draft
        is_new = not draft.is_dirty and not draft.origin.name
        is_applied = self._choices.apply(draft)
        context.window_state.remember_model(draft.value("model.path"))
        context.act.save_state_soon()
        context.forecasts.start()
        loaded = draft.last_change
        if is_applied and loaded is not None and not is_new:
            offer = Offer("Undo", "undo start", draft.undo, lambda: draft.last_change is loaded)
            context.act.show_message("Your earlier settings were replaced.", offer)

    def _show_form(self) -> None:
        self._context.act.show_page("model")

    def _arrange(self, event: "tk.Event[tk.Misc]") -> None:
        px = self._context.widgets.px
        width = min(px(_WIDTH), event.width - 2 * px(_MARGIN))
        self._column.grid_columnconfigure(0, minsize=width)
        self._wrap()

    def _wrap(self) -> None:
        px, width = self._context.widgets.px, self._scroller.canvas.winfo_width()
        if width > 1:
            room = min(px(_WIDTH), width - 2 * px(_MARGIN))
            self._context.widgets.wrap_in_card(self._card, room)
