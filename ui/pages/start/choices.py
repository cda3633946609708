"""What a person has chosen in the guided start, and the settings made of it. No Tk."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ui.model.draft import Draft
from ui.model.preset_origin import without_demo_value

if TYPE_CHECKING:
    from onetrainer.guide.aims import Aim, Answers
    from onetrainer.guide.base_model import BaseModel
    from onetrainer.guide.images import ImageFolder

LOOKING = "Looking at the images …"
_KEPT = ("output.folder", "data.cache_folder", "model.offline", "metadata.author")
"""Where files go, unless it is the demo's folder, and who made them outlive a new beginning."""


@dataclass
class Choices:
    """Answers so far.

    Attributes:
        family: Chosen by the person where the model does not say it.
        word, shows: See `Answers`.
        gpu_gib: Memory of the GPU; 0 if it is not known.
        applied: The answers that the settings were made of; None before.
        applied_at: The draft's `load_count` after that: it is another one after an undo.
    """

    images: "ImageFolder | None" = None
    model: "BaseModel | None" = None
    family: str = ""
    aim: "Aim | None" = None
    word: str = ""
    shows: str = ""
    gpu_gib: float = 0.0
    applied: "Answers | None" = None
    applied_at: int = -1

    @property
    def base(self) -> "BaseModel | None":
        """The model, with the family that the person has chosen where it does not say one."""
        if self.model is None or self.model.family or not self.model.is_remote:
            return self.model
        return replace(self.model, family=self.family)

    def images_reason(self) -> str:
        """Return why the images are not chosen yet; "" if they are."""
        return "Choose a folder of images first." if self.images is None else self.images.problem

    def model_reason(self) -> str:
        """Return why the model is not chosen yet; "" if it is."""
        base = self.base
        if base is None:
            return "Choose a base model first."
        if base.is_remote and not base.family:
            return "Choose the family of this model first."
        return base.problem

    def aim_reason(self) -> str:
        """Return what is still to be said about what is made of it; "" if nothing is."""
        from onetrainer.guide.aims import word_problem

        if self.aim is None:
            return "Choose what to make of your images first."
        if self.images is not None and not self.images.is_counted:
            return LOOKING
        if self.images is not None and self.images.problem:
            return self.images.problem
        answers = self.answers
        return word_problem(answers) if answers else "Choose images and a base model first."

    @property
    def answers(self) -> "Answers | None":
        """All answers; None while one is missing."""
        from onetrainer.guide.aims import Answers

        if self.images is None or self.base is None or self.aim is None:
            return None
        return Answers(self.images, self.base, self.aim, self.word, self.shows)

    @property
    def preset_name(self) -> str:
        """The name of the preset that fits; "" while it is not known."""
        from onetrainer.guide.aims import preset_of
        from onetrainer.presets.find import BUILT_IN

        if self.aim is None or self.base is None or not self.base.family:
            return ""
        path = preset_of(self.aim, self.base.family, gpu_gib=self.gpu_gib)
        return path.relative_to(BUILT_IN).with_suffix("").as_posix()

    def apply(self, draft: Draft) -> bool:
        """Fill in all settings, as one step to undo; return whether it was needed.

        The same answers are not filled in twice, so that what was changed since stays.
        """
        from onetrainer.gpu_driver.present import may_have_gpu
        from onetrainer.guide.aims import preset_of, settings_of
        from onetrainer.presets.find import Preset

        answers, applied = self.answers, self.applied
        if answers is None:
            return False
        is_same = applied is not None and answers.said == applied.said
        if is_same and draft.load_count == self.applied_at:
            return False
        preset = preset_of(answers.aim, answers.model.family, gpu_gib=self.gpu_gib)
        chosen = Preset(self.preset_name, preset, "", "built in")
        settings = settings_of(answers, preset, has_gpu=may_have_gpu())
        kept = [path for path in _KEPT if without_demo_value(draft.value(path)) is not None]
        draft.begin(chosen, settings, kept=kept)
        self.applied, self.applied_at = answers, draft.load_count
        return True
