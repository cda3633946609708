"""Sample prompts from the first captions."""

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onetrainer.errors import UserError
from ui.context import Context

if TYPE_CHECKING:
    from onetrainer.concepts.concepts import ConceptSettings

PROMPTS = "sampling.prompts"
LABEL = "Use the first captions"


class PromptProposal:
    """Fills the sample prompts with captions of the images, which then show what was trained."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def propose(self) -> None:
        """Read the captions of the first folder, and use some of them."""
        # Imported late to keep the start of the window fast.
        from onetrainer.concepts.concepts import concepts_of

        act, config = self._context.act, self._context.draft.section_alone("data")
        if config is None:
            act.show_message("A setting of Data is wrong. Correct it first (F8 goes there).")
            return
        concept = next((each for each in concepts_of(config) if each.role == "train"), None)
        if concept is None:
            act.show_message("There are no images yet. Choose their folder in Data.")
            return
        side = config.data.resolution
        self._context.widgets.jobs.run(lambda: _proposed(concept, side), self._fill)

    def _fill(self, prompts: list[Any]) -> None:
        draft, act = self._context.draft, self._context.act
        if not prompts:
            act.show_message("The images have no captions yet. Write a prompt with “Add”.")
        elif not draft.value(PROMPTS):  # nothing was added meanwhile
            draft.set(PROMPTS, prompts)


def _proposed(concept: "ConceptSettings", side: int) -> list[Any]:
    from onetrainer.dataset.items import Item, index_concept
    from onetrainer.guide.prompts import first_captioned, prompts_of
    from onetrainer.images.image_index import recent_facts

    concept = replace(concept, require_captions=False)
    captioned: tuple[Item, ...] = ()
    with suppress(UserError):  # no usable image, which the setting reports as a problem
        captioned = first_captioned(index_concept(concept, headers=recent_facts()).items)
    return prompts_of(captioned, concept, side)
