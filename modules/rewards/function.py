"""A user-defined reward: a Python function, run only if the user trusts it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from modules.memory.to_device import to_device
from modules.user_code.load import UserCode, load_user_code, type_name
from onetrainer.errors import UserError

_EXPECTED = "Expected a score for each image: a tensor of shape (B,), or a list of numbers"


@dataclass(frozen=True)
class FunctionReward:
    """The scores that a user's function gives to images.

    has_gradient: whether the function computes with torch throughout.
    """

    code: UserCode
    has_gradient: bool

    def extra_modules(self) -> nn.Module:
        return nn.Module()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        # A copy, which the function may change in place.
        inputs = (images if self.has_gradient else images.detach()).clone()
        with self.code.running():
            result = self.code.value(inputs, list(prompts))
        scores = self._scores(result, images)
        if self.has_gradient and images.requires_grad and not scores.requires_grad:
            raise self._error(
                "its scores have no gradient",
                "Expected scores computed from the images with torch throughout",
                'Turn off "Has a gradient" (has_gradient), and train with best of n',
            )
        return scores

    def _scores(self, result: object, images: Tensor) -> Tensor:
        """Convert a result to (B,), float32 on the images' device. Raises UserError if invalid."""
        if isinstance(result, Tensor):
            scores = result if result.device == images.device else to_device(result, images.device)
        else:
            try:
                numbers = torch.as_tensor(result, dtype=torch.float32)
            except (TypeError, ValueError, RuntimeError, OverflowError) as error:
                raise self._error(f"it returned {type_name(result)}", _EXPECTED) from error
            scores = to_device(numbers, images.device)
        if scores.shape != (len(images),):
            raise self._error(
                f"it returned numbers of shape {tuple(scores.shape)} for {len(images)} images",
                _EXPECTED,
            )
        scores = scores.to(torch.float32)
        if not bool(scores.isfinite().all()):  # waits for the device: user code is not checked
            raise self._error("it returned a score that is not a finite number", _EXPECTED)
        return scores

    def _error(self, what: str, expected: str, remedy: str = "Correct the function") -> UserError:
        return self.code.error(what, expected, remedy)


def load_function(spec: str, *, has_gradient: bool) -> FunctionReward:
    """Load a trusted function as a reward, which runs its file.

    Args:
        spec: Where the function is.
        has_gradient: Whether it computes with torch throughout.

    Raises:
        UserError: The function is not trusted, or its file fails.
    """
    return FunctionReward(load_user_code(spec), has_gradient)
