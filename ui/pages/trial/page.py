"""Page on which a model is tried: a prompt, LoRAs with strengths, and the images they make."""

import tkinter as tk
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tkinter import ttk

from onetrainer.config.run.sampling import SAMPLER_LABELS, Prompt, Sampling
from onetrainer.errors import UserError
from onetrainer.jobs.job import Job
from onetrainer.jobs.sample_request import SampleRequest
from onetrainer.queue.queue import Queue
from onetrainer.run.events import Event, Failed, Finished, Phase, Sample, Stopped
from ui.context import Context, View
from ui.forms.lora_rows import LoraRows
from ui.messages.memory import failure_text
from ui.model.trial import trial_folder, trial_request
from ui.progress.run_state import phase_text
from ui.widgets.drawing import Drawing
from ui.widgets.flow import Flow
from ui.widgets.placing import place_two
from ui.widgets.scroller import Scroller

_NUMBERS = (
    ("width", "Width", ""), ("height", "Height", ""), ("seed", "Seed", str(Prompt().seed)),
    ("count", "Images", "1"), ("steps", "Steps", str(Sampling().steps)),
    ("guidance", "Guidance", f"{Sampling().guidance:g}"),
)  # fmt: skip
_LEAD = "Generates with the base model of the form, and with LoRAs of your own or of a run."
_SIDE = 512
_MOST_SHOWN = 60
_THUMBNAIL = 84


class TrialPage(View):
    """Fields on the left, images on the right."""

    name = "trial"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        self._job: Job | None = None
        self._images: list[Path] = []
        self._shown = 0
        widgets, px = context.widgets, context.widgets.px
        scroller = Scroller(widgets, parent, fills=True)
        self.outer: tk.Widget = scroller.outer
        page = widgets.frame(scroller.inner, ground="window")
        page.grid(sticky="nsew", padx=px(28), pady=px(21))
        head, _, _ = widgets.heading(page, "Try model", _LEAD)
        head.pack(anchor="w", pady=(0, px(12)))
        self._box = widgets.frame(page, ground="window")
        self._box.pack(fill="both", expand=True)
        self._left, form = widgets.card(self._box)
        self._right, view = widgets.card(self._box)
        self._box.bind("<Configure>", self._arrange)
        self._values: dict[str, tk.StringVar] = {}
        self._prompt = self._text(form, "Prompt", "trial prompt", height=4)
        self._negative = self._text(form, "Negative prompt", "trial negative", height=2)
        widgets.label(form, "LoRAs").pack(anchor="w")
        self._loras = LoraRows(context, form)
        self._make_numbers(form)
        line = widgets.frame(form)
        line.pack(fill="x", pady=(px(14), 0))
        self._button = widgets.button(
            line, "Generate", self._press, kind="primary", name="generate", width=110
        )
        self._grid = widgets.switch(line, lambda: None, text="A prompt a line, as a grid")
        flow = Flow(widgets, line)
        for part in (self._button.widget, self._grid.widget):
            flow.add(part)
        self._status = widgets.label(form, "", style="Dim", wrap=360)
        self._status.pack(anchor="w", pady=(px(8), 0))
        self._drawing = Drawing(
            widgets, view, self._draw, width=320, height=320, name="trial image", takes_keys=True
        )
        self._drawing.canvas.pack(fill="both", expand=True)
        self._strip = Drawing(
            widgets, view, self._draw_strip, width=320, height=px(_THUMBNAIL), name="trial strip"
        )
        self._strip.canvas.pack(fill="x", pady=(px(10), 0))
        self._strip.canvas.bind("<Button-1>", self._click)
        self._caption = widgets.label(view, "", style="SmallDim", wrap=480)
        self._caption.pack(anchor="w", pady=(px(6), 0))
        for key, by in (("<Left>", -1), ("<Right>", 1)):
            self._drawing.canvas.bind(key, partial(self._move, by))
        self._list()

    @property
    def shown(self) -> dict[str, object]:
        """How many images there are, which one is shown, and what is said."""
        return {
            "images": len(self._images),
            "shown": self._shown,
            "status": self._status.text,
            "button": str(self._button.widget.cget("text")),
        }

    def refresh(self) -> None:
        """Say whether images can be generated now."""
        if self._job is None:
            self._button.enable(self._blocked_reason())

    def _blocked_reason(self) -> str:
        session = self._context.session
        if session.is_running and session.folder is not None:
            return f"“{session.folder.name}” is training. Pause it, or press Sample now on Run."
        return "" if self._context.draft.value("model.path") else "Choose a base model first."

    def _text(self, form: ttk.Frame, label: str, name: str, *, height: int) -> tk.Text:
        widgets, px = self._context.widgets, self._context.widgets.px
        widgets.label(form, label).pack(anchor="w", pady=(0, px(4)))
        box = widgets.text_box(form, width=40, height=height)
        box.pack(fill="x", pady=(0, px(10)))
        box.bind("<Tab>", _leave)
        box.bind("<Control-Return>", lambda _: self._pressed_in_text())
        widgets.name(box, name)
        return box

    def _make_numbers(self, form: ttk.Frame) -> None:
        widgets, px = self._context.widgets, self._context.widgets.px
        grid = widgets.frame(form)
        grid.pack(fill="x", pady=(px(10), 0))
        for index, (name, label, value) in enumerate(_NUMBERS):
            row, column = divmod(index, 3)
            self._values[name] = tk.StringVar(form, value)
            widgets.label(grid, label, style="SmallDim").grid(
                row=2 * row, column=column, sticky="w"
            )
            entry = ttk.Entry(grid, textvariable=self._values[name], font="OneTrainerBody", width=9)
            entry.grid(row=2 * row + 1, column=column, sticky="w", padx=(0, px(8)), pady=(0, px(6)))
            entry.bind("<Return>", lambda _: self._press())
            widgets.name(entry, f"trial {name}")
        side = self._context.draft.value("data.resolution")
        for name in ("width", "height"):
            self._values[name].set(str(side if isinstance(side, int) else _SIDE))
        widgets.label(grid, "Sampler", style="SmallDim").grid(row=4, column=0, sticky="w")
        self._values["sampler"] = tk.StringVar(form, SAMPLER_LABELS[Sampling().sampler])
        box = ttk.Combobox(
            grid,
            textvariable=self._values["sampler"],
            values=list(SAMPLER_LABELS.values()),
            state="readonly",
            font="OneTrainerBody",
            width=22,
        )
        box.grid(row=5, column=0, columnspan=3, sticky="w")
        widgets.name(box, "trial sampler")

    def _arrange(self, event: "tk.Event[ttk.Frame]") -> None:
        px = self._context.widgets.px
        is_wide = event.width >= px(760)
        place_two(self._left, self._right, is_beside=is_wide, widths=(3, 4), gap=px(14))

    def _pressed_in_text(self) -> str:
        self._press()
        return "break"

    def _press(self) -> None:
        """Generate, or stop generating."""
        if self._job is not None:
            self._job.stop()
            return
        reason = self._blocked_reason() or _queue_reason()
        if reason:
            self._status.say(reason, "Dim")
            return
        try:
            request = trial_request(
                self._context.draft, self._typed(), self._loras.listed(), is_grid=self._grid.is_on
            )
            self._start(request)
        except UserError as error:
            self._status.say(str(error), "Danger")

    def _typed(self) -> Mapping[str, str]:
        samplers = {label: name for name, label in SAMPLER_LABELS.items()}
        values = {name: variable.get().strip() for name, variable in self._values.items()}
        values["sampler"] = samplers[values["sampler"]]
        texts = {"prompt": self._prompt, "negative": self._negative}
        return values | {name: box.get("1.0", "end").strip() for name, box in texts.items()}

    def _start(self, request: SampleRequest) -> None:
        jobs = self._context.widgets.jobs
        job = self._job = Job("sample", request)
        jobs.on_close.append(job.stop)
        self._button.set_text("Stop")
        self._status.say("Loading the model …", "Dim")

        def follow() -> None:
            for event in job.events():
                jobs.post(partial(self._take, job, event))

        jobs.run(follow, lambda _: None)

    def _take(self, job: Job, event: Event) -> None:
        match event:
            case Phase():
                self._status.say(phase_text(event), "Dim")
            case Sample():
                self._add([Path(event.path)])
            case Finished():
                self._add([Path(p) for p in event.outputs if p.endswith("grid.png")])
                self._end("Done.")
            case Failed():
                error = UserError(event.what, event.expected, event.remedy)
                self._end(failure_text(error), "Danger")
            case Stopped():
                self._end("Stopped.")

    def _end(self, text: str, style: str = "Dim") -> None:
        self._job = None
        self._button.set_text("Generate")
        self._status.say(text, style)

    def _list(self) -> None:
        """Show the newest images that were made before."""
        folder = trial_folder(self._context.draft)
        found = sorted(folder.glob("*.png"))[-_MOST_SHOWN:] if folder.is_dir() else []
        self._add(found)

    def _add(self, paths: list[Path]) -> None:
        if paths:
            self._images = [*self._images, *paths][-_MOST_SHOWN:]
            self._shown = len(self._images) - 1
        self._draw()

    def _move(self, by: int, _event: object = None) -> None:
        if self._images:
            self._shown = (self._shown + by) % len(self._images)
            self._draw()

    def _click(self, event: "tk.Event[tk.Canvas]") -> None:
        index = self._first() + event.x // self._each()
        if index < len(self._images):
            self._shown = index
            self._draw()
        self._drawing.canvas.focus_set()

    def _each(self) -> int:
        return self._context.widgets.px(_THUMBNAIL + 6)

    def _first(self) -> int:
        """Return the first image of the strip, so that the shown one is on it."""
        room = max(1, self._strip.width // self._each())
        return max(0, min(self._shown, len(self._images) - room))

    def _draw(self) -> None:
        """Draw the shown image, and the strip of all."""
        drawing = self._drawing
        drawing.begin()
        self._draw_strip()
        width, height = drawing.width, drawing.height
        if not self._images:
            text = "Images appear here. Ctrl+Enter in the prompt generates."
            drawing.text(width // 2, height // 2, text, "dim", anchor="center", room=width)
            return
        path = self._images[self._shown]
        image = self._context.images.get(path, width, height, self._draw)
        if image is not None and width > _THUMBNAIL:
            drawing.image((path, width, height), image, width // 2, height // 2, 0)
        place = f"{self._shown + 1} of {len(self._images)}"
        self._caption.say(f"{place}  ·  {path.name}  ·  Left and Right  ·  in {path.parent}")

    def _draw_strip(self) -> None:
        side, first = self._context.widgets.px(_THUMBNAIL), self._first()
        self._strip.begin()
        for place, path in enumerate(self._images[first:]):
            x = place * self._each()
            if x > self._strip.width:
                break
            image = self._context.images.get(path, side, side, self._draw_strip)
            if image is not None:
                self._strip.image((path, side), image, x + side // 2, side // 2, 0)
            if first + place == self._shown:
                self._strip.box(x, 0, x + side - 1, side - 1, outline="accent", width=2)


def _queue_reason() -> str:
    """Return why the queue has the device; "" if it has not."""
    busy = [entry.folder.name for entry in Queue().read().running if entry.folder.is_busy()]
    return f"“{busy[0]}” of the queue is training. Hold or pause it first." if busy else ""


def _leave(event: "tk.Event[tk.Text]") -> str:
    """Go to the next control, where a text would take the Tab."""
    following = event.widget.tk_focusNext()
    if following is not None:
        following.focus_set()
    return "break"
