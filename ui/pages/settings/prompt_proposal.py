"""Sample prompts from the first captions."""

from onetrainer.concepts.concepts import concepts_of
from onetrainer.config.run.sampling import Prompt
from ui.background.first_captions import first_captions
from ui.context import Context

PROMPTS = "sampling.prompts"
LABEL = "Use the first captions"
_SIDE = "data.resolution"


class PromptProposal:
    """Fills the sample prompts with captions of the images, which then show what was trained."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def propose(self) -> None:
        """Read the captions of the first folder, and use some of them."""
        config = self._context.draft.section_alone("data")
        concepts = concepts_of(config) if config is not None else ()
        concept = next((each for each in concepts if each.role == "train"), None)
        if concept is None:
            self._context.act.show_message("There are no images yet. Choose their folder in Data.")
            return
        self._context.widgets.jobs.run(lambda: first_captions(concept), self._fill)

    def _fill(self, captions: tuple[str, ...]) -> None:
        draft, act = self._context.draft, self._context.act
        if not captions:
            act.show_message("The images have no captions yet. Write a prompt with “Add”.")
        elif not draft.value(PROMPTS):  # nothing was added meanwhile
            is_wrong = any(problem.path == _SIDE for problem in draft.value_errors)
            side = None if is_wrong else draft.value(_SIDE)
            size = {"width": side, "height": side} if isinstance(side, int) else {}
            prompts = [
                Prompt(prompt=text, seed=seed, **size)
                for seed, text in enumerate(captions, start=1)
            ]
            draft.set(PROMPTS, [prompt.model_dump(mode="json") for prompt in prompts])
