"""What a finished file says about itself."""

from typing import Annotated

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

Line = Annotated[str, Field(max_length=1000)]


class Metadata(Section):
    """Texts and facts written into the finished file, for programs and people who open it. Never
    includes folders, image names or user names.
    """

    title: Annotated[Line, Ui("Title", search="metadata modelspec name")] = ""
    """The name that programs list the file under; empty means its file name."""

    trigger_words: Annotated[
        Line, Ui("Trigger words to show", level="advanced", search="activation phrase prompt")
    ] = ""
    """The words that call up the trained subject in a prompt, separated by commas. Empty, as usual,
    means those in front of the captions ("Trigger words" of the images)."""

    author: Annotated[Line, Ui("Author", search="creator credit")] = ""
    """Who made it, as it should be displayed. Nothing is filled in automatically."""

    description: Annotated[
        str, Field(max_length=20_000), Ui("Description", editor="text", search="about")
    ] = ""
    """What the file is for, in as many words as you like; some programs show it as Markdown."""

    tags: Annotated[Line, Ui("Tags", level="advanced", search="category label")] = ""
    """Categories for finding it, such as "style" or "character", separated by commas."""

    usage_hint: Annotated[Line, Ui("Usage hint", level="advanced", search="strength weight")] = ""
    """A short hint for using it, such as the strength that works best."""

    license: Annotated[Line, Ui("License", level="advanced", search="terms rights")] = ""
    """The name of a license, a link to one, or its text."""

    include_config: Annotated[
        bool,
        Ui(
            "Include the settings",
            level="advanced",
            search="metadata privacy reproduce config",
            lead="What else is written into the file. Everyone who has the file can read it.",
        ),
    ] = True
    """Writes the run's settings and seed into the file, so that training can be repeated and
    programs can show rates and steps. Folders and files are left out; a model's name on the Hub
    stays."""

    include_dataset: Annotated[
        bool, Ui("Include tag counts", level="advanced", search="metadata captions frequency")
    ] = True
    """Writes how often each tag occurs in the captions, how many images there are of each size, and
    a digest by which the same images are recognized. No images and no file names."""

    include_thumbnail: Annotated[
        bool, Ui("Include a thumbnail", level="advanced", search="metadata preview cover")
    ] = True
    """Adds a small copy of the first sample of the last step, if samples are generated then."""

    include_date: Annotated[bool, Ui("Include the date", level="advanced", search="time day")] = (
        False
    )
    """Writes the day on which the file was made. Without it, the same settings and images give the
    same file, byte for byte."""
