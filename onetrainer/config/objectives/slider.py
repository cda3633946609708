"""Settings of concept sliders: prompts in place of images."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.amount import InSteps, Steps
from onetrainer.config.base.section import Section, Ui
from onetrainer.config.run.sampling import Side

Text = Annotated[str, Field(max_length=1000)]


class Direction(Section):
    """A direction from one prompt to another, and what is moved along it."""

    target: Annotated[Text, Ui("Target", search="concept leco")] = ""
    """What the slider changes, such as "person"; empty means every image."""

    positive: Annotated[Text, Ui("Positive", search="attribute enhance leco")] = ""
    """What there is more of at the positive end, such as "person, very old"."""

    negative: Annotated[Text, Ui("Negative", search="unconditional opposite leco")] = ""
    """What there is more of at the negative end, such as "person, very young"; empty means no
    prompt."""

    neutral: Annotated[Text, Ui("Neutral", level="advanced", search="neutral leco")] = ""
    """The prompt whose prediction is moved along the direction; empty means the target, which
    changes nothing else."""

    action: Annotated[
        Literal["enhance", "erase"],
        Ui(
            "Action",
            level="advanced",
            search="erase remove concept esd leco",
            choices={"enhance": "enhance the positive", "erase": "erase the positive"},
        ),
    ] = "enhance"
    """Whether a positive strength adds the positive prompt or takes it away. Erasing swaps the
    ends."""

    @property
    def start(self) -> str:
        """The prompt whose prediction is moved."""
        return self.neutral or self.target

    @property
    def label(self) -> str:
        """All of its prompts on one line, by which it is told from others."""
        ends = f'"{self.positive}" over "{self.negative}"'
        return f'{self.action} {ends} in "{self.target}" from "{self.start}"'


class Slider(Section):
    """Trains an adapter that moves what is generated along a direction between prompts.

    It needs no images. Source: Gandikota et al. 2023, arXiv:2311.12092.
    """

    title: ClassVar[str] = "concept slider (LECO)"
    kind: Literal["slider"] = "slider"

    directions: Annotated[
        tuple[Direction, ...],
        Field(max_length=64),
        Ui("Directions", search="slider leco prompts pairs erase enhance"),
    ] = ()
    """What the slider changes. One is usual; more of them in turn keep other properties as they
    are, such as "male person" and "female person" for age."""

    guidance: Annotated[
        float, Field(gt=0, le=100), Ui("Effect", search="guidance_scale eta leco")
    ] = 4.0
    """How far predictions are moved at full strength, as a multiple of the difference between the
    two prompts' predictions. 4 is usual for sliders, 1 to 2 for erasing; more is stronger and
    breaks images sooner."""

    strength: Annotated[
        float, Field(gt=0, le=10), Ui("Full strength", level="advanced", search="multiplier leco")
    ] = 1.0
    """The adapter's strength at which the effect is reached. 1 is usual; at 2 the slider has half
    of it at strength 1. More makes the slider weaker at strength 1."""

    both_ways: Annotated[bool, Ui("Train both ends", search="bidirectional negative")] = True
    """Trains every other step at the negative strength toward the opposite. Off trains the
    positive end alone, which is usual for erasing."""

    steps: Annotated[
        int,
        Field(ge=2, le=200),
        Ui("Denoising steps", unit="steps", level="advanced", search="max_denoising_steps leco"),
    ] = 20
    """Each image is denoised by a random number of steps below this one before it is trained. 20 is
    usual; 50 is finer and takes more than twice the time."""

    denoising_guidance: Annotated[
        float, Field(ge=0, le=50), Ui("Denoising guidance", level="advanced", search="cfg scale")
    ] = 3.0
    """How strongly these images follow the target (CFG scale). 3 is usual; 1 is without guidance,
    in half the time. More follows more closely."""

    width: Annotated[Side, Ui("Width", unit="px", search="resolution")] = 512
    """The width of the images, a multiple of 8. The model's own size is usual, 512 or 1024; more
    shows more and takes more time and memory."""

    height: Annotated[Side, Ui("Height", unit="px", search="resolution")] = 512
    """The height of the images, a multiple of 8. The model's own size is usual, 512 or 1024; more
    shows more and takes more time and memory."""

    check_every: Annotated[
        Steps,
        InSteps(1, 1_000_000, repeats=True),
        Ui("Check every", unit="steps", level="advanced", search="evaluate validation"),
    ] = 100
    """Measures every so many steps, or every "1 epoch" of the directions, and after the last, how
    far the slider moves predictions toward either end, from the same noise every time. More often
    takes more time. 100 steps are usual."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of different directions."""
        return tuple(dict.fromkeys(direction.label for direction in self.directions))

    @property
    def signs(self) -> tuple[int, ...]:
        """The ends that are trained in turn."""
        return (1, -1) if self.both_ways else (1,)
