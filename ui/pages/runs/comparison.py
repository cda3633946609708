"""Several runs next to each other: their settings, curves, and samples of the same prompts."""

import tkinter as tk
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from tkinter import ttk

from onetrainer.errors import UserError
from onetrainer.files.inside import require_own_files
from onetrainer.json_file import Document
from onetrainer.presets.presets import load_document
from onetrainer.run.event_log import read_all
from onetrainer.run.events import Sample
from onetrainer.run.run_folder import RunFolder
from ui.actions.figure_files import FigureFiles
from ui.charts.figure_panels import role_of
from ui.charts.figure_view import FigureView
from ui.context import Context
from ui.messages.line_breaks import shorten
from ui.messages.run_rows import RunRow, setting_table
from ui.progress.run_state import RunState
from ui.theme.theme import SMALL
from ui.widgets.button import Button
from ui.widgets.fitted_texts import fit_texts
from ui.widgets.image_table import Cell, Head, ImageTable, TableLook
from ui.widgets.placing import show
from ui.widgets.tooltip import Tooltip

_LOOK = TableLook("compared samples", 220, 10, 20, takes_keys=True)
_NEWEST = "Newest"
_TABS = ("settings", "curves", "samples")
_PAGE = "page "

Prompt = tuple[str, int]
"""A prompt, and which of those with the same text."""


@dataclass(frozen=True)
class ComparedRun:
    """A run as it is compared. problem: Why its settings cannot be read; "" if they can."""

    row: RunRow
    state: RunState
    settings: Document
    problem: str = ""


def read_compared(rows: Sequence[RunRow]) -> list[ComparedRun]:
    """Read all that runs have reported, and their settings."""
    found = []
    for row in rows:
        state, settings, problem = RunState(), {}, ""
        try:
            require_own_files(row.path)
            for event in read_all(row.path / "events.jsonl"):
                state.apply(event)
            settings = load_document(row.path / "config.json")
        except UserError as error:
            problem = str(error)
        found.append(ComparedRun(row, state, settings, problem))
    return found


def samples_by_prompt(samples: Sequence[Sample], step: int | None) -> dict[Prompt, Sample]:
    """Return the samples of a step by their prompts; the newest of each for None."""
    found: dict[Prompt, Sample] = {}
    by_index = {s.prompt_index: s.prompt for s in samples}
    seen: Counter[str] = Counter()
    keys: dict[int, Prompt] = {}
    for index, prompt in sorted(by_index.items()):
        keys[index] = prompt, seen[prompt]
        seen[prompt] += 1
    for sample in samples:
        if step is None or sample.step == step:
            found[keys[sample.prompt_index]] = sample
    return dict(sorted(found.items(), key=lambda item: item[1].prompt_index))


class Comparison:
    """The view of several runs; place `outer`. back: Called to leave it."""

    def __init__(self, context: Context, parent: tk.Misc, back: Callable[[], None]) -> None:
        self._context = context
        widgets, px = context.widgets, context.widgets.px
        self._runs: list[ComparedRun] = []
        self._cells: list[list[Cell | None]] = []
        self.outer, inner = widgets.card(parent)
        line = widgets.frame(inner)
        line.pack(fill="x", pady=(0, px(10)))
        leave = widgets.button(line, "Back to the list", back, name="leave comparison")
        leave.widget.pack(side="left", padx=(0, px(16)))
        self._buttons: dict[str, Button] = {}
        for name in _TABS:
            button = widgets.button(
                line, name.capitalize(), partial(self.show_tab, name), name=f"compare {name}"
            )
            button.widget.pack(side="left", padx=(0, px(6)))
            self._buttons[name] = button
        self._step = tk.StringVar(self.outer, _NEWEST)
        self._steps = ttk.Combobox(line, textvariable=self._step, state="readonly", width=12)
        self._steps.configure(font="OneTrainerBody")
        self._steps.bind("<<ComboboxSelected>>", lambda _: self._show_samples())
        widgets.name(self._steps, "compared step")
        self._note = widgets.label(inner, style="Dim", wrap=700)
        body = widgets.frame(inner)
        body.pack(fill="both", expand=True)
        self._settings = widgets.frame(body)
        self._tree = ttk.Treeview(self._settings, show="headings", selectmode="browse")
        widgets.scrollbar_of(self._settings, self._tree).pack(side="right", fill="y")
        self._tree.pack(side="left", fill="both", expand=True)
        self._tree.bind("<<ThemeChanged>>", lambda _: self._paint())
        widgets.scroll_by_wheel(self._tree)
        widgets.name(self._tree, "compared settings")
        # Of each row by column, also what there is no room for.
        self._texts: dict[str, dict[str, str]] = {}
        for event in ("<Configure>", "<ButtonRelease-1>"):  # the latter ends dragging a column
            self._tree.bind(event, lambda _: self._tree.after_idle(self._fit_texts), add="+")
        Tooltip(self._tree, widgets.theme, self._text_below_pointer)
        self._files = FigureFiles(context)
        curves = FigureView(
            widgets,
            body,
            name="comparison",
            save_picture=self._save_picture,
            save_table=self._save_table,
        )
        self.curves = curves.charts
        self._samples = ImageTable(widgets, body, context.images, self._open_sample, _LOOK)
        self._tabs: dict[str, tk.Widget] = {
            "settings": self._settings,
            "curves": curves.outer,
            "samples": self._samples.outer,
        }
        self._keyboards: dict[str, tk.Misc] = {
            "settings": self._tree,
            "curves": self.curves.canvas,
            "samples": self._samples.canvas,
        }
        self.shown = ""
        self.show_tab("settings")

    def show(self, runs: list[ComparedRun]) -> None:
        """Compare runs."""
        self._runs = runs
        self.curves.set_look(span=None, only="")
        self.curves.show([(run.row.record.name, run.state) for run in runs])
        steps = sorted({s.step for run in runs for s in run.state.samples}, reverse=True)
        self._steps.configure(values=[_NEWEST, *(f"Step {step:,}" for step in steps)])
        self._step.set(_NEWEST)
        self._show_settings()
        self._show_samples()
        self.show_tab(self.shown)

    def show_tab(self, name: str) -> None:
        """Show the settings, the curves or the samples."""
        self.shown = name
        for other, button in self._buttons.items():
            button.set_kind("plain" if other == name else "quiet")
            show(self._tabs[other], other == name, fill="both", expand=True)
        show(self._steps, name == "samples", side="right")
        self._note_what_is_missing()
        if self.outer.winfo_manager():  # only then it is on the screen
            self.take_focus()

    def take_focus(self) -> None:
        """Give the keyboard to what is shown."""
        self._keyboards[self.shown].focus_set()

    def _save_picture(self) -> None:
        self._files.save_picture(self._folders[0], self.curves.data, self.curves.look)

    def _save_table(self) -> None:
        self._files.save_table(self._folders)

    @property
    def _folders(self) -> list[RunFolder]:
        return [RunFolder(run.row.path) for run in self._runs]

    @property
    def setting_rows(self) -> list[list[str]]:
        """The table of settings, a list of texts for each row, as the columns show them."""
        return [
            [str(v) for v in self._tree.item(key, "values")] for key in self._tree.get_children()
        ]

    def _fit_texts(self) -> None:
        if self._tree.winfo_exists():  # by now the window may have been built anew
            fit_texts(self._tree, self._context.widgets.theme, self._texts)

    def _text_below_pointer(self) -> str:
        """Return the whole of a text that is shortened below the pointer, for its tooltip."""
        tree = self._tree
        x, y = (
            tree.winfo_pointerx() - tree.winfo_rootx(),
            tree.winfo_pointery() - tree.winfo_rooty(),
        )
        texts = list(self._texts.get(key := tree.identify_row(y), {}).items())
        place = int(tree.identify_column(x)[1:] or 0) - 1
        if not 0 <= place < len(texts):
            return ""
        name, whole = texts[place]
        return "" if str(tree.set(key, name)) == whole else whole.strip()

    def _note_what_is_missing(self) -> None:
        text = ""
        if self.shown == "settings":
            text = " ".join(run.problem for run in self._runs if run.problem)
            text = text or ("" if self._tree.get_children() else "No setting differs.")
        elif self.shown == "samples" and not self._cells:
            text = "None of these runs has samples."
        self._note.say(text)
        show(self._note, bool(text), anchor="w", before=self._tabs[self.shown].master)

    def _show_settings(self) -> None:
        tree, px = self._tree, self._context.widgets.px
        names = ["label", *(f"run {number}" for number in range(len(self._runs)))]
        tree.configure(columns=names)
        tree.heading("label", text="Setting", anchor="w")
        tree.column("label", width=px(190), anchor="w")
        for column, run in zip(names[1:], self._runs, strict=True):
            tree.heading(column, text=run.row.record.name, anchor="w")
            tree.column(column, width=px(150), minwidth=px(90), anchor="w")
        tree.delete(*tree.get_children())
        readable = [run.settings for run in self._runs if not run.problem]
        rows = setting_table(readable) if len(readable) == len(self._runs) > 1 else []
        self._texts = {}
        for page, inner in groupby(rows, key=lambda row: row[0]):
            tree.insert("", "end", values=(page,), tags=(_PAGE,))
            for _, label, values in inner:
                texts = [f"   {label}", *values]
                key = tree.insert("", "end", values=texts)
                self._texts[key] = dict(zip(names, texts, strict=True))
        tree.after_idle(self._fit_texts)
        self._paint()

    def _paint(self) -> None:
        color = self._context.widgets.theme.palette["dim"]
        self._tree.tag_configure(_PAGE, font="OneTrainerSmall", foreground=color)

    def _show_samples(self) -> None:
        text = self._step.get()
        step = None if text == _NEWEST else int(text.split()[1].replace(",", ""))
        found = [samples_by_prompt(run.state.samples, step) for run in self._runs]
        prompts = list(dict.fromkeys(prompt for samples in found for prompt in samples))
        self._cells = [
            [
                _cell(run, samples[prompt]) if prompt in samples else None
                for run, samples in zip(self._runs, found, strict=True)
            ]
            for prompt in prompts
        ]
        measure, room = self._context.widgets.theme.measure, self._context.widgets.px(_LOOK.side)
        heads = [
            Head(shorten(run.row.record.name, room, lambda part: measure(part, SMALL)), role_of(at))
            for at, run in enumerate(self._runs)
        ]
        rows = [Head(" ".join(text.split()) or "(no prompt)") for text, _ in prompts]
        cells = self._cells
        self._samples.show(
            rows, heads if rows else [], lambda row, column: cells[row][column], (0, 0), lines=1
        )
        self._note_what_is_missing()

    def _open_sample(self, row: int, column: int) -> None:
        cell = self._cells[row][column]
        if cell is not None:
            self._context.act.open_path(cell.path)


def _cell(run: ComparedRun, sample: Sample) -> Cell:
    return Cell(run.row.path / sample.path, ((f"step {sample.step:,}", f"seed {sample.seed}"),))
