"""Card that sums up the settings: model, data or run."""

import tkinter as tk
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onetrainer.config.base.numbers import number_text
from onetrainer.config.data.concept import CaptionSource
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.errors import UserError, sentence
from onetrainer.messages.formatting import counted, format_epochs, some
from ui.background.dataset_preview import PreviewData
from ui.background.forecaster import forecast_seconds
from ui.background.threads import Latest
from ui.context import Context
from ui.messages.problems import capitalized, join_list
from ui.model.amounts import amount_text
from ui.model.draft import Draft
from ui.model.form_fields import Subject, section_name
from ui.model.variants import settings_in
from ui.model.visible_settings import has_effect
from ui.pages.settings.amounts import epochs_in, is_estimate, steps_in, times_due
from ui.pages.settings.model_card import NOTHING_CHOSEN, lines_of
from ui.widgets.drawing import Drawing
from ui.widgets.placing import show, while_visible

if TYPE_CHECKING:
    from ui.pages.settings.small_plot import SmallPlot

_THUMBNAILS = 9
_COLUMNS = 3
_SIDE = 76
_WRAP = 236
_ROUNDED_FROM = 10
_ORIGIN = "data.caption_source"
_ORIGINS = {
    "names": " (its file name)",
    "folders": " (its folder name)",
    "text": " (the same for all)",
    "list": " (from the list)",
}
_TITLES: Mapping[Subject, str] = {"images": "Images", "model": "Model"}


class SummaryCard:
    """Summary of the model, the images or the run, next to the settings.

    What only some of these need is imported there, to keep the start of the window fast.
    """

    def __init__(self, context: Context, parent: tk.Misc, subject: Subject, *, line: int) -> None:
        self._context = context
        self._subject = subject
        widgets = context.widgets
        outer, inner = widgets.card(parent)
        widgets.label(inner, _TITLES.get(subject, "This run"), style="Heading").pack(anchor="w")
        self._lines = widgets.label(inner, wrap=_WRAP)
        self._lines.pack(anchor="w", pady=(widgets.px(6), 0))
        self._drawing = Drawing(widgets, inner, self._draw)
        self._shown: list[str] = []
        self._model: Latest[tuple[str, bool], list[str]] = Latest(
            widgets.jobs, lambda key: lines_of(*key), self.refresh
        )
        self._plot = self._make_plot(inner) if subject == "run with rates" else None
        if subject == "images":
            preview = widgets.button(
                inner,
                "Open preview",
                lambda: context.act.show_page("preview"),
                name="see preview",
            )
            preview.widget.pack(side="bottom", anchor="w", pady=(widgets.px(10), 0))
        outer.grid(row=line, column=0, sticky="ew", pady=(0, widgets.px(14)))
        if subject != "model":
            context.preview.query.listen(while_visible(outer, self.refresh))

    def _make_plot(self, inner: tk.Misc) -> "SmallPlot":
        from ui.pages.settings.rate_plot import INPUTS, WIDTH, rate_curve
        from ui.pages.settings.small_plot import SmallPlot

        draft = self._context.draft
        plot = SmallPlot(
            self._context.widgets,
            inner,
            lambda: [*(draft.value(path) for path in INPUTS), self._known_steps()],
            lambda: rate_curve(draft, self._known_steps()),
            name="plot of the rate",
            width=WIDTH,
        )
        plot.widget.pack(anchor="w")
        return plot

    def refresh(self) -> None:
        """Show the current draft."""
        if self._subject == "model":
            draft = self._context.draft
            path, is_offline = draft.value("model.path"), draft.value("model.offline") is True
            key = (path, is_offline) if isinstance(path, str) and path else None
            lines = self._model.get(key) or ["Reading …" if key else NOTHING_CHOSEN]
            self._lines.say("\n".join(lines))
            return
        data = self._context.preview.get()
        lines = self._images_lines(data) if self._subject == "images" else self._run_lines(data)
        # Until numbers of changed settings are known, the former ones stay, so that nothing jumps.
        is_late = data is None and self._shown and self._is_awaited
        self._shown = self._shown if is_late else lines
        self._lines.say("\n".join(self._shown), "Dim" if is_late else "")
        if self._subject == "images" and not is_late:
            self._draw()
        if self._plot is not None:
            self._plot.draw()

    @property
    def _is_awaited(self) -> bool:
        """Whether a preview of the current settings will be known soon."""
        query = self._context.preview.query
        return not query.blocked_reason() and not (query.is_requested and query.failed)

    def _images_lines(self, data: PreviewData | None) -> list[str]:
        draft, query = self._context.draft, self._context.preview.query
        if not draft.value("data.folder") and not draft.value("data.concepts"):
            return [
                "Choose a folder of images, or drop one on the window. Captions are .txt files with"
                " the same names."
            ]
        if data is not None:
            origin: Any = None if draft.value("data.concepts") else draft.value(_ORIGIN)
            return [*data_lines(data, origin), *left_out_lines(data), *self._progress_lines()]
        if query.is_requested and query.failed is not None:
            return [sentence(capitalized(query.failed.what))]
        return [query.blocked_reason() or "Reading …"]

    def _progress_lines(self) -> list[str]:
        query = self._context.preview.query
        is_examining = query.is_working and query.total > 0
        return [f"Examining {query.done:,} of {query.total:,} …"] if is_examining else []

    def _run_lines(self, data: PreviewData | None) -> list[str]:
        draft = self._context.draft
        return run_lines(draft, data, forecast_seconds(self._context.forecasts, draft))

    def _known_steps(self) -> Mapping[str, int]:
        data = self._context.preview.get()
        return data.preview.known_steps if data is not None else {}

    def _draw(self) -> None:
        data = self._context.preview.get()
        items = data.preview.dataset.items[:_THUMBNAILS] if data else ()
        first = [item.path for item in items]
        widgets, drawing = self._context.widgets, self._drawing
        drawing.begin()
        show(drawing.canvas, bool(first), anchor="w", pady=(widgets.px(10), 0))
        side, gap = widgets.px(_SIDE), widgets.px(6)
        drawing.canvas.configure(width=_COLUMNS * (side + gap))
        drawing.set_height(-(-len(first) // _COLUMNS) * (side + gap))
        for index, path in enumerate(first):
            image = self._context.images.get(path, side, side, self._draw)
            row, column = divmod(index, _COLUMNS)
            center = (side + gap) * column + side // 2, (side + gap) * row + side // 2
            drawing.image((path, side), image, *center, side)


def data_lines(data: PreviewData, origin: CaptionSource | None) -> list[str]:
    """Describe the images. origin: Where the captions come from; None if from several sources."""
    from onetrainer.messages.dataset import image_totals

    preview = data.preview
    lines = [image_totals(preview)]
    captioned = preview.images - preview.uncaptioned
    if data.has_captions and captioned:
        lines.append(f"{captioned:,} with a caption{_ORIGINS.get(origin or 'files', '')}")
    if data.has_captions and preview.uncaptioned:
        lines.append(f"{preview.uncaptioned:,} without a caption")
    return lines


def left_out_lines(data: PreviewData) -> list[str]:
    """Describe the images that a run leaves out, and those that it may leave out."""
    from onetrainer.messages.dataset import unexamined_text

    skipped, text = data.preview.skipped, unexamined_text(data.preview)
    lines = [f"{len(skipped):,} left out: {some(skipped, len(skipped), '; ')}"] if skipped else []
    return [*lines, text] if text else lines


def how_often(images_seen: int, images: int) -> str:
    """Format how often each image is seen: "each of 3 images 333 times"."""
    times = images_seen / images
    if times < 1:
        return f"not all of {images:,} images"
    figure = f"{times:,.0f}" if times >= _ROUNDED_FROM else f"{times:.1f}".removesuffix(".0")
    times_text = "once" if figure == "1" else f"{figure} times"
    return (
        f"each of {images:,} images {times_text}" if images > 1 else f"the one image {times_text}"
    )


def trained_lines(draft: Draft) -> list[str]:
    """Describe what is trained: "LoRA: UNet and text encoder", "1 new token"."""
    method = draft.setting("method.kind")
    if method is None:
        return []
    components = _trainable_components(draft)
    trained = [component for component, is_on in components.items() if is_on]
    tokens = draft.value("embeddings.tokens")
    count = len(tokens) if isinstance(tokens, list) else 0
    title = method.choice_label(draft.value("method.kind"))
    trained_text = f"{title}: {join_list(trained) or 'no component'}" if components else title
    return [trained_text, counted(count, "new token")] if count else [trained_text]


def _trainable_components(draft: Draft) -> dict[str, bool]:
    """Return the components that the method can train, by name, and whether it does."""
    components = {}
    for setting in settings_in(draft.variants):
        section, _, key = setting.path.rpartition(".")
        is_switch = section.startswith("method.") and key == "train"
        if is_switch and has_effect(draft, setting, setting.path):
            name = section_name(section, draft.variants)
            components[name] = draft.value(setting.path) is True
    return components


def prompt_lines(draft: Draft) -> list[str]:
    """Describe the number of training and evaluation prompts that the settings list."""
    from onetrainer.rewards.prompts import prompts_of

    config = None if draft.is_held else draft.section_alone("objective")
    section = config.objective if config is not None else None
    if config is None or not isinstance(section, AlignProp) or section.prompts.source != "list":
        return []
    try:
        split = prompts_of(config)
    except UserError:
        return []  # the form reports why
    evaluated = f"{len(split.validation):,} for evaluation"
    evaluated += ", also trained on" if len(split.both) == len(split.validation) else ""
    return [f"{counted(len(split.trained), 'training prompt')}, {evaluated}"]


def sample_line(draft: Draft, times: int | None) -> str:
    """Describe the samples. times: How often they are generated; None if that is not known."""
    prompts, config = draft.value("sampling.prompts"), draft.valid_config()
    count = len(prompts) if isinstance(prompts, list) else 0
    if config:
        from onetrainer.captions.sample_prompts import shots_of

        count = len(shots_of(config, config.sampling.prompts))
    each = f"{counted(count, 'sample image')} each time"
    if times is not None:
        each = f"{counted(times * count, 'sample image')}, {count:,} each time"
    counts = [each] if count else []
    if draft.value("sampling.file"):
        often = "each time" if times is None else counted(times, "time")
        counts.append(f"those of the prompt file {often}")
    return "; ".join(counts) or "No samples: there is no sample prompt"


def run_lines(draft: Draft, data: PreviewData | None, seconds: float = 0.0) -> list[str]:
    """Describe length, data and outputs of the run.

    data: Of its images; None if it uses none. seconds: Of a step; 0 if that is not known.
    """
    value = draft.value
    trained, length = trained_lines(draft), value("training.steps")
    batch, accumulation = value("training.batch_size"), value("training.accumulation")
    steps = steps_in(length, data, seconds)
    if not (isinstance(batch, int) and isinstance(accumulation, int)):
        return [*trained, "Fix the numbers to see the length of the run."]
    if steps is None:
        return [*trained, amount_text(length) or "Fix the numbers to see the length of the run."]
    about = f"{amount_text(length)}, about " if is_estimate(length, data) else ""
    lines = [*trained, f"{about}{counted(steps, 'step')}"]
    objective, generated = value("objective.kind"), f"{steps * batch * accumulation:,} images"
    if objective == "alignprop":
        is_curated = value("objective.algorithm.kind") == "best_of_n"
        done = "trained on, the best of those generated" if is_curated else "generated and scored"
        lines += [f"{generated} {done}", *prompt_lines(draft)]
    elif objective == "slider":
        directions = value("objective.directions")
        count = len(directions) if isinstance(directions, list) else 0
        lines += [f"{generated} denoised in part", counted(count, "direction")]
    elif data is not None:
        lines += _image_lines(data, steps)
    lines.append(sample_line(draft, _times_sampled(draft, data, steps, seconds)))
    if often := amount_text(value("output.save_every")):
        lines.append(f"A checkpoint every {often}")
    rank, alpha = value("method.rank"), value("method.alpha")
    if isinstance(rank, int) and isinstance(alpha, int | float) and rank > 0:
        lines.append(f"Adapter scale {number_text(alpha / rank)} (alpha / rank)")
    return lines


def _image_lines(data: PreviewData, steps: int) -> list[str]:
    """Describe how often a run of some steps uses its images."""
    preview = data.preview
    if preview.steps is None:  # as many as are made in a time
        lines = [f"about {format_epochs(epochs_in(steps, data))}"]
    else:
        lines = [f"{format_epochs(preview.epochs)}, {counted(preview.images_used, 'image')} seen"]
        if sum(bool(concept.images) for concept in preview.concepts) == 1:
            lines.append(how_often(preview.images_used, preview.images))
    if preview.validation:
        lines.append(f"{counted(preview.validation, 'image')} for validation")
    return [*lines, *left_out_lines(data)]


def _times_sampled(
    draft: Draft, data: PreviewData | None, steps: int, seconds: float
) -> int | None:
    """Return how often samples are generated; None if that is not known."""
    value = draft.value
    before = times_due(value("sampling.every"), data, steps - 1, seconds)
    whole = times_due(value("sampling.every"), data, steps, seconds)
    if before is None or whole is None:
        return None
    is_at_end = value("sampling.at_end") is True or whole > before
    return before + is_at_end + (value("sampling.at_start") is True)
