"""What the settings amount to, in words: never settings themselves."""

import tkinter as tk
from pathlib import Path
from tkinter import ttk
from typing import Any, get_args

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.data.concept import CaptionSource
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.errors import UserError
from onetrainer.presets.presets import expanded
from onetrainer.rewards.prompts import prompts_of
from ui.background.folder_summary import Glance, glance_at
from ui.context import Context
from ui.messages.problems import listed
from ui.model.draft import Draft
from ui.model.form_fields import name_of
from ui.model.variants import settings_in
from ui.pages.settings.model_card import ModelLines
from ui.pages.settings.rate_plot import RatePlot
from ui.widgets.widgets import wrap_in_card

_THUMBNAILS = 9
_COLUMNS = 3
_SIDE = 76
_WRAP = 236
_ROUNDED_FROM = 10
_ORIGINS = {
    "names": ": its name",
    "folders": ": its folder's name",
    "text": ": the same for all",
    "list": " in the list",
}
_TITLES = {"data": "The pictures", "model": "The model"}


class SummaryCard:
    """A card beside the settings: the model, the pictures, or the run that they would make."""

    def __init__(self, context: Context, parent: tk.Misc, page: str, *, line: int) -> None:
        self._context = context
        self._page = page
        kit = context.kit
        outer, inner = kit.card(parent)
        kit.label(inner, _TITLES.get(page, "This run"), style="Heading").pack(anchor="w")
        self._lines: ttk.Label = kit.label(inner, wrap=_WRAP)
        self._lines.pack(anchor="w", pady=(kit.px(6), 0))
        self._canvas = tk.Canvas(inner, highlightthickness=0, width=1, height=1, takefocus=0)
        kit.theme.paint(self._canvas, bg="card")
        self._images: list[object] = []
        self._seen: ConceptSettings | None = None
        self._glance: Glance | None = None
        self._model = ModelLines(context, self._show)
        self._plot = RatePlot(context, inner) if page == "training" else None
        if self._plot is not None:
            self._plot.widget.pack(anchor="w")
        if page == "data":
            preview = kit.button(
                inner,
                "See what will happen",
                lambda: context.act.show_page("preview"),
                name="see preview",
            )
            preview.widget.pack(side="bottom", anchor="w", pady=(kit.px(10), 0))
        outer.grid(row=line, column=0, sticky="ew", pady=(0, kit.px(14)))

    def refresh(self) -> None:
        """Shows what is true for the draft now."""
        seen = first_folder(self._context.draft)
        if seen != self._seen:
            self._seen = seen
            self._look(seen)
        self._show()

    def wrap(self, width: int) -> None:
        """Fits the words into a card of a width in pixels."""
        wrap_in_card(self._context.kit, width, self._lines)

    def _show(self) -> None:
        draft = self._context.draft
        match self._page:
            case "model":
                lines = self._model.lines()
            case "data":
                lines = data_lines(self._seen, self._glance, other_folders(draft))
            case _:
                lines = run_lines(draft, self._glance)
        self._lines.configure(text="\n".join(lines))
        if self._plot is not None:
            self._plot.draw()

    def _look(self, folder: ConceptSettings | None) -> None:
        self._glance = None
        self._draw()
        if folder is not None:
            self._context.kit.jobs.run(
                lambda: glance_at(folder), lambda glance: self._looked(folder, glance)
            )

    def _looked(self, seen: ConceptSettings, glance: Glance) -> None:
        if seen == self._seen:
            self._glance = glance
            self._show()
            self._draw()

    def _draw(self) -> None:
        if self._page != "data":
            return
        self._canvas.delete("all")
        self._images = []
        first = self._glance.first[:_THUMBNAILS] if self._glance else []
        if not first:
            self._canvas.pack_forget()
            return
        kit = self._context.kit
        side, gap = kit.px(_SIDE), kit.px(6)
        rows = -(-len(first) // _COLUMNS)
        self._canvas.configure(width=_COLUMNS * (side + gap), height=rows * (side + gap))
        self._canvas.pack(anchor="w", pady=(kit.px(10), 0))
        for place, path in enumerate(first):
            image = self._context.images.get(path, side, side, self._draw)
            if image is not None:
                from PIL.ImageTk import PhotoImage

                photo = PhotoImage(image, master=self._canvas)
                self._images.append(photo)
                row, column = divmod(place, _COLUMNS)
                center = (side + gap) * column + side // 2, (side + gap) * row + side // 2
                self._canvas.create_image(*center, image=photo)


def first_folder(draft: Draft) -> ConceptSettings | None:
    """The first folder of pictures, as far as it is said by now; None where it is not.

    Other settings of pictures may be wrong while somebody types.
    """
    text = draft.value("data.folder")
    if not isinstance(text, str) or not text:
        return None
    source: Any = draft.value("data.caption_source")
    said = _path(draft.value("data.caption_list"))
    folder = _path(text)
    return ConceptSettings(
        "data.folder",
        folder.name,
        folder,
        deep=draft.value("data.include_subfolders") is True,
        caption_source=source if source in get_args(CaptionSource) else "files",
        caption_text=str(draft.value("data.caption_text")),
        caption_list=said if said.name else None,
        trigger=str(draft.value("data.trigger")),
        require_captions=False,
    )


def _path(value: object) -> Path:
    try:
        return Path(expanded(str(value)))
    except UserError:  # the home of somebody who is not there
        return Path(str(value))


def other_folders(draft: Draft) -> int:
    """How many folders beside the first one are used, to be learnt or kept."""
    return sum(entry.get("role") != "validation" for entry in _used_folders(draft))


def _used_folders(draft: Draft) -> list[dict[str, object]]:
    """The entries of further folders that are not off, nor without a folder yet."""
    concepts = draft.value("data.concepts")
    entries = concepts if isinstance(concepts, list) else []
    found = [entry for entry in entries if isinstance(entry, dict)]
    return [entry for entry in found if entry.get("use") is not False and entry.get("folder")]


def _has_more_images(draft: Draft) -> bool:
    """Whether pictures are shown beside those of the first folder."""
    return bool(_used_folders(draft) or draft.value("data.class_folder"))


def data_lines(folder: ConceptSettings | None, glance: Glance | None, others: int) -> list[str]:
    """What was seen in the first folder, and that there are others."""
    folders = f"folder{'s' if others > 1 else ''}"
    if folder is None and others:
        return [f"Those of {others} {folders}"]
    if folder is None:
        return ["Choose a folder of pictures, each with its caption in a .txt file beside it."]
    if glance is None:
        return ["Looking …"]
    if not glance.exists:
        return ["There is no such folder."]
    unusable = [f"{glance.unusable} cannot be used"] if glance.unusable else []
    if not glance.images:
        return unusable or ["There are no pictures in this folder."]
    more = [f"and those of {others} more {folders}"] if others else []
    return [f"{glance.images:,} pictures", *_caption_lines(folder, glance), *unusable, *more]


def _caption_lines(folder: ConceptSettings, glance: Glance) -> list[str]:
    if glance.trouble:
        return [glance.trouble]
    without = glance.images - glance.captions
    lines = []
    if glance.captions:
        origin = "" if folder.caption_source == "files" else _ORIGINS[folder.caption_source]
        lines.append(f"{glance.captions:,} with a caption{origin}")
    return [*lines, f"{without:,} without one"] if without else lines


def how_often(seen: int, images: int, *, is_most: bool = False) -> str:
    """How often each picture is seen: "each of 3 pictures 333 times".

    is_most: whether so many are seen at most.
    """
    times = seen / images
    if times < 1:
        return f"not all of {images:,} pictures"
    figure = f"{times:,.0f}" if times >= _ROUNDED_FROM else f"{times:.1f}".removesuffix(".0")
    often = "once" if figure == "1" else f"{figure} times"
    often = f"up to {often}" if is_most and figure != "1" else often
    return f"each of {images:,} pictures {often}" if images > 1 else f"the one picture {often}"


def trained_lines(draft: Draft) -> list[str]:
    """What is trained: "LoRA: UNet and text encoder", "1 new word"."""
    method = draft.setting("method.kind")
    if method is None:
        return []
    networks = _trained_networks(draft)
    trained = [network for network, is_on in networks.items() if is_on]
    words = draft.value("embeddings.tokens")
    count = len(words) if isinstance(words, list) else 0
    new_words = f"{count} new word{'s' if count != 1 else ''}"
    title = method.word(draft.value("method.kind"))
    what = f"{title}: {listed(trained) or 'no network'}" if networks else title
    return [what, new_words] if count else [what]


def _trained_networks(draft: Draft) -> dict[str, bool]:
    """The networks that the method can train, in words, and whether it does."""
    has_two = str(draft.value("model.family")).startswith("sdxl")
    found = {}
    for setting in settings_in(draft.kinds):
        section, _, key = setting.path.rpartition(".")
        is_there = has_two or section != "method.text_encoder_2"
        if section.startswith("method.") and key == "train" and is_there:
            found[name_of(section)] = draft.value(setting.path) is True
    return found


def validation_of(draft: Draft, images: int) -> int:
    """How many of so many pictures are held out of learning; 0 where a folder has its own."""
    config = draft.alone("validation")
    if config is None or not config.validation.use or config.validation.folder:
        return 0
    # Loaded late: it reads pictures, which a window that only opens does not need.
    from onetrainer.dataset.dataset import share_count

    return share_count(config.validation, images)


def prompt_lines(draft: Draft) -> list[str]:
    """How many prompts there are to draw, and to watch, where they are written in the settings."""
    config = draft.alone("objective")
    section = config.objective if config is not None else None
    if config is None or not isinstance(section, AlignProp) or section.prompts.source != "list":
        return []
    try:
        split = prompts_of(config)
    except UserError:
        return []  # the words beside the field say why
    trained = len(split.trained)
    watched = f"{len(split.validation):,} watched"
    watched += ", all of them trained as well" if len(split.both) == len(split.validation) else ""
    return [f"{trained:,} prompt{'s' if trained > 1 else ''} to train, {watched}"]


def run_lines(draft: Draft, glance: Glance | None) -> list[str]:
    """How long the run is, what it learns from, and what it leaves behind."""
    value = draft.value
    steps, batch = value("training.steps"), value("training.batch_size")
    accumulation, every = value("training.accumulation"), value("sampling.every")
    if not (isinstance(steps, int) and isinstance(batch, int) and isinstance(accumulation, int)):
        return [*trained_lines(draft), "Put the numbers right to see how long it will be."]
    seen = steps * batch * accumulation
    is_of_rewards = value("objective.kind") == "alignprop"
    is_curated = value("objective.algorithm.kind") == "best_of_n"
    done = (
        ("learnt, the best of those drawn" if is_curated else "drawn and scored")
        if is_of_rewards
        else "seen"
    )
    # The last pictures of a size may be fewer than a step has room for.
    is_most = batch * accumulation > 1 and not is_of_rewards
    count = f"{'up to ' if is_most else ''}{seen:,} pictures {done}"
    lines = [*trained_lines(draft), f"{steps:,} steps", count]
    if is_of_rewards:
        lines += prompt_lines(draft)
    elif glance is not None and glance.images and not _has_more_images(draft):
        validation = validation_of(draft, glance.images)
        lines.append(how_often(seen, max(1, glance.images - validation), is_most=is_most))
        if validation:
            count = f"{validation:,} picture{'s' if validation > 1 else ''}"
            lines.append(f"{count} held out, to validate with")
    prompts = value("sampling.prompts")
    if isinstance(prompts, list) and prompts:
        times = (value("sampling.at_start") is True) + (value("sampling.at_end") is True)
        if isinstance(every, int) and every > 0:
            times += (steps - 1) // every
        lines.append(f"{times * len(prompts):,} sample pictures, {times} of each prompt")
    else:
        lines.append("No sample pictures: there is no prompt")
    saves = value("output.save_every")
    if isinstance(saves, int) and saves > 0:
        lines.append(f"A checkpoint every {saves:,} steps")
    rank, alpha = value("method.rank"), value("method.alpha")
    if isinstance(rank, int) and isinstance(alpha, int | float) and rank > 0:
        lines.append(f"Adapter scale {alpha / rank:g} (alpha / rank)")
    return lines
