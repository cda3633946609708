"""How captions change from one showing of a picture to the next."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

DropTags = Literal["off", "all", "each", "later"]
Listed = Literal["none", "keep", "drop"]
Capitals = Literal["off", "upper", "title", "first", "random", "any"]

_TAGS = "Captions that are lists of tags, such as “cat, sofa, evening”."


class Captions(Section):
    """How captions change; all of it is drawn from the seed, the picture and its turn."""

    lines: Annotated[
        Literal["each", "joined"],
        Ui(
            "Lines of a caption file",
            level="advanced",
            search="several captions multi-line",
            choices={"each": "each is a caption", "joined": "all are one caption"},
            lead="How they change from one showing of a picture to the next.",
        ),
    ] = "each"
    """Whether every line of a caption file is a caption of its own, of which another one is taken
    every time, or all lines together are one."""

    template: Annotated[
        str,
        Field(max_length=1000),
        Ui("Template", level="advanced", search="prefix suffix caption_prefix caption_suffix"),
    ] = ""
    """What captions are put into, such as "a photo of {caption}, sharp". It knows {caption}, {name}
    of the file, {folder} and {concept}; empty means the caption alone."""

    wildcards: Annotated[
        bool, Ui("Wildcards", level="advanced", search="enable_wildcard dynamic prompts")
    ] = False
    """Takes one of the words in {red|green|blue} every time; {{ and }} mean the braces
    themselves."""

    dropout: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Caption dropout",
            level="advanced",
            search="caption_dropout_rate unconditional empty prompt",
        ),
    ] = 0.0
    """The share of captions replaced by the empty prompt, which keeps guidance working."""

    separator: Annotated[
        str,
        Field(min_length=1, max_length=20),
        Ui("Tags are split at", level="advanced", search="caption_separator delimiter", lead=_TAGS),
    ] = ","
    """What stands between two tags."""

    secondary_separator: Annotated[
        str, Field(max_length=20), Ui("Tags that stay together", level="advanced")
    ] = ""
    """What stands between tags that move and are dropped together, such as ";;;"; it is written as
    the other separator in the end. Empty means there are none."""

    shuffle: Annotated[
        bool, Ui("Shuffle tags", level="advanced", search="shuffle_caption tag shuffling")
    ] = False
    """Puts the tags into another order every time."""

    keep: Annotated[
        int,
        Field(ge=0, le=1000),
        Ui("Tags kept in front", unit="tags", level="advanced", search="keep_tokens"),
    ] = 0
    """So many tags at the beginning are neither shuffled nor dropped; trigger words never are."""

    keep_separator: Annotated[
        str,
        Field(max_length=20),
        Ui("Kept up to", level="advanced", search="keep_tokens_separator"),
    ] = ""
    """A mark in the caption, such as "|||": what stands before it is neither shuffled nor dropped,
    nor what stands after a second one. It is taken out. Empty means none."""

    drop_tags: Annotated[
        DropTags,
        Ui(
            "Drop tags",
            level="advanced",
            search="tag_dropout_mode caption_tag_dropout_rate",
            choices={
                "off": "never",
                "all": "all together",
                "each": "each on its own",
                "later": "later ones more often",
            },
        ),
    ] = "off"
    """Leaves tags out: "all" of them at once, "each" with the same chance, or the "later" the more
    often, up to the chance for the last one."""

    drop_chance: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Chance to drop",
            level="advanced",
            only_with={"drop_tags": ("all", "each", "later")},
        ),
    ] = 0.1
    """How likely tags are left out."""

    drop_listed: Annotated[
        Listed,
        Ui(
            "Listed tags",
            level="advanced",
            search="blacklist whitelist tag_dropout_special_tags",
            choices={
                "none": "like all others",
                "keep": "are never dropped",
                "drop": "only they are dropped",
            },
            only_with={"drop_tags": ("all", "each", "later")},
        ),
    ] = "none"
    """What is special about the tags of the list below."""

    listed_tags: Annotated[
        str,
        Field(max_length=100_000),
        Ui(
            "List of tags",
            level="advanced",
            editor="text",
            only_with={"drop_listed": ("keep", "drop")},
        ),
    ] = ""
    """The special tags, one a line."""

    listed_regex: Annotated[
        bool,
        Ui(
            "The list holds patterns",
            level="advanced",
            search="regex tag_dropout_special_tags_regex",
            only_with={"drop_listed": ("keep", "drop")},
        ),
    ] = False
    """Takes each line of the list for a regular expression that a whole tag has to match."""

    capitals: Annotated[
        Capitals,
        Ui(
            "Capitals",
            level="advanced",
            search="caps_randomize",
            choices={
                "off": "as written",
                "upper": "all",
                "title": "at every word's start",
                "first": "at each tag's start",
                "random": "here and there",
                "any": "any of these",
            },
            lead="Letters.",
        ),
    ] = "off"
    """Writes tags in capitals now and then. SD's text encoders see no difference, so this matters
    to others alone."""

    capitals_chance: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Chance of capitals",
            level="advanced",
            only_with={"capitals": ("upper", "title", "first", "random", "any")},
        ),
    ] = 0.1
    """How likely each tag is written so."""

    lowercase: Annotated[bool, Ui("All in small letters", level="advanced")] = False
    """Writes captions in small letters, before anything is written in capitals."""
