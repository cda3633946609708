"""What a finished file tells about itself."""

from typing import Annotated

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

Line = Annotated[str, Field(max_length=1000)]


class Metadata(Section):
    """Words and facts put into the finished file, for programs and people who open it. Folders,
    the names of pictures and who is logged in are never among them.
    """

    title: Annotated[Line, Ui("Title", search="metadata modelspec name")] = ""
    """What programs call the file in their lists; empty means its name."""

    trigger_words: Annotated[Line, Ui("Trigger words", search="activation phrase prompt")] = ""
    """The words that call up in a prompt what was learned, separated by commas."""

    author: Annotated[Line, Ui("Author", search="creator credit")] = ""
    """Who made it, as it is to be shown. Nothing is filled in by itself."""

    description: Annotated[
        str, Field(max_length=20_000), Ui("Description", editor="text", search="about")
    ] = ""
    """What the file is for, in as many words as you like; programs may show it as Markdown."""

    tags: Annotated[Line, Ui("Tags", level="advanced", search="category label")] = ""
    """Categories to find it by, such as "style" or "character", separated by commas."""

    usage_hint: Annotated[Line, Ui("Usage hint", level="advanced", search="strength weight")] = ""
    """What to know when using it, in a few words, such as the strength that works best."""

    license: Annotated[Line, Ui("License", level="advanced", search="terms rights")] = ""
    """The name of a license, a link to one, or the terms themselves."""

    include_config: Annotated[
        bool,
        Ui(
            "Include the settings",
            level="advanced",
            search="metadata privacy reproduce config",
            lead="What else goes into the file. Whoever has the file can read it.",
        ),
    ] = True
    """Puts every setting of the run into the file, the seed among them, so that it can be repeated,
    and programs can show rates and steps. Folders and files are left out; a model's name on the hub
    stays."""

    include_dataset: Annotated[
        bool, Ui("Include tag counts", level="advanced", search="metadata captions frequency")
    ] = True
    """Puts in how often each tag stands in the captions, how many pictures of each size there
    are, and a digest by which the same pictures are recognized. No pictures and no file names."""

    include_thumbnail: Annotated[
        bool, Ui("Include a thumbnail", level="advanced", search="metadata preview cover")
    ] = True
    """Puts in a small copy of the first sample of the last step, if samples are drawn there."""

    include_date: Annotated[bool, Ui("Include the date", level="advanced", search="time day")] = (
        False
    )
    """Puts in the day on which the file was made. Without it, the same settings and pictures give
    the same file, byte for byte."""
