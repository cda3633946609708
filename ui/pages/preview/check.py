"""Tab that checks the images on request and lists the findings with their files."""

import tkinter as tk
from functools import partial
from typing import TYPE_CHECKING

from onetrainer.errors import Problem, sentence
from ui.background.image_check import FindingGroup, finding_groups, result_text
from ui.context import Context
from ui.messages.line_breaks import shorten, shorten_start
from ui.messages.problems import capitalized, problem_text
from ui.theme.palette import Role
from ui.theme.theme import BOLD
from ui.widgets.grid import Box, Grid
from ui.widgets.placing import show, while_visible
from ui.widgets.tooltip import Tooltip

if TYPE_CHECKING:
    from onetrainer.checks.image_check import CheckResult
    from onetrainer.images.findings import Finding

_INTRO = (
    "Checks every image: whether it is readable, sharp, large enough and unique, and has its "
    "caption and mask. No file is changed."
)
_OF_EARLIER = "This result is out of date: settings have changed."
_CLEAN = "No problems found."
_LEFT = 330
_GAP = 14
_ROW, _KIND_ROW = 96, 30
_THUMB = 80
_MAX_LINES = 2
_TONES: dict[str, Role] = {"error": "danger", "warning": "warning"}
# Kinds of findings whose file is often no readable image.
_NO_IMAGE = (
    *("orphan", "unreadable", "unused-image", "no-image", "repeats", "mask-unused"),
    *("caption-encoding", "caption-guess", "caption-same"),
)
_NONE = "Select a finding first."


class CheckTab:
    """Button, kinds of findings and list of findings."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        self.check = context.check
        self._shown: CheckResult | None = None
        self._groups: list[FindingGroup] = []
        self._group = 0
        self._findings: list[Finding] = []
        self.outer: tk.Widget = widgets.frame(parent, ground="window")
        self.check.listen(while_visible(self.outer, self.refresh))
        self._make_head()
        self._body = widgets.frame(self.outer, ground="window")
        self._body.grid_columnconfigure(0, minsize=widgets.px(_LEFT))
        self._body.grid_columnconfigure(1, weight=1)
        self._body.grid_rowconfigure(0, weight=1)
        self._group_list = self._make_group_list()
        self._list = self._make_list()

    def refresh(self) -> None:
        """Show the current state."""
        check = self.check
        if check.is_working and not check.is_requested:
            check.stop()  # the result would be out of date
        blocked_reason = check.blocked_reason()
        self._button.enable("" if check.is_working else blocked_reason)
        start_text = "Check now" if check.answer is None else "Check again"
        self._button.set_text("Stop" if check.is_working else start_text)
        self._button.set_kind("plain" if check.is_working or check.answer else "primary")
        self._show_message()
        self._bar.set(check.done / check.total if check.total else 0)
        show(self._bar, check.is_working, fill="x", pady=(self._context.widgets.px(10), 0))
        if check.answer is None or check.failed is not None:
            self._shown = None
            self._body.pack_forget()
        elif check.answer is not self._shown:
            self._show(check.answer)

    def _show_message(self) -> None:
        check = self.check
        text, style = _INTRO, "Dim"
        if check.is_working:
            text = f"{check.done:,} of {check.total:,} checked" if check.total else "Reading …"
            text = f"{text} …" if check.total else text
        elif check.failed is not None:
            error = check.failed
            problem = Problem("data.folder", error.what, error.expected, error.remedy)
            text, style = problem_text(problem), "Danger"
        elif check.answer is not None and check.is_outdated:
            text, style = f"{result_text(check.answer)} {_OF_EARLIER}", "Warning"
        elif check.answer is not None:
            text, style = result_text(check.answer), ""
        self._message.say(text, style)

    def _clicked(self) -> None:
        if self.check.is_working:
            self.check.stop()
        else:
            self._context.act.commit()
            self.check.start()
        self.refresh()

    def _make_head(self) -> None:
        widgets = self._context.widgets
        outer, inner = widgets.card(self.outer)
        outer.pack(fill="x", pady=(0, widgets.px(_GAP)))
        line = widgets.frame(inner)
        line.pack(fill="x")
        self._button = widgets.button(
            line, "Check now", self._clicked, name="check images", kind="primary"
        )
        self._button.widget.pack(side="left", padx=(0, widgets.px(16)), anchor="n")
        self._message = widgets.label(line, _INTRO, style="Dim", wrap=640)
        self._message.pack(side="left", fill="x", expand=True)
        widgets.name(self._message, "check message")
        self._bar = widgets.progress(inner)
        line.bind("<Configure>", lambda event: self._wrap(event.width))
        # Its label changes, and with it its width.
        self._button.widget.bind("<Configure>", lambda _: self._wrap(line.winfo_width()), add="+")

    def _wrap(self, width: int) -> None:
        room = width - self._button.widget.winfo_reqwidth() - self._context.widgets.px(24)
        self._message.configure(wraplength=max(160, room))

    def _make_group_list(self) -> Grid:
        widgets = self._context.widgets
        outer, inner = widgets.card(self._body)
        outer.grid(row=0, column=0, sticky="nsew", padx=(0, widgets.px(_GAP)))
        cells = Grid(
            widgets,
            inner,
            self._paint_group,
            self._choose_group,
            name="finding groups",
            height=_KIND_ROW,
        )
        cells.outer.pack(fill="both", expand=True)
        return cells

    def _make_list(self) -> Grid:
        widgets = self._context.widgets
        outer, inner = widgets.card(self._body)
        outer.grid(row=0, column=1, sticky="nsew")
        line = widgets.frame(inner)
        line.pack(fill="x", pady=(0, widgets.px(8)))
        self._title = widgets.label(line, style="Heading")
        self._title.pack(side="left")
        # Created in reading order, which is the Tab order, but packed from the right.
        self._open = widgets.button(line, "Open image", self._open_file, name="open finding")
        self._folder = widgets.button(
            line, "Open folder", self._open_folder, name="open finding folder"
        )
        self._folder.widget.pack(side="right", padx=(widgets.px(8), 0))
        self._open.widget.pack(side="right")
        cells = Grid(
            widgets,
            inner,
            self._paint,
            lambda _: self._enable(),
            name="findings",
            height=_ROW,
            opened=lambda _: self._open_folder(),
        )
        cells.outer.pack(fill="both", expand=True)
        Tooltip(cells.canvas, widgets.theme, self._path_below_pointer)
        return cells

    def _path_below_pointer(self) -> str:
        """Return the full path of the file below the pointer, for its tooltip."""
        index = self._list.below_pointer
        return str(self._findings[index].path) if 0 <= index < len(self._findings) else ""

    def _show(self, checked: "CheckResult") -> None:
        before = self._groups[self._group].key if self._groups else ""
        self._shown = checked
        self._groups = finding_groups(checked.findings)
        keys = [group.key for group in self._groups]
        self._group = keys.index(before) if before in keys else 0
        self._body.pack(fill="both", expand=True)
        self._group_list.show(len(self._groups), self._group)
        self._choose_group(self._group)

    def _choose_group(self, index: int) -> None:
        self._group = index
        group = self._groups[index]
        every = self._shown.findings if self._shown else []
        self._findings = [each for each in every if group.key in ("", each.kind)]
        self._title.say(group.title if self._findings else _CLEAN)
        self._list.drawing.forget()
        self._list.show(len(self._findings), 0 if self._findings else -1)
        self._list.to_top()
        self._enable()

    @property
    def _chosen(self) -> "Finding | None":
        index = self._list.current
        return self._findings[index] if 0 <= index < len(self._findings) else None

    def _enable(self) -> None:
        for button in (self._open, self._folder):
            button.enable("" if self._chosen is not None else _NONE)

    def _open_file(self) -> None:
        if self._chosen is not None:
            self._context.act.open_path(self._chosen.path)

    def _open_folder(self) -> None:
        if self._chosen is not None:
            path = self._chosen.path
            self._context.act.open_path(path if path.is_dir() else path.parent)

    def _paint_group(self, index: int, box: Box, is_current: bool) -> None:
        group, drawing, px = self._groups[index], self._group_list.drawing, self._context.widgets.px
        middle, figure = box.top + box.height // 2, f"{group.count:,}"
        room = box.width - px(30) - self._context.widgets.theme.measure(figure)
        drawing.text(box.left + px(8), middle, group.title, anchor="w", room=room)
        tone = _TONES.get(group.severity, "dim")
        drawing.text(box.right - px(8), middle, figure, tone, anchor="e")

    def _paint(self, index: int, box: Box, is_current: bool) -> None:
        """Draw a finding: thumbnail, the image it is compared with, file name, problem, remedy."""
        # Imported late to keep the start of the window fast.
        from onetrainer.images.findings import HEADLINES

        finding, widgets, drawing = self._findings[index], self._context.widgets, self._list.drawing
        px, measure, canvas = widgets.px, widgets.theme.measure, self._list.canvas
        left, side = box.left + px(8), px(_THUMB)
        for path in (finding.path, finding.other):
            if path is not None:
                image = self._context.images.get(path, side, side, self._list.draw_soon)
                x, y = left + side // 2, box.top + px(8) + side // 2
                is_drawn = drawing.image((path, side), image, x, y, side)
                if not is_drawn and finding.kind in _NO_IMAGE:
                    suffix = path.suffix or ("folder" if path.is_dir() else "file")
                    drawing.text(x, y, suffix, "dim", anchor="center")
                left += px(_THUMB + 6)
        left += px(8)
        right, y, headline = box.right - px(10), box.top + px(9), HEADLINES[finding.kind]
        drawing.text(right, y, headline, _TONES.get(finding.severity, "dim"), anchor="ne")
        short_path = f"{finding.path.parent.name}/{finding.path.name}"
        room = right - left - measure(headline) - px(12)
        name = shorten_start(short_path, room, partial(measure, font=BOLD))
        drawing.text(left, y, name, font=BOLD)
        y += px(20)
        remedy = problem_text(Problem("data.folder", finding.remedy))
        lines: tuple[tuple[str, Role], ...] = (
            (capitalized(sentence(finding.what)), "text"),
            (remedy, "dim"),
        )
        for text, role in lines:
            shown = shorten(text, round((right - left) * _MAX_LINES * 0.94), measure)
            item = drawing.text(left, y, shown, role)
            canvas.itemconfigure(item, width=right - left)
            y = canvas.bbox(item)[3] + px(2)
