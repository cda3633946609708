"""Embeddings (textual inversion): made-up words whose vectors are learned."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.components import Rate, StopAfter
from onetrainer.config.base.section import Section, Ui


class EmbeddingOnly(Section):
    """Textual inversion: nothing but the vectors of new words is learned (Gal et al. 2022)."""

    title: ClassVar[str] = "Embedding"
    kind: Literal["embedding"] = "embedding"


class Word(Section):
    """One word whose vectors are learned."""

    token: Annotated[
        str, Field(min_length=1, max_length=100), Ui("Word", search="placeholder token trigger")
    ] = "<my-word>"
    """What stands for it in captions and prompts; the captions of your pictures must hold it. Upper
    and lower case count as the same."""

    train: Annotated[bool, Ui("Train it", level="advanced", search="freeze")] = True
    """Off keeps the word as it is and writes no file of it: captions can use what was learned
    before."""

    initial_text: Annotated[
        str, Field(max_length=1000), Ui("Begins as", search="initial text init token class")
    ] = ""
    """Text whose vectors it begins with, such as "a red cat"; where it needs more vectors than
    that has, they begin anew from the first. Empty begins with random ones as long as a word's."""

    vectors: Annotated[
        int,
        Field(ge=0, le=75),
        Ui("Vectors", zero="automatic", search="token count num_vectors_per_token"),
    ] = 0
    """How many vectors it has, each of which takes one of a prompt's 75 places. 0 means as many as
    the text that it begins as has tokens, or one."""

    place: Annotated[
        Literal["input", "output"],
        Ui(
            "Replaces",
            level="advanced",
            search="output embedding input kind",
            choices={"input": "what the encoder reads", "output": "what the encoder says"},
        ),
    ] = "input"
    """Whether the vectors stand for a word that the text encoder reads ("input", which every
    program knows), or for what it makes of the word ("output", which learns faster and which few
    programs can use)."""

    start_from: Annotated[
        str, Ui("Continue from", level="advanced", editor="file", search="file init")
    ] = ""
    """An embedding file to go on from, trained on the same family; its vectors count then, and
    neither text nor number above. Empty starts anew."""

    lr: Annotated[Rate | None, Ui("Learning rate", level="advanced")] = None
    """The step size of this word; empty means that of all embeddings."""

    stop_after: Annotated[
        StopAfter,
        Ui("Stop after", unit="steps", zero="as long as all", level="advanced", search="freeze"),
    ] = 0
    """From this step on the word stays as it is; 0 means as long as all embeddings train."""


class Embeddings(Section):
    """New words, learned alone or beside whatever else is trained."""

    tokens: Annotated[
        tuple[Word, ...], Field(max_length=32), Ui("Words", search="embedding textual inversion")
    ] = ()
    """The words whose vectors are learned; none means no embeddings."""

    lr: Annotated[
        Rate | None,
        Ui("Embedding learning rate", level="advanced", search="lr embedding textual inversion"),
    ] = None
    """The embeddings' step size; empty means the optimizer's learning rate."""

    preserve_norm: Annotated[
        bool, Ui("Preserve norm", level="advanced", search="embedding norm length scale")
    ] = True
    """Keeps the vectors as long as those of known words, or as long as they began for the encoder's
    output, so that they do not drown the rest of a prompt."""

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
    """From this step on the vectors stay as they are; 0 means that they train to the end."""

    bundle: Annotated[
        bool,
        Ui(
            "Put into the LoRA file",
            level="advanced",
            search="bundle embeddings",
            only_with={"method.kind": ("lora", "dora", "loha", "lokr", "oft")},
        ),
    ] = False
    """Also puts the vectors into the LoRA file, where A1111, Forge and ComfyUI add-ons find them;
    each always gets a file of its own."""
