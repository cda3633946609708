"""Settings of caption augmentation."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

DropTags = Literal["off", "all", "each", "later"]
Listed = Literal["none", "keep", "drop"]
Capitals = Literal["off", "upper", "title", "first", "random", "any"]

_TAGS = "For captions that are lists of tags, such as “cat, sofa, evening”."


class Captions(Section):
    """Caption processing, reproducible from seed, image and repeat."""

    lines: Annotated[
        Literal["each", "joined"],
        Ui(
            "Caption lines",
            level="advanced",
            search="several captions multi-line file",
            choices={"each": "one caption per line", "joined": "one caption"},
            lead="How captions change from one repeat of an image to the next.",
        ),
    ] = "each"
    """Whether each line of a caption file is a caption of its own, one of which is used each time,
    or all lines together are one."""

    template: Annotated[
        str,
        Field(max_length=1000),
        Ui(
            "Caption template",
            level="advanced",
            search="prefix suffix caption_prefix caption_suffix",
        ),
    ] = ""
    """A text that captions are inserted into, such as "a photo of {caption}, sharp". It may contain
    {caption}, {name} (of the file), {folder} and {concept}; empty means only the caption."""

    wildcards: Annotated[
        bool, Ui("Wildcards", level="advanced", search="enable_wildcard dynamic prompts")
    ] = False
    """Picks one of the options in {red|green|blue} each time; {{ and }} stand for literal
    braces."""

    dropout: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Caption dropout",
            level="advanced",
            search="caption_dropout_rate unconditional empty prompt",
        ),
    ] = 0.0
    """The fraction of captions replaced by the empty prompt, which keeps guidance working. 0.05 to
    0.1 is usual, 0 is off."""

    separator: Annotated[
        str,
        Field(min_length=1, max_length=20),
        Ui(
            "Tag separator",
            level="advanced",
            search="caption_separator delimiter tags split",
            lead=_TAGS,
        ),
    ] = ","
    """The text between two tags."""

    secondary_separator: Annotated[
        str,
        Field(max_length=20),
        Ui("Tag group separator", level="advanced", search="tags stay together"),
    ] = ""
    """The text between tags that are shuffled and dropped together, such as ";;;"; it is replaced
    by the tag separator in the end. Empty means none."""

    shuffle: Annotated[
        bool, Ui("Shuffle tags", level="advanced", search="shuffle_caption tag shuffling")
    ] = False
    """Shuffles the tags each time, so that their order is not trained."""

    keep: Annotated[
        int,
        Field(ge=0, le=1000),
        Ui("Keep first tags", unit="tags", level="advanced", search="keep_tokens kept front"),
    ] = 0
    """This many tags at the start are neither shuffled nor dropped; trigger words never are. 0 or 1
    is usual; more are always trained in their places."""

    keep_separator: Annotated[
        str,
        Field(max_length=20),
        Ui("Keep separator", level="advanced", search="keep_tokens_separator kept"),
    ] = ""
    """A mark in the caption, such as "|||": tags before it, and after a second one, are neither
    shuffled nor dropped. The mark is removed. Empty means none."""

    drop_tags: Annotated[
        DropTags,
        Ui(
            "Tag dropout",
            level="advanced",
            search="tag_dropout_mode caption_tag_dropout_rate drop tags",
            choices={
                "off": "off",
                "all": "all tags together",
                "each": "each tag",
                "later": "later tags more often",
            },
        ),
    ] = "off"
    """Drops tags at random: "all" of them at once, "each" with the same probability, or "later"
    ones more often, up to the full probability for the last one."""

    drop_chance: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Tag dropout probability",
            level="advanced",
            only_with={"drop_tags": ("all", "each", "later")},
            search="chance drop",
        ),
    ] = 0.1
    """The probability that a tag is dropped. 0.1 is usual; more makes the model depend less on
    single tags."""

    drop_listed: Annotated[
        Listed,
        Ui(
            "Listed tags",
            level="advanced",
            search="blacklist whitelist tag_dropout_special_tags",
            choices={
                "none": "no exception",
                "keep": "never dropped",
                "drop": "only these are dropped",
            },
            only_with={"drop_tags": ("all", "each", "later")},
        ),
    ] = "none"
    """What is special about the tags in the list below."""

    listed_tags: Annotated[
        str,
        Field(max_length=100_000),
        Ui(
            "Tag list",
            level="advanced",
            editor="text",
            only_with={"drop_listed": ("keep", "drop")},
            search="tags",
        ),
    ] = ""
    """The special tags, one per line."""

    listed_regex: Annotated[
        bool,
        Ui(
            "Tag list is regex",
            level="advanced",
            search="regex tag_dropout_special_tags_regex holds patterns",
            only_with={"drop_listed": ("keep", "drop")},
        ),
    ] = False
    """Reads each line of the list as a regular expression that must match a whole tag."""

    capitals: Annotated[
        Capitals,
        Ui(
            "Capitalization",
            level="advanced",
            search="caps_randomize capitals",
            choices={
                "off": "off",
                "upper": "ALL CAPS",
                "title": "Every Word",
                "first": "First letter",
                "random": "random letters",
                "any": "any of these",
            },
            lead="Upper and lower case.",
        ),
    ] = "off"
    """Capitalizes tags at random. SD's text encoders ignore case, so this only matters for other
    programs."""

    capitals_chance: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Capitalization probability",
            level="advanced",
            only_with={"capitals": ("upper", "title", "first", "random", "any")},
            search="chance capitals",
        ),
    ] = 0.1
    """The probability that a tag is capitalized. 0.1 is usual; more changes more tags."""

    lowercase: Annotated[bool, Ui("Lowercase", level="advanced", search="small letters")] = False
    """Converts captions to lowercase, before any capitalization."""
