"""Settings of embeddings (textual inversion): new tokens whose vectors are trained."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.components import Rate, StopAfter
from onetrainer.config.base.section import Section, Ui
from onetrainer.config.methods.adapters import WITH_ADAPTERS


class EmbeddingOnly(Section):
    """Trains only the vectors of new tokens (textual inversion): the smallest file.

    Source: Gal et al. 2022.
    """

    title: ClassVar[str] = "Embedding"
    noun: ClassVar[str] = "embeddings only"
    kind: Literal["embedding"] = "embedding"


class EmbeddingToken(Section):
    """One token whose vectors are trained."""

    token: Annotated[
        str,
        Field(min_length=1, max_length=100),
        Ui("Placeholder token", search="placeholder token trigger word"),
    ] = "<my-word>"
    """The placeholder that stands for the embedding in captions and prompts; the captions of your
    images must contain it. Case is ignored."""

    train: Annotated[bool, Ui("Train", level="advanced", search="freeze")] = True
    """Off freezes this embedding and writes no file of it, so that captions can use what was
    trained before."""

    initial_text: Annotated[
        str,
        Field(max_length=1000),
        Ui("Initial text", search="initial text init token class begins"),
    ] = ""
    """Text whose vectors it starts from, such as "a red cat"; if more vectors are needed, they
    repeat from the first. Empty starts from random vectors of a token's usual length."""

    vectors: Annotated[
        int,
        Field(ge=0, le=75),
        Ui("Vectors", zero="automatic", search="token count num_vectors_per_token"),
    ] = 0
    """How many vectors it has, each of which takes one of a prompt's 75 positions. 0 means as many
    as the initial text has tokens, or one. More can store more detail and is harder to combine with
    other prompts. 1 to 8 is usual."""

    place: Annotated[
        Literal["input", "output"],
        Ui(
            "Embedding type",
            level="advanced",
            search="output embedding input kind replaces",
            choices={"input": "input embedding", "output": "output embedding"},
        ),
    ] = "input"
    """Whether the vectors replace what the text encoder reads ("input", which every program
    supports) or what it returns ("output", which trains faster and few programs support)."""

    start_from: Annotated[
        str, Ui("Continue from", level="advanced", editor="file", search="file init")
    ] = ""
    """An embedding file to continue from, trained on the same family; it replaces the initial text
    and the number of vectors. Empty starts from scratch."""

    lr: Annotated[Rate | None, Ui("Learning rate", level="advanced")] = None
    """The learning rate of this embedding; empty means that of all embeddings. Empty is usual.
    Higher trains faster and spoils images sooner; lower is safer and takes more steps."""

    stop_after: Annotated[
        StopAfter,
        Ui("Stop after", unit="steps", zero="as long as all", level="advanced", search="freeze"),
    ] = 0
    """Freezes this embedding after so many steps, or "2 epochs"; 0 means as long as all embeddings
    train. 0 is usual; less holds on less to single images."""


class Embeddings(Section):
    """New tokens, trained alone or together with the method."""

    tokens: Annotated[
        tuple[EmbeddingToken, ...],
        Field(max_length=32),
        Ui("Tokens", search="embedding textual inversion words"),
    ] = ()
    """The tokens whose vectors are trained; none means no embeddings."""

    lr: Annotated[
        Rate | None,
        Ui("Embedding learning rate", level="advanced", search="lr embedding textual inversion"),
    ] = None
    """The embeddings' learning rate; empty means the optimizer's. 1e-3 to 5e-3 is usual. Higher
    trains faster and spoils images sooner; lower is safer and takes more steps."""

    preserve_norm: Annotated[
        bool, Ui("Preserve norm", level="advanced", search="embedding norm length scale")
    ] = True
    """Keeps the vectors as long as those of known tokens, or for output embeddings as long as at
    the start, so that they do not dominate a prompt."""

    stop_after: Annotated[
        StopAfter,
        Ui(
            "Stop embeddings after",
            unit="steps",
            zero="never",
            level="advanced",
            search="freeze",
        ),
    ] = 0
    """Freezes the embeddings after so many steps, or "2 epochs"; 0 trains them to the end. 0 is
    usual; less holds on less to single images."""

    bundle: Annotated[
        bool,
        Ui(
            "Bundle into the LoRA file",
            level="advanced",
            search="bundle embeddings put",
            only_with=WITH_ADAPTERS,
        ),
    ] = False
    """Also writes the vectors into the LoRA file, where A1111, Forge and ComfyUI add-ons find them;
    each also gets a file of its own."""
