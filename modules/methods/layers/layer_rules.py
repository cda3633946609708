"""Matching of layers with rules by patterns of their names."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

from modules.formats.lora.lora_names import LoraComponent
from modules.formats.models.component_shapes import canonical_name
from onetrainer.config.base.components import LayerRule
from onetrainer.errors import UserError
from onetrainer.families.registry import component_of

Rule = TypeVar("Rule", bound=LayerRule)

MAX_NAMES = 3  # that a message lists


def layer_name(component: LoraComponent, path: str) -> str:
    """Return a layer's name for patterns: "unet.mid_block…", "text_encoder.text_model.encoder…".

    path: The module's, with or without the `text_model.` level.
    """
    network = component_of(component)
    tensor = canonical_name(network, f"{path}.weight")  # adds that level
    return f"{network.folder}.{tensor.removesuffix('.weight')}"


def rule_for(name: str, rules: Sequence[Rule]) -> Rule | None:
    """Return the first rule whose pattern matches a layer's name; None if none does."""
    return next((rule for rule in rules if re.search(rule.pattern, name)), None)


def require_all_used(rules: Sequence[LayerRule], names: Iterable[str]) -> None:
    """Raise UserError for a rule that applies to no layer.

    Its pattern is invalid, matches none of the names, or only names that earlier rules match.

    names: Of every trainable layer, in the model's order.
    """
    known = list(names)
    remaining = set(known)  # not matched by earlier rules
    for place, rule in enumerate(rules):
        where = f'method.layers.{place}.pattern: "{rule.pattern}"'
        matched = matched_names(
            where,
            rule.pattern,
            known,
            what="trainable layers",
            unmatched="layers of components that are not trained do not count",
        )
        if not matched & remaining:
            raise UserError(
                f"{where} has no effect: earlier patterns match all {len(matched)} layers that it"
                " matches",
                "The first matching pattern applies, so narrower ones must come first",
                "Move it up, or remove it",
            )
        remaining -= matched


def matched_names(
    where: str, pattern: str, names: Sequence[str], *, what: str, unmatched: str
) -> set[str]:
    """Return the names that a pattern matches; raise UserError if it is invalid or matches none.

    where, what, unmatched: The setting, what the names are of, and which of them are left out, for
    the message.
    """
    try:
        matched = {name for name in names if re.search(pattern, name)}
    except re.error as error:
        raise UserError(
            f"{where} is not a regular expression ({error})",
            "Expected a part of the layers' names",
            "Put a backslash before special characters: . * + ? ( ) [ ]",
        ) from error
    if matched:
        return matched
    similar = similar_names(pattern, names)
    raise UserError(
        f"{where} matches none of the {len(names)} {what}",
        "Expected names such as " + ", ".join(similar) if similar else "",
        f"Correct it, or remove it; {unmatched}",
    )


def format_names(names: Sequence[str]) -> str:
    """Format the first few names for a message."""
    return ", ".join(names[:MAX_NAMES]) + (" …" if len(names) > MAX_NAMES else "")


def similar_names(pattern: str, names: Sequence[str]) -> list[str]:
    """Return the names that a pattern was perhaps meant for, by the similarity of their parts.

    Parts are as many levels of a name as the pattern has.
    """
    levels = len(_levels(pattern))
    pieces: dict[str, str] = {}  # the first name that has each piece
    for name in names:
        components = name.split(".")
        for start in range(len(components) - levels + 1):
            pieces.setdefault(".".join(components[start : start + levels]), name)
    wanted = ".".join(_levels(pattern))
    matches = difflib.get_close_matches(wanted, pieces, n=MAX_NAMES, cutoff=0.5)
    names_found = [pieces[piece] for piece in matches] or list(names[:MAX_NAMES])
    return [*dict.fromkeys(names_found)]


def _levels(pattern: str) -> list[str]:
    """Return a pattern's levels as in a name, without regular-expression syntax."""
    return [level for level in re.sub(r"[\\^$*+?()\[\]]", "", pattern).split(".") if level] or [""]
