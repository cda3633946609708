"""Large view of one sample, with a slider over the steps."""

import tkinter as tk
from collections.abc import Callable
from pathlib import Path

from onetrainer.run.events import Sample
from ui.background.image_cache import ImageCache
from ui.progress.samples import SampleBook
from ui.widgets.drawing import Drawing
from ui.widgets.timeline import Timeline
from ui.widgets.widgets import Widgets

# X11 repeats a held key as release and press, so a release only counts after a delay.
_RELEASE_MS = 80


class Viewer:
    """Large sample: Left/Right change the step, Up/Down the prompt, Space compares with the first.

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
        self._drawn_key: tuple[Path, int, int] | None = None
        self.outer, inner = widgets.card(parent)
        self._prompt_label = widgets.label(inner, style="Heading", wrap=480)
        self._prompt_label.pack(anchor="w")
        self._caption = widgets.label(inner, style="SmallDim")
        self._caption.pack(anchor="w", pady=(widgets.px(1), widgets.px(8)))
        self.timeline = Timeline(
            widgets,
            inner,
            lambda step: moved(self._prompt, step),
            name=f"{name} timeline".strip(),
        )
        self.timeline.canvas.pack(side="bottom", fill="x", pady=(widgets.px(8), 0))
        self._drawing = Drawing(
            widgets, inner, self._draw, width=50, height=50, name=f"{name} viewer".strip()
        )
        self.canvas = self._drawing.canvas
        self.canvas.pack(fill="both", expand=True)
        line = self.timeline.canvas
        line.bind("<Up>", lambda _: self._change_prompt(-1))
        line.bind("<Down>", lambda _: self._change_prompt(1))
        line.bind("<KeyPress-space>", lambda _: self._compare(True))
        line.bind("<KeyRelease-space>", lambda _: self._compare(False))
        self.canvas.bind("<ButtonPress-1>", lambda _: self._clicked())
        self.canvas.bind("<ButtonRelease-1>", lambda _: self._compare(False))

    def show(self, folder: Path, book: SampleBook, prompt: int, step: int) -> None:
        """Show one sample of a run."""
        if folder != self._folder:
            self._drawn_key = None
        self._folder, self._book = folder, book
        self._prompt, self._step = prompt, step
        self._draw()

    def take_focus(self) -> None:
        """Move the keyboard focus to the slider."""
        self.timeline.canvas.focus_set()

    @property
    def sample(self) -> Sample | None:
        """Sample that is to be shown; None without samples."""
        if self._is_comparing:
            steps = self._book.steps_of(self._prompt)
            return self._book.at(self._prompt, steps[0]) if steps else None
        return self._book.nearest(self._prompt, self._step)

    def _clicked(self) -> str:
        self.take_focus()
        # "break" also keeps customtkinter from moving the focus to the image.
        return self._compare(True)

    def _draw(self) -> None:
        sample = self.sample
        if sample is None:
            return
        prompt = " ".join(sample.prompt.split()) or "(no prompt)"
        self._prompt_label.configure(text=prompt, wraplength=max(200, self.canvas.winfo_width()))
        caption = f"Step {sample.step:,}  ·  seed {sample.seed}"
        caption += "  ·  hold Space to compare with the first step"
        if self._is_comparing:
            caption = f"Step {sample.step:,} · first step, for comparison"
        self._caption.say(caption)
        steps = self._book.steps_of(self._prompt)
        nearest = self._book.nearest(self._prompt, self._step)
        now = nearest.step if nearest else 0
        self.timeline.show(steps, now)
        width, height = self._drawing.width, self._drawing.height
        if width >= 60 and height >= 60:
            self._draw_image(sample, width, height)
            index = steps.index(now)
            # Their images are only decoded, for the next key.
            for near in (*steps[max(0, index - 1) : index], *steps[index + 1 : index + 2]):
                neighbor = self._book.at(self._prompt, near)
                if neighbor is not None:
                    self._images.get(self._folder / neighbor.path, width, height, _nothing)

    def _draw_image(self, sample: Sample, width: int, height: int) -> None:
        key = (self._folder / sample.path, width, height)
        # The previous image stays until this one is decoded, which avoids flicker.
        image = self._images.get(*key, self._draw) if key != self._drawn_key else None
        if image is not None:
            self._drawn_key, self.shown_step = key, sample.step
            self._drawing.forget()
            self._drawing.begin()
            self._drawing.image(key, image, width // 2, height // 2, 0)

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
