"""Large view of one sample or two, with a slider over the steps."""

import tkinter as tk
from collections.abc import Callable
from pathlib import Path
from tkinter import ttk

from onetrainer.run.events import Sample
from ui.background.image_cache import ImageCache
from ui.progress.samples import SampleBook
from ui.widgets.image_stage import ImageStage, Mode, Staged
from ui.widgets.timeline import Timeline
from ui.widgets.widgets import Widgets

# X11 repeats a held key as release and press, so a release only counts after a delay.
_RELEASE_MS = 80
_MODES: dict[str, Mode] = {"One image": "one", "Wipe": "wipe", "Side by side": "beside"}
_FIRST, _BEFORE, _NEWEST = "First step", "Step before", "Newest step"
_HINT = "Hold Space to compare. Wheel or + and − zoom, a drag or Shift+arrows move."
_WIPE_HINT = "A drag or Ctrl+arrows move the edge. Wheel or + and − zoom both, Shift+arrows move."


class Viewer:
    """Large sample: Left/Right change the step, Up/Down the prompt, Space compares with another.

    Args:
        moved: Called with prompt index and step when the user goes to another sample.
        name: Prefix of its control names, where a window has more than one viewer.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        images: ImageCache,
        moved: Callable[[int, int], None],
        *,
        name: str = "",
    ) -> None:
        self._images = images
        self._moved = moved
        self._book = SampleBook()
        self._folder = Path()
        self._prompt = 0
        self._step = 0
        # Step of the visible image; -1 for none.
        self.shown_step = -1
        self._is_comparing = False
        self._releasing = ""
        self._facts = ""
        px = widgets.px
        self.outer, inner = widgets.card(parent)
        self._prompt_label = widgets.label(inner, style="Heading", wrap=480)
        self._prompt_label.pack(anchor="w")
        self._caption = widgets.label(inner, style="SmallDim", wrap=480)
        self._caption.pack(anchor="w", pady=(px(1), px(6)))
        line = widgets.frame(inner)
        line.pack(fill="x", pady=(0, px(8)))
        self._mode, modes = self._make_choice(widgets, line, f"{name} compare how".strip())
        modes.configure(values=list(_MODES), width=12)
        self._mode.set(next(iter(_MODES)))
        widgets.label(line, "with", style="SmallDim").pack(side="left", padx=px(8))
        self._other, self._others = self._make_choice(widgets, line, f"{name} compare with".strip())
        self._other.set(_FIRST)
        self._hint = widgets.label(inner, _HINT, style="SmallDim", wrap=480)
        self.timeline = Timeline(
            widgets,
            inner,
            lambda step: moved(self._prompt, step),
            name=f"{name} timeline".strip(),
        )
        self.timeline.canvas.pack(side="bottom", fill="x", pady=(px(4), 0))
        self._hint.pack(side="bottom", anchor="w", pady=(px(6), 0))
        self.stage = ImageStage(
            widgets,
            inner,
            images,
            name=f"{name} viewer".strip(),
            shown=self._note_shown,
            held=self._held,
        )
        self.canvas = self.stage.canvas
        self.canvas.pack(fill="both", expand=True)
        self.canvas.bind("<Configure>", self._fit, add="+")
        keys = self.timeline.canvas
        keys.bind("<Up>", lambda _: self._change_prompt(-1))
        keys.bind("<Down>", lambda _: self._change_prompt(1))
        keys.bind("<KeyPress-space>", lambda _: self._compare(True))
        keys.bind("<KeyRelease-space>", lambda _: self._compare(False))
        self.stage.bind_keys(keys)

    def _make_choice(
        self, widgets: Widgets, parent: tk.Misc, name: str
    ) -> tuple[tk.StringVar, ttk.Combobox]:
        variable = tk.StringVar(self.outer)
        box = ttk.Combobox(parent, textvariable=variable, state="readonly", width=14)
        box.configure(font="OneTrainerBody")
        box.bind("<<ComboboxSelected>>", lambda _: self._draw())
        box.pack(side="left")
        widgets.name(box, name)
        return variable, box

    def show(
        self, folder: Path, book: SampleBook, prompt: int, step: int, *, facts: str = ""
    ) -> None:
        """Show one sample of a run. facts: What else is said of it."""
        if folder != self._folder:
            self.shown_step = -1
        if book is not self._book or prompt != self._prompt:
            steps = [f"Step {one:,}" for one in book.steps_of(prompt)]
            self._others.configure(values=[_FIRST, _BEFORE, _NEWEST, *steps])
        self._folder, self._book, self._facts = folder, book, facts
        self._prompt, self._step = prompt, step
        self._draw()

    def take_focus(self) -> None:
        """Move the keyboard focus to the slider."""
        self.timeline.canvas.focus_set()

    @property
    def sample(self) -> Sample | None:
        """Sample that is to be shown; None without samples."""
        return self.other if self._is_comparing else self._book.nearest(self._prompt, self._step)

    @property
    def other(self) -> Sample | None:
        """Sample that it is compared with; None without samples."""
        steps = self._book.steps_of(self._prompt)
        if not steps:
            return None
        chosen = self._other.get()
        step = {_FIRST: steps[0], _NEWEST: steps[-1]}.get(chosen)
        if chosen == _BEFORE:
            step = max((one for one in steps if one < self._step), default=steps[0])
        if step is None:
            step = int(chosen.removeprefix("Step ").replace(",", ""))
        return self._book.nearest(self._prompt, step)

    @property
    def caption(self) -> str:
        """What is said of the sample."""
        return self._caption.text

    def _held(self, is_held: bool) -> None:
        if is_held:
            self.take_focus()
        self._compare(is_held)

    def _draw(self) -> None:
        sample, other = self.sample, self.other
        if sample is None or other is None:
            return
        prompt = " ".join(sample.prompt.split()) or "(no prompt)"
        self._prompt_label.configure(text=prompt)
        caption = f"Step {sample.step:,}  ·  seed {sample.seed}"
        if self._is_comparing:
            caption = f"Step {sample.step:,}, for comparison  ·  seed {sample.seed}"
        elif self._facts:
            caption += f"  ·  {self._facts}"
        self._caption.say(caption)
        steps = self._book.steps_of(self._prompt)
        nearest = self._book.nearest(self._prompt, self._step)
        now = nearest.step if nearest else 0
        self.timeline.show(steps, now)
        mode = "one" if self._is_comparing else _MODES[self._mode.get()]
        self._hint.say(_WIPE_HINT if mode == "wipe" else _HINT)
        two = [sample] if mode == "one" else [sample, other]
        self.stage.show(
            [Staged(self._folder / one.path, f"step {one.step:,}") for one in two], mode
        )
        if mode == "one" and self.stage.sight.zoom == 1:
            self._decode_neighbors(steps, steps.index(now))

    def _decode_neighbors(self, steps: list[int], index: int) -> None:
        """Decode the images of the steps around, for the next key."""
        room = self.canvas.winfo_width(), self.canvas.winfo_height()
        if min(room) < 60:
            return
        for near in (*steps[max(0, index - 1) : index], *steps[index + 1 : index + 2]):
            neighbor = self._book.at(self._prompt, near)
            if neighbor is not None:
                self._images.get(self._folder / neighbor.path, *room, _nothing)

    def _note_shown(self) -> None:
        if self.sample is not None:
            self.shown_step = self.sample.step

    def _fit(self, event: "tk.Event[tk.Canvas]") -> None:
        for label in (self._prompt_label, self._caption, self._hint):
            label.configure(wraplength=max(200, event.width))

    def _change_prompt(self, by: int) -> str:
        prompts = self._book.prompts
        if self._prompt in prompts:
            index = min(max(0, prompts.index(self._prompt) + by), len(prompts) - 1)
            self._moved(prompts[index], self._step)
        return "break"

    def _compare(self, is_on: bool) -> str:
        if self._releasing:
            self.canvas.after_cancel(self._releasing)
            self._releasing = ""
        if is_on:
            self._set_comparing(True)
        else:
            self._releasing = self.canvas.after(_RELEASE_MS, lambda: self._set_comparing(False))
        return "break"

    def _set_comparing(self, is_on: bool) -> None:
        if is_on != self._is_comparing:
            self._is_comparing = is_on
            self._draw()


def _nothing() -> None:
    """Ignore a decoded neighbor, which only fills the image cache."""
