"""Which rule of a table of name patterns holds for a layer."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

from modules.formats.lora.lora_names import DIFFUSERS_COMPONENTS, LoraComponent
from modules.formats.models.component_shapes import canonical_name
from onetrainer.config.base.components import LayerRule
from onetrainer.errors import UserError

Rule = TypeVar("Rule", bound=LayerRule)

NEAR = 3  # names that a message lists


def layer_name(component: LoraComponent, path: str) -> str:
    """What patterns call a layer: "unet.mid_block…", "text_encoder.text_model.encoder.layers.0…".

    path: the module's, with or without the `text_model.` level.
    """
    diffusers_name = DIFFUSERS_COMPONENTS[component]
    tensor = canonical_name(diffusers_name, f"{path}.weight")  # knows what lies beside that level
    return f"{diffusers_name}.{tensor.removesuffix('.weight')}"


def rule_for(name: str, rules: Sequence[Rule]) -> Rule | None:
    """The first rule whose pattern is found in a layer's name; None if there is none."""
    return next((rule for rule in rules if re.search(rule.pattern, name)), None)


def require_all_used(rules: Sequence[LayerRule], names: Iterable[str]) -> None:
    """Raises UserError for a rule that no layer goes by: its pattern is none, is found in none of
    the names, or only in names that earlier rules take.

    names: of every layer that could be trained, in the model's order.
    """
    known = list(names)
    left = set(known)  # what no earlier rule takes
    for place, rule in enumerate(rules):
        where = f'method.layers.{place}.pattern: "{rule.pattern}"'
        try:
            matched = {name for name in known if re.search(rule.pattern, name)}
        except re.error as error:
            raise UserError(
                f"{where} is no regular expression ({error})",
                "A part of the layers' names was expected",
                "Put a backslash before characters that mean something else: . * + ? ( ) [ ]",
            ) from error
        if not matched:
            near = similar_names(rule.pattern, known)
            raise UserError(
                f"{where} matches none of the {len(known)} layers that can be trained here",
                "Names are like " + ", ".join(near) if near else "",
                "Correct it, or remove it; layers of networks that are not trained do not count",
            )
        if not matched & left:
            raise UserError(
                f"{where} never counts: all {len(matched)} layers that it matches are matched by"
                " patterns before it",
                "The first pattern that matches a layer counts, so that narrower ones come first",
                "Move it up, or remove it",
            )
        left -= matched


def format_names(names: Sequence[str]) -> str:
    """The first of some names, for a message."""
    return ", ".join(names[:NEAR]) + (" …" if len(names) > NEAR else "")


def similar_names(pattern: str, names: Sequence[str]) -> list[str]:
    """The names that a pattern was perhaps meant for: those with the most similar piece.

    Pieces are as many levels of a name as the pattern has.
    """
    levels = len(_levels(pattern))
    pieces: dict[str, str] = {}  # the first name that has each piece
    for name in names:
        components = name.split(".")
        for start in range(len(components) - levels + 1):
            pieces.setdefault(".".join(components[start : start + levels]), name)
    wanted = ".".join(_levels(pattern))
    alike = difflib.get_close_matches(wanted, pieces, n=NEAR, cutoff=0.5)
    found = [pieces[piece] for piece in alike] or list(names[:NEAR])
    return [*dict.fromkeys(found)]


def _levels(pattern: str) -> list[str]:
    """A pattern's levels as a name would have them, without what only expressions need."""
    return [level for level in re.sub(r"[\\^$*+?()\[\]]", "", pattern).split(".") if level] or [""]
