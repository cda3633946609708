"""What training will do with the pictures: the sizes they are brought to, and how each is shown.

No Tk. Everything here may be called in a thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from ui.background.background_query import GivenUpError, Watch

if TYPE_CHECKING:
    from onetrainer.concepts.concepts import ConceptSettings
    from onetrainer.dataset.buckets import Bucket
    from onetrainer.dataset.items import Item
    from onetrainer.dataset.transforms import View
    from onetrainer.preview.dataset_preview import DataPlan

COUNTS = ("data", "model", "validation", "training", "objective", "method", "output.folder")
"""What the answer depends on."""

TURNS = 8
"""How many showings of a picture are looked ahead."""

_NOTABLE_CUT = 0.1
_NEARLY = 1.02
_ASKED_EVERY = 1000


class Showing(NamedTuple):
    """A picture in one of its views. item: its place in the data set."""

    item: int
    number: int


class Turn(NamedTuple):
    """One showing of a picture. turn: how often it was shown before."""

    turn: int
    number: int
    caption: str


@dataclass(frozen=True)
class Size:
    """A size that pictures are brought to, and which. steps: how many an epoch has at it."""

    bucket: "Bucket"
    showings: tuple[Showing, ...]
    shown: int
    steps: int


@dataclass(frozen=True)
class Outlook:
    """What will happen."""

    plan: "DataPlan"
    sizes: tuple[Size, ...]
    is_cached: bool

    def item(self, showing: Showing) -> "Item":
        """The picture of a showing."""
        return self.plan.dataset.items[showing.item]

    def concept(self, showing: Showing) -> "ConceptSettings":
        """What counts for it."""
        return self.plan.dataset.concept_of(self.item(showing))

    def view(self, showing: Showing) -> "View":
        """What is done to it."""
        from onetrainer.dataset.transforms import view

        return view(self.item(showing), self.concept(showing), showing.number)

    @property
    def has_captions(self) -> bool:
        """Whether captions play any part."""
        return bool(self.plan.captions)

    def turns(self, showing: Showing) -> tuple[Turn, ...]:
        """The first times that a picture is shown; one alone where all are the same."""
        from onetrainer.dataset.caption_sampling import drawn_caption
        from onetrainer.dataset.transforms import view_number

        item, concept = self.item(showing), self.concept(showing)
        found = []
        for turn in range(TURNS):
            caption = drawn_caption(item, concept, turn) if self.has_captions else ""
            number = view_number(item, concept, turn, is_cached=self.is_cached)
            found.append(Turn(turn, number, caption))
        return tuple(found if len({each[1:] for each in found}) > 1 else found[:1])


def look_ahead(config: TrainConfig, watch: Watch) -> Outlook:
    """What a run with a config will do with its pictures. Reads headers alone.

    Raises UserError where there is nothing to learn, or a folder cannot be read, and GivenUpError
    if nobody waits any more.
    """
    # Loaded late: a window that only opens needs nothing of it.
    from onetrainer.cache.run_entries import memory_of
    from onetrainer.config.train import uses_images
    from onetrainer.dataset.batch_plan import sizes_of
    from onetrainer.dataset.near_duplicates import LookingStopped
    from onetrainer.preview.dataset_preview import plan_data

    try:
        with memory_of(config) as memory:
            plan = plan_data(config, headers=memory, looks=memory, should_stop=watch.is_given_up)
    except LookingStopped as error:
        raise GivenUpError from error
    if plan is None:
        if not uses_images(config):
            raise UserError("this run learns from rewards alone: it cuts and caches no pictures")
        raise UserError("no folder of pictures is chosen yet")
    by_size: dict[Bucket, list[Showing]] = {}
    for place, item in enumerate(plan.dataset.items):
        if place % _ASKED_EVERY == 0:
            watch.require_wanted()
        sizes = sizes_of(item, plan.dataset.concept_of(item))
        for bucket in dict.fromkeys(sizes):
            by_size.setdefault(bucket, []).append(Showing(place, sizes.index(bucket)))
    found = (
        Size(one.bucket, tuple(by_size.get(one.bucket, ())), one.shown, one.steps)
        for one in plan.buckets
    )
    return Outlook(plan, tuple(found), config.data.cache_latents)


def size_words(bucket: "Bucket") -> str:
    """A size: "512 × 768"."""
    return f"{bucket.width} × {bucket.height}"


def counted(count: int, noun: str) -> str:
    """So many of something: "1 picture", "2,000 steps"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def share_words(size: Size) -> str:
    """How much of training a size is."""
    words = counted(len(size.showings), "picture")
    often = f", {size.shown:,} shown" if size.shown != len(size.showings) else ""
    return f"{words}{often} in {counted(size.steps, 'step')} of an epoch"


def turn_words(turn: Turn, turns: Sequence[Turn]) -> str:
    """When a showing comes: "Every time", "1st time"."""
    if len(turns) == 1:
        return "Every time"
    number = turn.turn + 1
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number, 'th') } time"


def caption_words(caption: str) -> str:
    """A caption on one line."""
    return " ".join(caption.split()) or "(the empty prompt)"


def done_words(item: "Item", view: "View") -> tuple[str, bool]:
    """What is done to a picture, and whether that is much."""
    from onetrainer.dataset.transforms import cut_share, enlarged

    factor, share = enlarged(item, view), cut_share(item, view)
    parts = [f"{item.width} × {item.height}"]
    if factor > _NEARLY:
        parts.append(f"enlarged {factor:.2g} times")
    elif factor < 1 / _NEARLY:
        parts.append(f"made {factor:.0%} as wide" if factor >= 0.01 else "made much smaller")
    if share >= 0.005:
        parts.append(f"{share:.0%} cut off")
    parts += [*["mirrored"] * view.flip, *["upside down"] * view.flip_vertical]
    parts += [f"turned by {view.angle:.1f}°"] if view.angle else []
    parts += ["recolored"] if view.is_recolored else []
    return "  ·  ".join(parts), factor > _NEARLY or share >= _NOTABLE_CUT
