"""Page on which models describe images: a preview, a run over all, what it changes, writing."""

import tkinter as tk
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from tkinter import ttk

from onetrainer.captioning.changes import WRITTEN, propose
from onetrainer.captioning.kinds import EXTRA
from onetrainer.captioning.messages import taken_back_lines, written_lines
from onetrainer.captioning.own_files import own_files
from onetrainer.captioning.results import JobFolder
from onetrainer.captioning.writing import Written, take_back_last, write
from onetrainer.edits.history import EditHistory
from onetrainer.errors import UserError
from onetrainer.messages.formatting import counted
from ui.background.captioning_run import CaptioningRun, enqueue, find_running, start_now
from ui.background.threads import OneAtATime
from ui.context import Context, View
from ui.messages.memory import failure_text
from ui.model.captioning import PREVIEW, Review, review
from ui.pages.captioning.form import CaptioningForm
from ui.pages.captioning.results import ResultList
from ui.widgets.placing import place_two, show
from ui.widgets.scroller import Scroller

_LEAD = "Models describe your images. You see what they found before anything is written."
_POLL_MS = 300
_AFTER_TYPING_MS = 400
_POLLS_PER_REVIEW = 7
_RUNNING = "A model describes these images now."
_WRITING = "Files are being written."
_STARTING = "A model is being started."


class CaptioningPage(View):
    """Fields on the left, results on the right."""

    name = "captioning"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        self._run: CaptioningRun | None = None
        self._review: Review | None = None
        self._is_writing = self._is_starting = False
        self._is_mistake = False  # in a field, which the status says
        self._polls = 0
        self._reviews = OneAtATime(context.widgets.jobs, self._take, self._failed)
        self._timer = ""
        widgets, px = context.widgets, context.widgets.px
        scroller = Scroller(widgets, parent, fills=True)
        self.outer: tk.Widget = scroller.outer
        page = widgets.frame(scroller.inner, ground="window")
        page.grid(sticky="nsew", padx=px(28), pady=px(21))
        head, _, _ = widgets.heading(page, "Captioning", _LEAD)
        head.pack(anchor="w", pady=(0, px(12)))
        box = widgets.frame(page, ground="window")
        box.pack(fill="both", expand=True)
        self._left, form = widgets.card(box)
        self._right, found = widgets.card(box)
        box.bind("<Configure>", self._arrange)
        fields = widgets.frame(form)
        fields.pack(fill="x")
        self._make_buttons(form)
        options = widgets.frame(found)
        options.pack(fill="x", pady=(0, px(12)))
        self._make_results(found)
        self._form = CaptioningForm(context, fields, options, self._changed)

    @property
    def shown(self) -> dict[str, object]:
        """What is listed and said."""
        rows = [(row.name, row.fate, row.text) for row in self._results.rows]
        texts = {
            "unread": self._unread.text,
            "status": self._status.text,
            "summary": self._results.summary.text,
        }
        return {"rows": rows, "running": self._run is not None, **texts}

    @property
    def working(self) -> str:
        """Whether files are being written."""
        return _WRITING if self._is_writing else ""

    def refresh(self) -> None:
        """Read the results again, which may have been written or changed elsewhere."""
        if self._run is None and not self._is_writing:
            self._look()

    def _make_buttons(self, form: ttk.Frame) -> None:
        widgets, px = self._context.widgets, self._context.widgets.px
        line = widgets.frame(form)
        line.pack(fill="x", pady=(px(14), 0))
        self._preview = widgets.button(
            line, "Preview ten", self._press_preview, kind="primary", name="caption preview"
        )
        self._all = widgets.button(line, "Run over all", self._press_all, name="caption all")
        self._all.describe("In the queue, beside runs; also while this window is closed")
        for button in (self._preview, self._all):
            button.widget.pack(side="left", padx=(0, px(8)))
        self._bar = widgets.progress(form)
        self._gap = (px(12), 0)
        self._status = widgets.label(form, "", style="Dim", wrap=340)
        self._status.pack(anchor="w", pady=(px(8), 0))

    def _make_results(self, found: ttk.Frame) -> None:
        widgets, px = self._context.widgets, self._context.widgets.px
        self._results = ResultList(self._context, found)
        line = widgets.frame(found)
        line.pack(side="bottom", fill="x", pady=(px(10), 0))
        self._write = widgets.button(
            line, "Write", self._press_write, kind="primary", name="caption write"
        )
        self._undo = widgets.button(line, "Take back", self._press_undo, name="caption undo")
        self._undo.describe("Gives the files of the last writing what they held before")
        for button in (self._write, self._undo):
            button.widget.pack(side="left", padx=(0, px(8)))
        self._unread = widgets.label(found, "", style="Dim", wrap=440)
        self._results.outer.pack(fill="both", expand=True)

    def _arrange(self, event: "tk.Event[ttk.Frame]") -> None:
        px = self._context.widgets.px
        is_wide = event.width >= px(760)
        place_two(self._left, self._right, is_beside=is_wide, widths=(3, 4), gap=px(14))

    def _changed(self) -> None:
        """Look again, a moment after the last change."""
        if self._timer:
            self.outer.after_cancel(self._timer)
        self._timer = self.outer.after(_AFTER_TYPING_MS, self._look)

    def _look(self) -> None:
        """Show what was found before for the fields as they are."""
        self._timer = ""
        note = self._form.unread_note()
        self._unread.say(note)
        show(self._unread, bool(note), side="bottom", anchor="w", before=self._results.outer)
        try:
            job, writing = JobFolder(self._form.request()), self._form.writing()
        except UserError as error:
            self._reviews.drop()
            self._failed(error)
            return
        self._reviews.ask(partial(review, job, writing))
        if self._run is None and (found := find_running(job)) is not None:
            self._follow(found)

    def _take(self, found: Review) -> None:
        self._show(found)
        if self._is_mistake:
            self._report("", "Dim")

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, UserError):
            raise error
        self._say(error)
        self._is_mistake = True
        self._show(None)

    def _report(self, text: str, style: str) -> None:
        """Say how it stands; the text stays when fields that held a mistake are right again."""
        self._is_mistake = False
        self._status.say(text, style)

    def _show(self, found: Review | None) -> None:
        self._review = found
        self._results.show(found)
        self._enable()

    def _enable(self) -> None:
        found = self._review
        busy = _RUNNING if self._run else _WRITING if self._is_writing else ""
        busy = busy or (_STARTING if self._is_starting else "")
        missing = found.total - len(found.rows) if found else 0
        show(self._bar, self._run is not None, fill="x", pady=self._gap, before=self._status)
        self._preview.set_text("Stop" if self._run else "Preview ten")
        self._preview.enable("" if self._run else busy)
        self._all.set_text(f"Run over {counted(found.total, 'image')}" if found else "Run over all")
        done = "" if missing or not found else "All of them are described; see the right side."
        self._all.enable(busy or done)
        count = sum(found.fates[fate] for fate in WRITTEN) if found else 0
        noun = found.job.request.makes.removesuffix("s") if found else "caption"
        self._write.set_text(f"Write {counted(count, noun)}" if count else "Write")
        self._write.enable(busy or ("" if count else "There is nothing new to write."))
        undone = found.can_take_back if found else 0
        nothing = "" if undone else "Nothing was written here that can be taken back."
        self._undo.enable(busy or nothing)

    def _press_preview(self) -> None:
        """Describe ten images, or stop what is going on."""
        if self._run is not None:
            self._try(self._run.stop)
            return
        self._start(start_now, limit=PREVIEW)

    def _press_all(self) -> None:
        self._start(enqueue)

    def _start(self, begin: Callable[[JobFolder], CaptioningRun], **more: object) -> None:
        try:
            job = JobFolder(self._form.request(**more))
        except UserError as error:
            self._say(error)
            return

        def start() -> CaptioningRun:
            job.listed()  # of an empty folder nothing is started
            return begin(job)

        def failed(error: Exception) -> None:
            self._is_starting = False
            self._enable()
            if not isinstance(error, UserError):
                raise error
            self._say(error)

        self._is_starting = True
        self._enable()
        self._report("Starting …", "Dim")
        self._context.widgets.jobs.run(start, self._follow, failed)

    def _try(self, work: Callable[[], object]) -> None:
        try:
            work()
        except UserError as error:
            self._say(error)

    def _say(self, error: UserError) -> None:
        text = failure_text(error)
        if f"--extra {EXTRA}" in text:
            text += " Then open this window again."
        self._status.say(text, "Danger")

    def _follow(self, run: CaptioningRun) -> None:
        is_followed = self._run is not None
        self._run, self._is_starting = run, False
        self._report("Starting …", "Dim")
        self._enable()
        if not is_followed:
            self.outer.after(_POLL_MS, self._poll)

    def _poll(self) -> None:
        """Show how far the model is, and its results now and then."""
        if self._run is None or not self.outer.winfo_exists():
            return
        standing = self._run.poll()
        self._bar.set(standing.share)
        self._polls += 1
        if standing.has_ended:
            self._run = None
            self._look()
        elif self._polls % _POLLS_PER_REVIEW == 0 and not self._reviews.is_busy:
            self._look()
        if standing.error is not None:
            self._say(standing.error)
        else:
            self._report(standing.text, "Dim")
        self._enable()
        if self._run is not None:
            self.outer.after(_POLL_MS, self._poll)

    def _press_write(self) -> None:
        found = self._review
        if found is None:
            return
        images, history = Path(found.job.request.images), EditHistory()
        about = f"{found.job.request.makes.capitalize()} by {Path(found.job.request.model).name}"
        jobs, total = self._context.widgets.jobs, len(found.rows)

        def report(done: int) -> None:
            jobs.post(partial(self._report, f"{done:,} of {total:,} images …", "Dim"))

        def work() -> Written:
            proposals = propose(found.job, own_files(images), found.writing)
            return write(proposals, images, about, history, progress=report)

        self._in_background(work, lambda done: written_lines(done, found.job.request.makes))

    def _press_undo(self) -> None:
        if self._review is not None:
            images, history = Path(self._review.job.request.images), EditHistory()
            self._in_background(partial(take_back_last, images, history), taken_back_lines)

    def _in_background(
        self, work: Callable[[], Written], lines: Callable[[Written], Iterable[str]]
    ) -> None:
        """Write in a thread, then say what was written."""
        self._is_writing = True
        self._enable()

        def end(text: str, style: str) -> None:
            self._is_writing = False
            self._look()
            self._report(text, style)

        def done(written: Written) -> None:
            style = "Danger" if written.failures or written.conflicts else "Dim"
            end(" ".join(lines(written)), style)

        def failed(error: Exception) -> None:
            if not isinstance(error, UserError):
                end("The writing was broken off.", "Danger")
                raise error
            end(failure_text(error), "Danger")

        self._context.widgets.jobs.run(work, done, failed)
