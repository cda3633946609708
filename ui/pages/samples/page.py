"""Page of samples: a large one with a slider over the steps, and a grid of all."""

import tkinter as tk
from functools import partial

from onetrainer.messages.formatting import counted
from ui.actions.use_step import StepFiles
from ui.context import Context, View
from ui.progress.samples import SampleBook, thumbnail
from ui.widgets.image_table import Cell, Head, ImageTable, TableLook
from ui.widgets.placing import show
from ui.widgets.scroller import Scroller
from ui.widgets.viewer import Viewer
from ui.widgets.widgets import focused

_LEAST = 480
_GRID_WEIGHT = 5
_VIEWER_WEIGHT = 7
_GALLERY = TableLook("gallery", 84, 6, 20)


def extent(book: SampleBook) -> str:
    """Format the number of samples: "2 images  ·  4 times". Times are not steps."""
    times = len(book.steps)
    text = counted(len(book.prompts), "image")
    return f"{text}  ·  {f'{times} times' if times != 1 else 'once'}"


class SamplesPage(View):
    """Samples that follow the newest step until the user selects an earlier one."""

    name = "samples"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        scroller = Scroller(widgets, parent, fills=True, least=_LEAST)
        self.outer: tk.Widget = scroller.outer
        self._page = page = widgets.frame(scroller.inner, ground="window")
        page.grid(sticky="nsew")
        self._book = SampleBook()
        self._is_newest = True
        self._prompt = 0
        self._step = -1
        self._count = -1
        self._generation = -1
        line = widgets.frame(page, ground="window")
        line.pack(fill="x", padx=widgets.px(28), pady=(widgets.px(21), widgets.px(12)))
        self._files = StepFiles(context, self._show_use)
        self._use = widgets.button(
            line, "Use this one", self._use_step, name="use step", ground="window"
        ).describe("Writes the LoRA, or whatever the run trains, as it was at this step")
        self._use.widget.pack(side="right", anchor="s")
        head, _, self._lead = widgets.heading(line, "Samples")
        head.pack(side="left")
        self._empty, below = widgets.empty_card(
            page,
            "No samples yet",
            "A run generates samples of its prompts at the start, at regular steps and at the "
            "end. They appear here during training.",
        )
        edit = partial(context.act.show_page, "sampling")
        widgets.button(below, "Edit the sample prompts", edit).widget.pack(anchor="w")
        self._split = widgets.frame(page, ground="window")
        self._split.grid_rowconfigure(0, weight=1)
        self._split.grid_columnconfigure(0, weight=_VIEWER_WEIGHT, uniform="split")
        self._split.grid_columnconfigure(1, weight=_GRID_WEIGHT, uniform="split")
        self.viewer = Viewer(widgets, self._split, context.images, self._moved)
        self.viewer.outer.grid(row=0, column=0, sticky="nsew", padx=(0, widgets.px(14)))
        right, inner = widgets.card(self._split)
        right.grid(row=0, column=1, sticky="nsew")
        widgets.label(inner, "All samples", style="Heading").pack(anchor="w")
        widgets.label(
            inner, "A row for each prompt and strength, a column for each step.", style="SmallDim"
        ).pack(anchor="w", pady=(widgets.px(1), widgets.px(8)))
        self.gallery = ImageTable(widgets, inner, context.images, self._chosen, _GALLERY)
        self.gallery.outer.pack(fill="both", expand=True)

    def refresh(self) -> None:
        """Show the samples; do nothing if there are no new ones."""
        session = self._context.session
        samples, generation = session.state.samples, session.generation
        if generation != self._generation:
            self._generation, self._count = generation, -1
            self._step = -1
        if len(samples) == self._count:
            return
        book = SampleBook.of(samples)
        was_newest = self._step < 0 or self._is_newest
        self._count = len(samples)
        self._book = book
        self._arrange(bool(samples))
        self._show_use()
        if not samples:
            return
        if self._prompt not in book.prompts:
            self._prompt = book.prompts[0]
        if was_newest:
            self._step = book.steps_of(self._prompt)[-1]
        self._show()

    def open(self, *place: int) -> None:
        """Show the sample of a prompt at a step."""
        prompt, step = place
        self.refresh()
        self._moved(prompt, step)

    def _use_step(self) -> None:
        folder = self._context.session.folder
        if folder is not None:
            self._files.use(folder, self._step)

    def _show_use(self) -> None:
        reason = "" if self._step > 0 else "At step 0 nothing is trained yet."
        if not self._book.steps:
            reason = "There are no samples yet."
        if self._files.writing:
            reason = f"The file of {self._files.writing} is being written."
        self._use.set_text("Writing…" if self._files.writing else "Use this one")
        self._use.enable(reason)

    def _moved(self, prompt: int, step: int) -> None:
        sample = self._book.nearest(prompt, step)
        if sample is not None:
            self._prompt, self._step = prompt, sample.step
            self._show()

    def _show(self) -> None:
        folder = self._context.session.folder
        if folder is None:
            return
        steps = self._book.steps_of(self._prompt)
        self._is_newest = bool(steps) and self._step == steps[-1]
        self._show_use()
        self._lead.say(f"{folder.name}  ·  {extent(self._book)}")
        self.viewer.show(folder.path, self._book, self._prompt, self._step)
        book, places = self._book, [(prompt, self._step) for prompt in self._book.prompts]
        self.gallery.show(
            [
                Head(
                    " ".join(sample.prompt.split()) or "(no prompt)",
                    "accent" if prompt == self._prompt else "dim",
                )
                for prompt, step in places
                if (sample := book.nearest(prompt, step))
            ],
            [Head(f"{one:,}", "accent" if one == self._step else "dim") for one in book.steps],
            [
                [
                    Cell(thumbnail(folder.path, sample)) if (sample := book.at(row, step)) else None
                    for step in book.steps
                ]
                for row in book.prompts
            ],
            (book.prompts.index(self._prompt), book.steps.index(self._step)),
        )

    def _chosen(self, row: int, column: int) -> None:
        self._moved(self._book.prompts[row], self._book.steps[column])
        self.viewer.take_focus()

    def take_focus(self) -> None:
        """Give the keyboard to the viewer, whose keys go through the samples."""
        if self._count > 0:
            self.viewer.take_focus()
        else:
            super().take_focus()

    def _arrange(self, has_samples: bool) -> None:
        px = self._context.widgets.px
        is_first = has_samples and not self._split.winfo_manager()
        is_typing = isinstance(focused(self.outer), tk.Entry)  # in the search
        if is_first and self.outer.winfo_viewable() and not is_typing:
            self.viewer.take_focus()
        if not has_samples:
            self._lead.say("The same prompts, sampled repeatedly during training.")
        show(self._empty, not has_samples, anchor="nw", padx=px(28))
        inside = {"fill": "both", "expand": True, "padx": px(28), "pady": (0, px(20))}
        show(self._split, has_samples, **inside)
