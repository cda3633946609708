"""Models of transformers that say something about an image: BLIP, Florence-2, those that chat."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoModelForImageTextToText

from modules.captioning.describer import Found
from modules.captioning.pretrained import load_pretrained
from modules.memory.to_device import to_device
from onetrainer.errors import UserError

_OWN_POSITIONS = 2
"""Of the tokens that begin and end a text."""
_LONGEST_SIDE = 1536
"""Larger images are shrunk: some models cut an image into as many parts as it has pixels for."""


class TextModel:
    """A captioner; see `Describer`."""

    def __init__(
        self, folder: Path, device: torch.device, *, prompt: str, max_tokens: int, chats: bool
    ) -> None:
        """Load it.

        Args:
            folder: Of the model.
            device: Where it runs.
            prompt: How the text begins, a task, or, if it chats, a question.
            max_tokens: The most tokens of a text.
            chats: Whether the prompt is a person's turn in a conversation.
        """
        self.notes: Sequence[str] = ()
        self._device, self._max_tokens = device, max_tokens
        self._model, self._processor = load_pretrained(AutoModelForImageTextToText, folder, device)
        self._chats, self._prompt = chats, prompt
        if chats:
            self._prompt = self._conversation(folder, prompt)
            # Texts of one batch must end together, where the answers begin.
            self._processor.tokenizer.padding_side = "left"

    @torch.inference_mode()
    def describe(self, images: Sequence[Image.Image]) -> list[Found]:
        """Return a text for each image, the same for the same image every time."""
        small = [_at_most(image, _LONGEST_SIDE) for image in images]
        # Without a prompt there is none: an empty one would be a token more.
        texts = [self._prompt] * len(small) if self._prompt else None
        inputs = self._processor(images=small, text=texts, padding=bool(texts), return_tensors="pt")
        inputs = {
            name: to_device(value.to(self._model.dtype) if value.is_floating_point() else value,
                            self._device)
            for name, value in inputs.items()
        }  # fmt: skip
        length = self._most_tokens(inputs)
        tokens = self._model.generate(**inputs, max_new_tokens=length, do_sample=False)
        if self._chats:  # the question comes first
            tokens = tokens[:, inputs["input_ids"].shape[1] :]
        written = self._processor.batch_decode(tokens, skip_special_tokens=True)
        return [Found(text=" ".join(text.split())) for text in written]

    def _most_tokens(self, inputs: Mapping[str, torch.Tensor]) -> int:
        """Return how many tokens are written at most: a model fails where its positions end."""
        config = self._model.config
        text = config.get_text_config(decoder=True)
        positions = int(getattr(text, "max_position_embeddings", None) or 0)
        if not positions:
            return self._max_tokens
        is_apart = config.is_encoder_decoder  # what it reads takes none of those of what it writes
        read = 0 if is_apart or "input_ids" not in inputs else inputs["input_ids"].shape[1]
        return max(1, min(self._max_tokens, positions - read - _OWN_POSITIONS))

    def _conversation(self, folder: Path, prompt: str) -> str:
        """Return a conversation with an image and a question, up to where the answer begins."""
        if not getattr(self._processor, "chat_template", None):
            raise UserError(
                f"{folder}: this model has no chat template, so it cannot be asked about an image",
                "Expected a vision-language model that was trained to follow instructions",
                "Choose its “Instruct” or “Chat” version",
            )
        turn = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt}]}
        text: str = self._processor.apply_chat_template([turn], add_generation_prompt=True)
        return text


def _at_most(image: Image.Image, side: int) -> Image.Image:
    if max(image.size) <= side:
        return image
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return small
