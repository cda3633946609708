"""Card that sums up the settings: model, data or run."""

import tkinter as tk
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

from onetrainer.captions.sample_prompts import shots_of
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.data.concept import CaptionSource
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.errors import UserError
from onetrainer.messages.formatting import counted
from onetrainer.presets.find import expanded
from onetrainer.rewards.prompts import prompts_of
from ui.background.folder_summary import FolderSummary, summarize_folder
from ui.background.forecaster import forecast_rates
from ui.background.threads import Latest
from ui.context import Context
from ui.messages.problems import join_list
from ui.model.amounts import EvenPlan, amount_text, even_plan, steps_in
from ui.model.draft import Draft
from ui.model.form_fields import Subject, section_name
from ui.model.variants import settings_in
from ui.model.visible_settings import has_effect
from ui.pages.settings.model_card import NOTHING_CHOSEN, lines_of
from ui.pages.settings.rate_plot import INPUTS, WIDTH, rate_curve
from ui.pages.settings.small_plot import SmallPlot
from ui.widgets.drawing import Drawing
from ui.widgets.placing import show

_THUMBNAILS = 9
_COLUMNS = 3
_SIDE = 76
_WRAP = 236
_ROUNDED_FROM = 10
_ORIGINS = {
    "names": " (its file name)",
    "folders": " (its folder name)",
    "text": " (the same for all)",
    "list": " (from the list)",
}
_TITLES: Mapping[Subject, str] = {"images": "Images", "model": "Model"}


class SummaryCard:
    """Summary of the model, the images or the run, next to the settings."""

    def __init__(self, context: Context, parent: tk.Misc, subject: Subject, *, line: int) -> None:
        self._context = context
        self._subject = subject
        widgets = context.widgets
        outer, inner = widgets.card(parent)
        widgets.label(inner, _TITLES.get(subject, "This run"), style="Heading").pack(anchor="w")
        self._lines = widgets.label(inner, wrap=_WRAP)
        self._lines.pack(anchor="w", pady=(widgets.px(6), 0))
        self._drawing = Drawing(widgets, inner, self._draw)
        self._summaries = Latest(widgets.jobs, summarize_folder, self.refresh)
        self._model: Latest[tuple[str, bool], list[str]] = Latest(
            widgets.jobs, lambda key: lines_of(*key), self.refresh
        )
        self._plot: SmallPlot | None = None
        if subject == "run with rates":
            self._plot = SmallPlot(
                widgets,
                inner,
                lambda: [context.draft.value(path) for path in INPUTS],
                partial(rate_curve, context.draft),
                name="plot of the rate",
                width=WIDTH,
            )
            self._plot.widget.pack(anchor="w")
        if subject == "images":
            preview = widgets.button(
                inner,
                "Open preview",
                lambda: context.act.show_page("preview"),
                name="see preview",
            )
            preview.widget.pack(side="bottom", anchor="w", pady=(widgets.px(10), 0))
        outer.grid(row=line, column=0, sticky="ew", pady=(0, widgets.px(14)))

    def refresh(self) -> None:
        """Show the current draft."""
        draft = self._context.draft
        folder = first_folder(draft)
        summary = self._summaries.get(folder)
        match self._subject:
            case "model":
                path, is_offline = draft.value("model.path"), draft.value("model.offline") is True
                key = (path, is_offline) if isinstance(path, str) and path else None
                lines = self._model.get(key) or ["Reading …" if key else NOTHING_CHOSEN]
            case "images":
                lines = data_lines(folder, summary, other_folders(draft))
                self._draw()
            case _:
                _, epoch = forecast_rates(self._context.forecasts, draft)
                lines = run_lines(draft, summary, epoch)
        self._lines.say("\n".join(lines))
        if self._plot is not None:
            self._plot.draw()

    def _draw(self) -> None:
        summary = self._summaries.get(first_folder(self._context.draft))
        first = summary.first[:_THUMBNAILS] if summary else []
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


def first_folder(draft: Draft) -> ConceptSettings | None:
    """Return the first image folder of the draft; None if it is not set.

    Other settings may be wrong while the user types, so the config is not validated.
    """
    text = draft.value("data.folder")
    if not isinstance(text, str) or not text:
        return None
    source: Any = draft.value("data.caption_source")
    caption_list = _path(draft.value("data.caption_list"))
    folder = _path(text)
    return ConceptSettings(
        "data.folder",
        folder.name,
        folder,
        recursive=draft.value("data.include_subfolders") is True,
        caption_source=source if source in get_args(CaptionSource) else "files",
        caption_text=str(draft.value("data.caption_text")),
        caption_list=caption_list if caption_list.name else None,
        trigger=str(draft.value("data.trigger")),
        require_captions=False,
    )


def _path(value: object) -> Path:
    try:
        return Path(expanded(str(value)))
    except UserError:  # "~name" of an unknown user
        return Path(str(value))


def other_folders(draft: Draft) -> int:
    """Return the number of further folders that are trained on or used for regularization."""
    return sum(entry.get("role") != "validation" for entry in _used_folders(draft))


def _used_folders(draft: Draft) -> list[dict[str, object]]:
    """Return the entries of further folders that are enabled and have a path."""
    concepts = draft.value("data.concepts")
    entries = concepts if isinstance(concepts, list) else []
    folders = [entry for entry in entries if isinstance(entry, dict)]
    return [entry for entry in folders if entry.get("use") is not False and entry.get("folder")]


def data_lines(
    folder: ConceptSettings | None, summary: FolderSummary | None, others: int
) -> list[str]:
    """Describe the images of the first folder, and mention others."""
    if folder is None and others:
        return [f"Images of {counted(others, 'folder')}"]
    if folder is None:
        return [
            "Choose a folder of images, or drop one on the window. Captions are .txt files with "
            "the same names."
        ]
    if summary is None:
        return ["Reading …"]
    if not summary.exists:
        return ["This folder does not exist."]
    unusable = [f"{summary.unusable} cannot be used"] if summary.unusable else []
    if not summary.images:
        return unusable or ["No images in this folder."]
    more = [f"and images of {counted(others, 'more folder')}"] if others else []
    return [f"{summary.images:,} images", *_caption_lines(folder, summary), *unusable, *more]


def _caption_lines(folder: ConceptSettings, summary: FolderSummary) -> list[str]:
    if summary.caption_error:
        return [summary.caption_error]
    without = summary.images - summary.captions
    lines = []
    if summary.captions:
        origin = "" if folder.caption_source == "files" else _ORIGINS[folder.caption_source]
        lines.append(f"{summary.captions:,} with a caption{origin}")
    return [*lines, f"{without:,} without a caption"] if without else lines


def how_often(images_seen: int, images: int, *, is_most: bool = False) -> str:
    """Format how often each image is seen: "each of 3 images 333 times".

    is_most: whether the number is an upper limit.
    """
    times = images_seen / images
    if times < 1:
        return f"not all of {images:,} images"
    figure = f"{times:,.0f}" if times >= _ROUNDED_FROM else f"{times:.1f}".removesuffix(".0")
    times_text = "once" if figure == "1" else f"{figure} times"
    times_text = f"up to {times_text}" if is_most and figure != "1" else times_text
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


def validation_image_count(draft: Draft, images: int) -> int:
    """Return how many images are split off for validation; 0 for a folder of its own."""
    config = draft.section_alone("validation")
    if config is None or not config.validation.use or config.validation.folder:
        return 0
    # Imported late, because opening the window does not need it.
    from onetrainer.dataset.dataset import validation_count

    return validation_count(config.validation, images)


def prompt_lines(draft: Draft) -> list[str]:
    """Describe the number of training and evaluation prompts that the settings list."""
    config = draft.section_alone("objective")
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


def sample_line(draft: Draft, times: int) -> str:
    """Describe the samples. times: How often they are generated."""
    prompts, config = draft.value("sampling.prompts"), draft.valid_config()
    count = len(prompts) if isinstance(prompts, list) else 0
    if config:
        count = len(shots_of(config, config.sampling.prompts))
    counts = [f"{times * count:,} sample images, {count:,} each time"] if count else []
    if draft.value("sampling.file"):
        counts.append(f"those of the prompt file {times:,} times")
    return "; ".join(counts) or "No samples: there is no sample prompt"


def known_images(draft: Draft, summary: FolderSummary | None) -> int:
    """Return the images of a run that uses one folder alone; 0 if it uses others too."""
    if summary is None or _used_folders(draft) or draft.value("data.class_folder"):
        return 0
    return summary.images


def run_plan(
    draft: Draft, summary: FolderSummary | None, steps_per_epoch: int = 0
) -> EvenPlan | None:
    """Return the plan of a run; None if it is not known.

    steps_per_epoch: 0 to count them as if all images were of one size.
    """
    if draft.value("objective.kind") in ("alignprop", "slider"):
        return None
    images, config = known_images(draft, summary), draft.section_alone("training")
    if config is None or not (images or steps_per_epoch):
        return None
    per_step = config.training.batch_size * config.training.accumulation
    if steps_per_epoch:
        return EvenPlan(steps_per_epoch, per_step)
    return even_plan(images - validation_image_count(draft, images), per_step)


def run_lines(draft: Draft, summary: FolderSummary | None, steps_per_epoch: int = 0) -> list[str]:
    """Describe length, data and outputs of the run. steps_per_epoch: See `run_plan`."""
    value = draft.value
    length, batch = value("training.steps"), value("training.batch_size")
    accumulation = value("training.accumulation")
    if not (isinstance(batch, int) and isinstance(accumulation, int)):
        return [*trained_lines(draft), "Fix the numbers to see the length of the run."]
    plan = run_plan(draft, summary, steps_per_epoch)
    steps, every = steps_in(length, plan), steps_in(value("sampling.every"), plan)
    if steps is None:
        unknown = amount_text(length) or "Fix the numbers to see the length of the run."
        return [*trained_lines(draft), unknown]
    images_seen = steps * batch * accumulation
    objective = value("objective.kind")
    is_reward_training, is_slider = objective == "alignprop", objective == "slider"
    is_curated = value("objective.algorithm.kind") == "best_of_n"
    done = (
        ("trained on, the best of those generated" if is_curated else "generated and scored")
        if is_reward_training
        else "denoised in part"
        if is_slider
        else "seen"
    )
    # The last batch of a bucket may be smaller.
    is_most = batch * accumulation > 1 and not (is_reward_training or is_slider)
    count = f"{'up to ' if is_most else ''}{images_seen:,} images {done}"
    about = f"{length}, about " if isinstance(length, str) else ""
    lines = [*trained_lines(draft), f"{about}{steps:,} steps", count]
    if is_reward_training:
        lines += prompt_lines(draft)
    elif is_slider:
        directions = value("objective.directions")
        lines.append(counted(len(directions) if isinstance(directions, list) else 0, "direction"))
    elif images := known_images(draft, summary):
        validation = validation_image_count(draft, images)
        lines.append(how_often(images_seen, max(1, images - validation), is_most=is_most))
        if validation:
            lines.append(f"{counted(validation, 'image')} for validation")
    times = (value("sampling.at_start") is True) + (value("sampling.at_end") is True)
    if every is not None and every > 0:
        times += (steps - 1) // every
    lines.append(sample_line(draft, times))
    saves = value("output.save_every")
    if often := amount_text(saves):
        lines.append(f"A checkpoint every {often}")
    rank, alpha = value("method.rank"), value("method.alpha")
    if isinstance(rank, int) and isinstance(alpha, int | float) and rank > 0:
        lines.append(f"Adapter scale {alpha / rank:g} (alpha / rank)")
    return lines
