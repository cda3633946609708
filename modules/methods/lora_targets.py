"""Which layers get a LoRA adapter, and what each is called in the file."""

from collections.abc import Iterator, Sequence

from torch import nn

from onetrainer.config.method import LoraTargets

UNET_PREFIX = "lora_unet_"
TEXT_LEVEL = "text_model."  # which transformers since 5.6 leaves out of its modules' paths

ATTENTION = ("to_q", "to_k", "to_v", "to_out.0")
TEXT_ATTENTION = ("q_proj", "k_proj", "v_proj", "out_proj")
TEXT_MLP = ("fc1", "fc2")


def unet_layers(unet: nn.Module, targets: LoraTargets) -> Iterator[tuple[str, nn.Module]]:
    """The UNet's chosen layers by their name in the file, in the UNet's order.

    "attn": the projections of self- and cross-attention. "attn-mlp": every layer of the
    transformer blocks and the projections into and out of them, which is what kohya's and most
    other LoRAs train. "full": every linear and convolution layer.
    """
    for path, module in _layers(unet):
        match targets:
            case "attn":
                chosen = ".attentions." in path and path.endswith(ATTENTION)
            case "attn-mlp":
                chosen = ".attentions." in path
            case "full":
                chosen = True
        if chosen:
            yield UNET_PREFIX + path.replace(".", "_"), module


def text_layers(
    encoder: nn.Module, targets: LoraTargets, *, name: str
) -> Iterator[tuple[str, nn.Module]]:
    """A text encoder's chosen layers; `name` is the encoder's, "te" for SD 1.x.

    "attn" means attention, everything else attention and feed-forward.
    """
    endings: Sequence[str] = TEXT_ATTENTION if targets == "attn" else TEXT_ATTENTION + TEXT_MLP
    for path, module in _layers(encoder):
        if path.endswith(tuple(endings)):
            full = TEXT_LEVEL + path.removeprefix(TEXT_LEVEL)
            yield f"lora_{name}_{full.replace('.', '_')}", module


def _layers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for path, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            yield path, module
