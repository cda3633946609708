"""Page on which a model is tried: a prompt, LoRAs with strengths, and the images they make."""

import tkinter as tk
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tkinter import ttk

from onetrainer.config.run.sampling import SAMPLER_LABELS, Prompt, Sampling
from onetrainer.errors import UserError
from onetrainer.jobs.run_trial import RunTrial, run_on
from onetrainer.jobs.sample_request import SampleRequest
from onetrainer.jobs.sample_table import labels_of, require_steps
from onetrainer.jobs.warm_worker import WarmWorker
from onetrainer.run.events import Event, Failed, Finished, Phase, Sample, Stopped, Warned
from onetrainer.run.run_folder import RunFolder
from ui.context import Context, View
from ui.forms.grid_axes import AxisRow
from ui.forms.lora_rows import LoraRows
from ui.messages.memory import failure_text
from ui.model.trial import TrialLora, trial_folder, trial_request, usual_prompt
from ui.pages.trial.images import TrialImages
from ui.progress.run_state import phase_text
from ui.widgets.placing import place_two
from ui.widgets.scroller import Scroller

_NUMBERS = (
    ("width", "Width", ""), ("height", "Height", ""), ("seed", "Seed", str(Prompt().seed)),
    ("count", "Images", "1"), ("steps", "Steps", str(Sampling().steps)),
    ("guidance", "Guidance", f"{Sampling().guidance:g}"),
)  # fmt: skip
_LEAD = "Generates with the base model of the form, and with LoRAs of your own or of a run."
_SIDE = 512
_COLUMNS = 4  # of numbers; the sampler is beside the last ones


class TrialPage(View):
    """Fields on the left, images on the right."""

    name = "trial"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        self._warm = WarmWorker()
        self._source: WarmWorker | RunTrial | None = None
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
        self._restore()
        widgets.label(form, "Grid").pack(anchor="w", pady=(px(10), px(4)))
        self._axes = {
            name: AxisRow(
                context,
                form,
                label,
                f"trial {name}",
                loras=self._weights,
                typed=self._typed,
                entered=self._press,
            )
            for name, label in (("x", "Across"), ("y", "Down"))
        }
        line = widgets.frame(form)
        line.pack(fill="x", pady=(px(14), 0))
        self._button = widgets.button(
            line, "Generate", self._press, kind="primary", name="generate", width=110
        )
        self._button.widget.pack(side="left")
        self._status = widgets.label(line, "", style="Dim", wrap=270)
        self._status.pack(side="left", padx=(px(14), 0))
        self._images = TrialImages(context, view)
        self._images.list_folder(trial_folder(context.draft))

    @property
    def shown(self) -> dict[str, object]:
        """What is shown, and what is said."""
        return {
            **self._images.shown,
            "status": self._status.text,
            "button": str(self._button.widget.cget("text")),
        }

    @property
    def working(self) -> str:
        """Whether images are generated."""
        return "" if self._source is None else "Images are being generated to try the model."

    def refresh(self) -> None:
        """Say whether images can be generated now."""
        if self._source is None:
            self._button.enable(self._blocked_reason())

    def take_focus(self) -> None:
        """Take the keyboard into the prompt, before the next key comes."""
        self.outer.update_idletasks()  # Tk would give it the focus only once it is on the screen
        self._prompt.focus_set()

    def take_path(self, kind: str, path: str) -> bool:
        """Add a LoRA, once, and a prompt of its run if none is typed."""
        if kind != "lora":
            return False
        if path not in [lora.path for lora in self._loras.listed()]:
            self._loras.add(TrialLora(path))
        if not self._prompt.get("1.0", "end").strip():
            self._prompt.insert("insert", usual_prompt(Path(path)))
        return True

    def commit(self) -> None:
        """Remember what is typed, for the next window and for this one at another size."""
        texts = {name: box.get("1.0", "end").strip() for name, box in self._texts().items()}
        values = {name: variable.get() for name, variable in self._values.items()}
        loras = [[lora.path, lora.strength, lora.step or 0] for lora in self._loras.listed()]
        side = self._context.draft.value("data.resolution")
        self._context.window_state.trial = {**texts, **values, "loras": loras, "side": side}

    def _restore(self) -> None:
        """Fill in what was typed last; files that are gone are left out."""
        typed = self._context.window_state.trial
        for name, box in self._texts().items():
            box.insert("1.0", str(typed.get(name, "")))
        left_out = set()
        if typed.get("side") != self._context.draft.value("data.resolution"):
            left_out |= {"width", "height"}  # of another model
        if typed.get("sampler") not in SAMPLER_LABELS.values():
            left_out.add("sampler")
        for name in self._values.keys() - left_out:
            self._values[name].set(str(typed.get(name, self._values[name].get())))
        loras = typed.get("loras")
        for each in loras if isinstance(loras, list) else ():
            match each:
                case [str(path), str(strength), int(step)] if Path(path).exists():
                    self._loras.add(TrialLora(path, strength, step or None))

    def _texts(self) -> Mapping[str, tk.Text]:
        return {"prompt": self._prompt, "negative": self._negative}

    def _blocked_reason(self) -> str:
        return "" if self._context.draft.value("model.path") else "Choose a base model first."

    def _training_run(self) -> RunFolder | None:
        """Return the run that trains on the form's device, or in this window."""
        session = self._context.session
        owner = run_on(str(self._context.draft.value("hardware.device")))
        return owner or (session.folder if session.is_running else None)

    def _weights(self) -> list[TrialLora]:
        """Return the LoRAs of the list, or what a run trains while it does."""
        run = self._training_run()
        return self._loras.listed() if run is None else [TrialLora(str(run.path))]

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
            row, column = divmod(index, _COLUMNS)
            self._values[name] = tk.StringVar(form, value)
            widgets.label(grid, label, style="SmallDim").grid(
                row=2 * row, column=column, sticky="w"
            )
            entry = ttk.Entry(grid, textvariable=self._values[name], font="OneTrainerBody", width=5)
            gap = px(8) if column < _COLUMNS - 1 else 0
            entry.grid(row=2 * row + 1, column=column, sticky="ew", padx=(0, gap), pady=(0, px(6)))
            grid.grid_columnconfigure(column, weight=1, uniform="numbers")
            entry.bind("<Return>", lambda _: self._press())
            widgets.name(entry, f"trial {name}")
        side = self._context.draft.value("data.resolution")
        for name in ("width", "height"):
            self._values[name].set(str(side if isinstance(side, int) else _SIDE))
        row, column = divmod(len(_NUMBERS), _COLUMNS)
        widgets.label(grid, "Sampler", style="SmallDim").grid(
            row=2 * row, column=column, columnspan=_COLUMNS - column, sticky="w"
        )
        self._values["sampler"] = tk.StringVar(form, SAMPLER_LABELS[Sampling().sampler])
        box = ttk.Combobox(
            grid,
            textvariable=self._values["sampler"],
            values=list(SAMPLER_LABELS.values()),
            state="readonly",
            font="OneTrainerBody",
            width=10,
        )
        box.grid(
            row=2 * row + 1,
            column=column,
            columnspan=_COLUMNS - column,
            sticky="ew",
            pady=(0, px(6)),
        )
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
        try:
            self._generate_or_cancel()
        except UserError as error:
            self._status.say(str(error), "Danger")

    def _generate_or_cancel(self) -> None:
        if self._source is not None:
            self._source.cancel()
            return
        if reason := self._blocked_reason():
            self._status.say(reason, "Dim")
            return
        axes = {name: row.axis() for name, row in self._axes.items()}
        self._start(trial_request(self._context.draft, self._typed(), self._weights(), **axes))

    def _typed(self) -> Mapping[str, str]:
        samplers = {label: name for name, label in SAMPLER_LABELS.items()}
        values = {name: variable.get().strip() for name, variable in self._values.items()}
        values["sampler"] = samplers[values["sampler"]]
        return values | {name: box.get("1.0", "end").strip() for name, box in self._texts().items()}

    def _start(self, request: SampleRequest) -> None:
        jobs, run = self._context.widgets.jobs, self._training_run()
        source: WarmWorker | RunTrial = self._warm
        text = "Starting …"
        if run is not None:
            source = RunTrial(run)
            text = f"“{run.name}” generates what it trains, without these LoRAs, between two steps."
        else:
            require_steps(request)
        self._source = source
        if source.close not in jobs.on_close:
            jobs.on_close.append(source.close)
        self._button.set_text("Stop")
        self._status.say(text, "Dim")
        has_grid = request.x is not None or request.y is not None
        if has_grid:
            self._images.begin_grid(len(labels_of(request.y)), len(labels_of(request.x)))

        def follow() -> None:
            for event in source.events(request):
                jobs.post(partial(self._take, event, has_grid=has_grid))

        jobs.run(follow, lambda _: None, self._failed)

    def _take(self, event: Event, *, has_grid: bool) -> None:
        match event:
            case Phase():
                self._status.say(phase_text(event), "Dim")
            case Warned():
                self._status.say(event.text, "Dim")
            case Sample():
                self._images.add([Path(event.path)], event.prompt_index if has_grid else None)
            case Finished():
                self._end("Done.")
            case Failed():
                error = UserError(event.what, event.expected, event.remedy)
                self._end(failure_text(error), "Danger")
            case Stopped():
                self._end(f"Stopped: {event.because}." if event.because else "Stopped.")

    def _failed(self, error: Exception) -> None:
        self._end(str(error), "Danger")
        if not isinstance(error, UserError):
            raise error

    def _end(self, text: str, style: str = "Dim") -> None:
        on_close = self._context.widgets.jobs.on_close
        if isinstance(self._source, RunTrial) and self._source.close in on_close:
            on_close.remove(self._source.close)
        self._source = None
        self._button.set_text("Generate")
        self._status.say(text, style)
        self._images.end_grid()
        self._images.list_folder(trial_folder(self._context.draft))
        self.refresh()


def _leave(event: "tk.Event[tk.Text]") -> str:
    """Go to the next control, where a text would take the Tab."""
    following = event.widget.tk_focusNext()
    if following is not None:
        following.focus_set()
    return "break"
