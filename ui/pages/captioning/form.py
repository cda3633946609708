"""Fields of the page of captioning: the kind of model, the model, and what is made of results."""

import tkinter as tk
from collections.abc import Callable, Sequence
from functools import partial
from tkinter import ttk

from onetrainer.captioning.kinds import KINDS, Kind
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.jobs.caption_request import CaptionRequest, CaptionWriting, MaskWriting
from ui.context import Context, PathKind
from ui.forms.request_form import RequestForm
from ui.model.captioning import (
    mask_folder_of,
    model_note,
    request_fields,
    request_of,
    trained_as,
    unread_note,
    writing_fields,
    writing_section,
)
from ui.model.labeled_request import labeled_request
from ui.widgets.button import Button
from ui.widgets.changes import on_change
from ui.widgets.placing import give_focus, show, wrap_within
from ui.widgets.widgets import Label

_NOTE_AFTER_MS = 250
_FEW = 2


class CaptioningForm:
    """The fields of each kind of model; what a person typed for one kind stays for it.

    Args:
        parent: Of what a model is asked.
        below: Of what is made of its answers.
        changed: Called after each change.
    """

    def __init__(
        self, context: Context, parent: ttk.Frame, below: ttk.Frame, changed: Callable[[], None]
    ) -> None:
        self._context, self._parent, self._changed = context, parent, changed
        self._below = below
        kept = context.widgets.kept
        self.kind: Kind = kept.value("caption kind", "tagger")
        self._models = {
            kind: kept.variable(
                parent, f"caption model {kind}", "" if kind == "background" else spec.example
            )
            for kind, spec in KINDS.items()
        }
        self._prompts: dict[Kind, tk.Text] = {}
        self._requests: dict[Kind, RequestForm] = {}
        self._writings: dict[Kind, RequestForm] = {}
        self._boxes: dict[Kind, tuple[ttk.Frame, ttk.Frame]] = {}
        self._notes: dict[Kind, Label] = {}
        self._timer = ""
        widgets, px = context.widgets, context.widgets.px
        self._kinds = dict[Kind, Button]()
        for makes, title in (("captions", "Captions"), ("masks", "Masks")):
            self._make_kinds(parent, title, [k for k, s in KINDS.items() if s.makes == makes])
        self._text = widgets.label(parent, "", style="SmallDim")
        self._text.pack(anchor="w", pady=(px(2), px(10)))
        folder = str(context.draft.value("data.folder") or "")
        self._images = kept.variable(parent, "caption images", folder)
        line = self._path(parent, "Images", self._images, "folder", "caption images")
        is_recursive = bool(context.draft.value("data.include_subfolders"))
        self._subfolders = widgets.kept_switch(
            line,
            "caption subfolders",
            self._changed,
            text="Include subfolders",
            start=is_recursive,
        )
        self._subfolders.widget.pack(side="right")
        widgets.name(self._subfolders.widget, "caption subfolders")
        self._place = widgets.frame(parent)
        self._place.pack(fill="x", pady=(px(10), 0))
        wrap_within(parent, self._text)
        self._choose(self.kind)

    def request(self, **more: object) -> CaptionRequest:
        """Return what is to be done. Raises UserError that names a field."""
        prompt = self._prompts.get(self.kind)
        values = {
            **self._requests[self.kind].values(),
            "images": self._images.get().strip(),
            "model": self._models[self.kind].get().strip(),
            "subfolders": self._subfolders.is_on,
            "prompt": prompt.get("1.0", "end").strip() if prompt else "",
        }
        return request_of(self.kind, values | more)

    def writing(self) -> CaptionWriting | MaskWriting:
        """Return what is made of the results. Raises UserError that names a field."""
        values = dict(self._writings[self.kind].values())
        section = writing_section(self.kind)
        if section is MaskWriting:
            values["mask_folder"] = mask_folder_of(self._concept())
        return labeled_request(section, values)

    def unread_note(self) -> str:
        """Return why training would not read what is written; "" if it would."""
        return unread_note(self._concept(), self.kind)

    def _concept(self) -> ConceptSettings | None:
        data = self._context.draft.section_alone("data")
        return trained_as(data, self._images.get().strip())

    def _make_kinds(self, parent: ttk.Frame, title: str, kinds: Sequence[Kind]) -> None:
        """Create a button for each kind of model, two in a row."""
        widgets, px = self._context.widgets, self._context.widgets.px
        widgets.label(parent, title).pack(anchor="w")
        grid = widgets.frame(parent)
        grid.pack(fill="x", pady=(px(4), px(8)))
        for index, kind in enumerate(kinds):
            row, column = divmod(index, 2)
            button = widgets.button(
                grid, KINDS[kind].title, partial(self._choose, kind), name=f"caption kind {kind}"
            )
            button.widget.grid(row=row, column=column, sticky="ew", padx=(0, px(8)), pady=px(2))
            grid.grid_columnconfigure(column, weight=1, uniform="kinds")
            self._kinds[kind] = button

    def _choose(self, kind: Kind) -> None:
        self.kind = kind
        self._context.widgets.kept.keep("caption kind", kind)
        for each, button in self._kinds.items():
            button.set_kind("primary" if each == kind else "plain")
        if self.kind not in self._boxes:
            self._make(self.kind)
        for each, boxes in self._boxes.items():
            for box in boxes:
                show(box, each == kind, fill="x")
        self._text.say(KINDS[self.kind].text)
        self._show_note()
        self._changed()

    def _make(self, kind: Kind) -> None:
        widgets, px, spec = self._context.widgets, self._context.widgets.px, KINDS[kind]
        box, below = widgets.frame(self._place), widgets.frame(self._below)
        self._boxes[kind] = box, below
        place: PathKind = "file" if kind == "background" else "model"
        self._path(box, "Model", self._models[kind], place, f"caption model {kind}")
        note = widgets.label(box, "", style="SmallDim")
        note.pack(anchor="w", pady=(px(4), px(8)))
        wrap_within(box, note)
        on_change(self._models[kind], box, self._typed_model)
        self._notes[kind] = note
        if spec.takes_prompt:
            widgets.label(box, spec.takes_prompt).pack(anchor="w", pady=(0, px(4)))
            prompt = widgets.text_box(box, width=30, height=3 if kind == "chat" else 1)
            widgets.kept.text(prompt, f"caption prompt {kind}", spec.prompt)
            prompt.pack(fill="x", pady=(0, px(8)))
            prompt.bind("<Tab>", lambda _: give_focus(prompt.tk_focusNext()))
            prompt.bind("<FocusOut>", lambda _: self._changed())
            widgets.name(prompt, f"caption prompt {kind}")
            self._prompts[kind] = prompt
        grid = widgets.frame(box)
        grid.pack(fill="x")
        make = partial(RequestForm, self._context, name=f"caption {kind}", changed=self._changed)
        self._requests[kind] = make(grid, CaptionRequest, fields=request_fields(kind), columns=2)
        wanted = writing_fields(kind)
        columns = 1 if len(wanted) <= _FEW else 2  # a text has the width of the card then
        self._writings[kind] = make(below, writing_section(kind), fields=wanted, columns=columns)

    def _path(
        self, box: ttk.Frame, label: str, value: tk.StringVar, kind: PathKind, name: str
    ) -> ttk.Frame:
        """Create the field of a path; return the line of its label."""
        widgets, px = self._context.widgets, self._context.widgets.px
        head = widgets.frame(box)
        head.pack(fill="x", pady=(0, px(4)))
        widgets.label(head, label).pack(side="left")
        line = widgets.frame(box)
        line.pack(fill="x")
        choose = widgets.button(
            line, "Choose…", partial(self._choose_path, value, kind), name=f"{name} …"
        )
        choose.widget.pack(side="right", padx=(px(8), 0))
        entry = ttk.Entry(line, textvariable=value, font="OneTrainerBody", width=10)
        entry.pack(side="left", fill="x", expand=True)
        for sequence in ("<Return>", "<FocusOut>"):
            entry.bind(sequence, lambda _: self._changed())
        widgets.name(entry, name)
        return head

    def _choose_path(self, value: tk.StringVar, kind: PathKind) -> None:
        path = self._context.act.choose_path(kind, value.get())
        if path:
            value.set(path)
            self._changed()

    def _typed_model(self) -> None:
        """Say where the model is and look for what it found, a moment after the last key."""
        self._changed()
        if self._timer:
            self._parent.after_cancel(self._timer)
        self._timer = self._parent.after(_NOTE_AFTER_MS, self._show_note)

    def _show_note(self) -> None:
        """Say where the model is; asking the Hub's library takes its import at first."""
        self._timer = ""
        kind, model = self.kind, self._models[self.kind].get().strip()

        def say(text: str) -> None:
            if model == self._models[kind].get().strip():
                self._notes[kind].say(text)

        self._context.widgets.jobs.run(partial(model_note, kind, model), say)
