"""Page of tools around model files: merge, resize, extract and convert."""

import tkinter as tk
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tkinter import ttk

from onetrainer.config.base.section import Section
from onetrainer.errors import UserError
from onetrainer.jobs.convert_request import ConvertRequest, examine, source_run
from onetrainer.jobs.job import Job, JobName
from onetrainer.jobs.lora_requests import (
    SIDES,
    ExtractRequest,
    MergeRequest,
    ResizeRequest,
    examine_extract,
    examine_merge,
    merge_of_resize,
)
from onetrainer.run.events import Event, Failed, Finished, Phase, Sample, Stopped, Warned
from ui.context import Context, View
from ui.forms.request_form import RequestForm
from ui.messages.memory import failure_text
from ui.model.labeled_request import in_words_of_the_window, labeled_request
from ui.model.trial import TrialLora
from ui.pages.tools.pictures import Pictures
from ui.progress.run_state import phase_text
from ui.widgets.placing import show
from ui.widgets.scroller import Scroller
from ui.widgets.widgets import CARD_PAD

_LEAD = "No source is ever changed, and no existing file is replaced unless you say so."
_WIDTH, _MARGIN = 760, 28


@dataclass(frozen=True)
class _Tool:
    """A tool: what it is called and does, and the job that its request becomes.

    job: Checks the request by the headers of its files, and returns the job's name and request.
    ending: What the name of its result ends with, where none is given.
    """

    title: str
    text: str
    request: type[Section]
    job: Callable[[Section], tuple[JobName, Section]]
    ending: str


def _merge_job(request: Section) -> tuple[JobName, Section]:
    merging = merge_of_resize(request) if isinstance(request, ResizeRequest) else request
    assert isinstance(merging, MergeRequest)
    examine_merge(merging)
    return "merge", merging


def _extract_job(request: Section) -> tuple[JobName, Section]:
    assert isinstance(request, ExtractRequest)
    examine_extract(request)
    return "extract", request


def _convert_job(request: Section) -> tuple[JobName, Section]:
    assert isinstance(request, ConvertRequest)
    if source_run(request) is None:
        examine(request)
    return "convert", request


_TOOLS = (
    _Tool(
        "Merge", "LoRAs into one LoRA, or into a base model.", MergeRequest, _merge_job, "merged"
    ),
    _Tool("Resize", "Another rank for a LoRA.", ResizeRequest, _merge_job, "resized"),
    _Tool(
        "Extract",
        "The difference of two models as a LoRA.",
        ExtractRequest,
        _extract_job,
        "extracted",
    ),
    _Tool(
        "Convert",
        "A model, LoRA, embedding or a run's checkpoint in another format.",
        ConvertRequest,
        _convert_job,
        "converted",
    ),
)


@dataclass
class _Running:
    """A job with what it has reported. is_sampling: Whether its file is written by now."""

    tool: _Tool
    job: Job
    lines: list[str] = field(default_factory=list)
    images: list[Path] = field(default_factory=list)
    is_sampling: bool = False


class ToolsPage(View):
    """One tool at a time: its fields, and what it reports."""

    name = "tools"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        self._running: _Running | None = None
        widgets, px = context.widgets, context.widgets.px
        # By each tool: what it said, with its style, and images to compare.
        self._said = widgets.kept.once("tool reports", dict[str, tuple[str, str]])
        self._made = widgets.kept.once("tool images", dict[str, list[Path]])
        title = widgets.kept.value("tool", _TOOLS[0].title)
        self._tool = next(tool for tool in _TOOLS if tool.title == title)
        scroller = Scroller(widgets, parent)
        scroller.follow_keyboard()
        self.outer: tk.Widget = scroller.outer
        page = widgets.frame(scroller.inner, ground="window")
        page.grid(sticky="nw", padx=px(_MARGIN), pady=px(21))
        scroller.canvas.bind("<Configure>", self._fit, add="+")
        head, _, _ = widgets.heading(page, "Model tools", _LEAD)
        head.pack(anchor="w", pady=(0, px(12)))
        line = widgets.frame(page, ground="window")
        line.pack(anchor="w", pady=(0, px(12)))
        self._choices = {
            tool.title: widgets.button(
                line, tool.title, partial(self._choose, tool), ground="window",
                name=f"tool {tool.title}",
            )
            for tool in _TOOLS
        }  # fmt: skip
        for button in self._choices.values():
            button.widget.pack(side="left", padx=(0, px(8)))
        outer, self._card = widgets.card(page)
        outer.pack(anchor="w")
        self._spacer = widgets.frame(self._card)
        self._spacer.configure(width=px(_WIDTH), height=1)
        self._spacer.pack()
        self._text = widgets.label(self._card, "", style="Dim")
        self._text.pack(anchor="w", pady=(0, px(10)))
        self._forms: dict[str, tuple[ttk.Frame, RequestForm]] = {}
        self._foot = widgets.frame(self._card)
        self._foot.pack(side="bottom", fill="x", pady=(px(14), 0))
        self._button = widgets.button(
            self._foot, "Merge", self._press, kind="primary", name="run tool", width=110
        )
        self._button.widget.pack(anchor="w")
        self.report = widgets.label(self._foot, "", style="Dim")
        self.report.pack(anchor="w", pady=(px(10), 0))
        self._pictures = Pictures(context, self._foot)
        self._choose(self._tool)

    @property
    def working(self) -> str:
        """Which tool is at work."""
        return "" if self._running is None else f"“{self._running.tool.title}” is at work."

    def _fit(self, event: "tk.Event[tk.Misc]") -> None:
        """Make the card as wide as a large window needs it, or as a small one has room for."""
        px = self._context.widgets.px
        width = min(px(_WIDTH), event.width - px(2 * (_MARGIN + CARD_PAD)))
        self._spacer.configure(width=width)
        self.report.configure(wraplength=width)
        self._pictures.hint.configure(wraplength=width)

    def _choose(self, tool: _Tool) -> None:
        self._tool = tool
        self._context.widgets.kept.keep("tool", tool.title)
        if tool.title not in self._forms:
            box = self._context.widgets.frame(self._card)
            self._forms[tool.title] = (
                box,
                RequestForm(
                    self._context,
                    box,
                    tool.request,
                    name="tool",
                    has_help=True,
                    changed=partial(self._propose, tool),
                ),
            )
        for title, (box, _) in self._forms.items():
            show(box, title == tool.title, fill="x")
        for title, button in self._choices.items():
            button.set_kind("primary" if title == tool.title else "plain")
        self._text.say(tool.text, "Dim")
        self._show_said()

    def _show_said(self) -> None:
        """Show what the chosen tool has reported last, and what the button does."""
        self.report.say(*self._said.get(self._tool.title, ("", "Dim")))
        images = self._made.get(self._tool.title, [])
        if len(images) == len(SIDES):
            self._pictures.show(images)
        show(self._pictures.outer, len(images) == len(SIDES), fill="x")
        text = self._tool.title
        if self._running is not None:
            tool = self._running.tool
            text = "Stop" if tool == self._tool else f"Stop {tool.title}"
        self._button.set_text(text)

    def _propose(self, tool: _Tool) -> None:
        """Name the result after the first source, beside it."""
        if tool.title not in self._forms:
            return  # while it is made
        form = self._forms[tool.title][1]
        values = form.values()
        loras = values.get("loras", ())
        assert isinstance(loras, list | tuple)
        named = (values.get("tuned"), values.get("source"), *(lora.path for lora in loras))
        source = next((Path(str(each)) for each in named if each), None)
        if source is not None and source.is_file():
            form.propose(source.with_name(f"{source.stem}-{tool.ending}.safetensors"))

    def _say(self, tool: _Tool, text: str, style: str = "Dim") -> None:
        self._said[tool.title] = (text, style)
        self._show_said()

    def _press(self) -> None:
        """Run the tool, or stop it."""
        if self._running is not None:
            self._running.job.stop()
            return
        try:
            name, request = self._tool.job(self._request())
            if self._may(request):
                self._start(name, request)
        except UserError as error:
            self._fail(self._tool, error)

    def _may(self, request: Section) -> bool:
        """Ask for what writing the file of a run, which may come from anybody, downloads."""
        from ui.dialogs.trust_dialog import confirm_base_model

        if not isinstance(request, ConvertRequest) or (run := source_run(request)) is None:
            return True
        return confirm_base_model(self._context, run, request.step)

    def _request(self) -> Section:
        values = dict(self._forms[self._tool.title][1].values())
        loras = values.pop("loras", ())
        assert isinstance(loras, list | tuple)
        if loras:
            values["loras"] = [_lora(lora) for lora in loras]
        return labeled_request(self._tool.request, values)

    def _start(self, name: JobName, request: Section) -> None:
        jobs = self._context.widgets.jobs
        self._running = running = _Running(self._tool, Job(name, request))
        jobs.on_close.append(running.job.stop)
        self._made[running.tool.title] = running.images
        self._say(running.tool, "Loading …")

        def follow() -> None:
            for event in running.job.events():
                jobs.post(partial(self._take, running, event))

        jobs.run(follow, lambda _: None)

    def _take(self, running: "_Running", event: Event) -> None:
        tool = running.tool
        match event:
            case Phase():
                running.is_sampling = running.is_sampling or event.name == "sampling"
                self._say(tool, phase_text(event))
            case Sample():
                running.images.append(Path(event.path))
            case Warned():
                running.lines.append(event.text)
            case Finished():
                if running.images:
                    self._context.images.clear()  # of those before, which were replaced
                self._end(tool, "\n".join([*running.lines, *event.summary, *event.outputs]), "")
            case Failed():
                self._running = None
                self._fail(tool, UserError(event.what, event.expected, event.remedy))
            case Stopped():
                text = "Stopped. Nothing was written."
                if running.is_sampling:
                    text = "Stopped. The file was written, but not all of the images."
                self._end(tool, text, "Dim")

    def _fail(self, tool: _Tool, error: UserError) -> None:
        """Say what is wrong, with the labels of fields in place of the terminal's options."""
        self._say(tool, in_words_of_the_window(failure_text(error), tool.request), "Danger")

    def _end(self, tool: _Tool, text: str, style: str) -> None:
        self._running = None
        self._say(tool, text, style)


def _lora(lora: object) -> Mapping[str, object]:
    assert isinstance(lora, TrialLora)
    strength = lora.strength.replace(",", ".")
    return {"path": lora.path, "strength": strength, "step": lora.step}
