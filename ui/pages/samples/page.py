"""Page of samples: a large one with a slider over the steps, and a grid of all."""

import tkinter as tk
from functools import partial
from pathlib import Path

from onetrainer.messages.formatting import counted
from onetrainer.run.events import Sample
from onetrainer.run.run_folder import RunFolder
from onetrainer.run.starred import starred_steps
from ui.actions.sample_files import SampleFiles, copy_image, sample_path
from ui.actions.use_step import StepFiles
from ui.background.threads import Latest
from ui.context import Context, View
from ui.progress.sample_facts import sample_rewards, sample_settings, weights_note
from ui.progress.samples import SampleBook, thumbnail
from ui.theme.palette import Role
from ui.widgets.button import Button
from ui.widgets.drag_source import DragSource
from ui.widgets.flow import Flow
from ui.widgets.image_table import Cell, Head, ImageTable, TableLook
from ui.widgets.placing import show, wrap_within
from ui.widgets.scroller import Scroller
from ui.widgets.viewer import Viewer
from ui.widgets.widgets import focused

_LEAST = 520
_GRID_WEIGHT = 5
_VIEWER_WEIGHT = 7
_GALLERY = TableLook("gallery", 84, 6, 20)
_GALLERY_LEAD = (
    "A row for each prompt and strength, a column for each step; * has a star. Drag an image into "
    "another program."
)
_NONE = "There are no samples yet."


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
        self._stars: frozenset[int] = frozenset()
        self._settings = Latest(widgets.jobs, sample_settings, self._show)
        self._files = StepFiles(context, self._show_buttons)
        self._actions = SampleFiles(context, self._show_buttons)
        self._make_head()
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
        keys = self.viewer.timeline.canvas
        keys.bind("<Control-c>", lambda _: self._copy())
        keys.bind("<s>", lambda _: self._toggle_star())
        right, inner = widgets.card(self._split)
        right.grid(row=0, column=1, sticky="nsew")
        widgets.label(inner, "All samples", style="Heading").pack(anchor="w")
        lead = widgets.label(inner, _GALLERY_LEAD, style="SmallDim")
        lead.pack(anchor="w", pady=(widgets.px(1), widgets.px(8)))
        wrap_within(inner, lead)
        self.gallery = ImageTable(widgets, inner, context.images, self._chosen, _GALLERY)
        self.gallery.outer.pack(fill="both", expand=True)
        DragSource(widgets, self.gallery.canvas, self._dragged).enable_soon()

    def _make_head(self) -> None:
        widgets, px = self._context.widgets, self._context.widgets.px
        line = widgets.frame(self._page, ground="window")
        line.pack(fill="x", padx=px(28), pady=(px(21), px(12)))
        head, _, self._lead = widgets.heading(line, "Samples")
        row = widgets.frame(line, ground="window")
        flow = Flow(widgets, row, ground="window")
        self._buttons: dict[str, Button] = {}
        for name, text, do, what in (
            (
                "use step",
                "Use this one",
                self._use_step,
                "Writes the LoRA, or whatever the run trains, as it was at this step",
            ),
            (
                "star step",
                "Star",
                self._toggle_star,
                "Keeps this step's checkpoint and file, which would be deleted in their turn (S)",
            ),
            ("copy sample", "Copy", self._copy, "Copies the image, for other programs (Ctrl+C)"),
            ("show sample", "Folder", self._show_folder, "Opens the folder of the images"),
            (
                "save grid",
                "Save grid",
                self._save_grid,
                "Writes all steps and prompts into one image, in the run's folder",
            ),
        ):
            button = widgets.button(row, text, do, name=name, ground="window").describe(what)
            flow.add(button.widget)
            self._buttons[name] = button

        line.grid_columnconfigure(0, weight=1)

        def fit(_: object) -> None:
            """Put the buttons below the title where they do not fit beside it."""
            is_beside = line.winfo_width() >= head.winfo_reqwidth() + flow.width + px(12)
            head.grid(row=0, column=0, sticky="w")
            # As wide as one line of them, also once a label of theirs has become longer.
            line.grid_columnconfigure(1, minsize=flow.width if is_beside else 0)
            if is_beside:
                row.grid(row=0, column=1, columnspan=1, sticky="sew", pady=0)
            else:
                row.grid(row=1, column=0, columnspan=2, sticky="ew", pady=(px(8), 0))

        for box in (line, head, row):
            box.bind("<Configure>", fit, add="+")

    def refresh(self) -> None:
        """Show the samples; do nothing if there are no new ones."""
        session = self._context.session
        samples, generation = session.state.samples, session.generation
        if generation != self._generation:
            self._generation, self._count = generation, -1
            self._step = -1
            self._stars = starred_steps(session.folder) if session.folder else frozenset()
        if len(samples) == self._count:
            return
        book = SampleBook.of(samples)
        was_newest = self._step < 0 or self._is_newest
        self._count = len(samples)
        self._book = book
        self._arrange(bool(samples))
        self._show_buttons()
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

    @property
    def _shown(self) -> tuple[RunFolder, Sample] | None:
        """The run's folder and the sample; None without one."""
        folder, sample = self._context.session.folder, self._book.at(self._prompt, self._step)
        return (folder, sample) if folder is not None and sample is not None else None

    def _use_step(self) -> None:
        if self._shown is not None:
            self._files.use(self._shown[0], self._step)

    def _toggle_star(self) -> None:
        if self._shown is not None:
            folder = self._shown[0]
            is_starred = self._step not in self._stars
            self._actions.star(folder, self._step, is_starred=is_starred)
            self._stars = starred_steps(folder)
            self._show()

    def _copy(self) -> str:
        if self._shown is not None:
            copy_image(self._context, sample_path(*self._shown))
        return "break"

    def _dragged(self) -> list[Path]:
        return [sample_path(*self._shown)] if self._shown is not None else []

    def _show_folder(self) -> None:
        if self._shown is not None:
            self._context.act.open_path(sample_path(*self._shown).parent)

    def _save_grid(self) -> None:
        if self._shown is not None:
            self._actions.save_grid(self._shown[0], self._book, self._book.prompts)

    def _show_buttons(self) -> None:
        reason = "" if self._step > 0 else "At step 0 nothing is trained yet."
        if self._files.writing:
            reason = f"The file of {self._files.writing} is being written."
        none = "" if self._book.steps else _NONE
        use = self._buttons["use step"]
        use.set_text("Writing…" if self._files.writing else "Use this one")
        star = self._buttons["star step"]
        star.set_text("Remove star" if self._step in self._stars else "Star")
        grid = self._buttons["save grid"]
        grid.set_text("Saving…" if self._actions.is_saving else "Save grid")
        for name, button in self._buttons.items():
            button.enable(none)
            if name == "use step":
                button.enable(none or reason)
        if self._actions.is_saving:
            grid.enable("The grid is being written.")

    def _moved(self, prompt: int, step: int) -> None:
        sample = self._book.nearest(prompt, step)
        if sample is not None:
            self._prompt, self._step = prompt, sample.step
            self._show()

    def _show(self) -> None:
        session = self._context.session
        folder, sample = session.folder, self._book.at(self._prompt, self._step)
        if folder is None or sample is None:
            return
        steps = self._book.steps_of(self._prompt)
        self._is_newest = bool(steps) and self._step == steps[-1]
        self._show_buttons()
        self._lead.say(f"{folder.name}  ·  {extent(self._book)}")
        known = self._settings.get(sample_path(folder, sample)) or ""
        rewards = sample_rewards(session.state.rewards, sample)
        weights = weights_note(folder, sample.step, is_running=session.is_running)
        facts = "\n".join(text for text in (known, rewards, weights) if text)
        self.viewer.show(folder.path, self._book, self._prompt, self._step, facts=facts)
        self._show_gallery(folder)

    def _show_gallery(self, folder: RunFolder) -> None:
        book, stars = self._book, self._stars

        def head(step: int) -> Head:
            role: Role = "accent" if step == self._step else "good" if step in stars else "dim"
            return Head(f"{step:,}*" if step in stars else f"{step:,}", role)

        def cell(row: int, column: int) -> Cell | None:
            sample = book.at(book.prompts[row], book.steps[column])
            return Cell(thumbnail(folder.path, sample)) if sample else None

        rows = []
        for prompt in book.prompts:
            shown = book.nearest(prompt, self._step)
            text = " ".join(shown.prompt.split()) if shown else ""
            rows.append(Head(text or "(no prompt)", "accent" if prompt == self._prompt else "dim"))
        current = (book.prompts.index(self._prompt), book.steps.index(self._step))
        self.gallery.show(rows, [head(step) for step in book.steps], cell, current)

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
