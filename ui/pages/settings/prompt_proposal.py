"""Sample prompts from the first captions."""

from onetrainer.config.run.sampling import Prompt
from ui.background.folder_summary import FolderSummary, summarize_folder
from ui.context import Context
from ui.pages.settings.summary_card import first_folder

PROMPTS = "sampling.prompts"
LABEL = "Use the first captions"
_SIDE = "data.resolution"


class PromptProposal:
    """Fills the sample prompts with captions of the images, which then show what was trained."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def propose(self) -> None:
        """Read the captions of the first folder, and use some of them."""
        concept = first_folder(self._context.draft)
        if concept is None:
            self._context.act.show_message("There are no images yet. Choose their folder in Data.")
            return
        self._context.widgets.jobs.run(lambda: summarize_folder(concept), self._fill)

    def _fill(self, summary: FolderSummary) -> None:
        draft, act = self._context.draft, self._context.act
        if not summary.prompts:
            act.show_message("The images have no captions yet. Write a prompt with “Add”.")
        elif not draft.value(PROMPTS):  # nothing was added meanwhile
            is_wrong = any(problem.path == _SIDE for problem in draft.value_errors)
            side = None if is_wrong else draft.value(_SIDE)
            size = {"width": side, "height": side} if isinstance(side, int) else {}
            prompts = [
                Prompt(prompt=text, seed=seed, **size)
                for seed, text in enumerate(summary.prompts, start=1)
            ]
            draft.set(PROMPTS, [prompt.model_dump(mode="json") for prompt in prompts])
