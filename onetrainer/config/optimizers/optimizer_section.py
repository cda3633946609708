"""What every optimizer declares."""

from typing import ClassVar

from onetrainer.config.base.section import Section

Options = tuple[tuple[str, object], ...]
"""Arguments of a class with their values."""
DECOUPLED: Options = (("weight_decouple", True),)
"""Decoupled weight decay, as in AdamW, for libraries where it is optional."""


class OptimizerSection(Section):
    """The settings and properties of one optimizer.

    Attributes:
        target: The class, "module:Name"; empty if a setting names it.
        options: Constant arguments; a text is the name of a torch dtype.
        betas: The fields that form the argument "betas", if the section has them.
        names: The arguments of fields that are named differently.
        high_lr: A higher learning rate is probably a mistake.
        updates_independently: A parameter's update depends only on that parameter and the step
            number; exactly these optimizers have a field `fused_backward`.
        updates_elementwise: A number's update depends only on that number, its own gradients, and
            the step number, so that a part of a weight is updated as in the whole.
        is_schedule_free: The weights have an evaluation form, and the rate needs no schedule.
        is_adaptive: It finds its own rate, which `lr` multiplies.
        has_one_rate: It uses the first group's rate for all groups.
        skips_zero_rates: It does not count steps whose learning rate is 0, such as the first one of
            a warm-up; its published implementation does not, the library's would.
        clips_itself: It limits its own updates, and trains worse with gradient clipping.
    """

    title: ClassVar[str]
    target: ClassVar[str] = ""
    options: ClassVar[Options] = ()
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    names: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = ()
    high_lr: ClassVar[float] = 1e-2
    updates_independently: ClassVar[bool]
    updates_elementwise: ClassVar[bool] = False
    is_schedule_free: ClassVar[bool] = False
    is_adaptive: ClassVar[bool] = False
    has_one_rate: ClassVar[bool] = False
    skips_zero_rates: ClassVar[bool] = False
    clips_itself: ClassVar[bool] = False
    kind: str

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        cls.updates_independently = "fused_backward" in cls.model_fields

    @property
    def is_fused(self) -> bool:
        """Whether weights are updated during the backward pass; never if there is no setting."""
        return bool(dict(self).get("fused_backward", False))
