"""Attention of UNets without what theirs never has: norms, masks, residuals, scaling of results."""

from diffusers.models.attention_processor import Attention, AttnProcessor2_0
from torch import Tensor, nn
from torch.nn import functional as F


def use_plain_attention(network: nn.Module) -> None:
    """Let every attention layer of a network that has nothing special compute plainly.

    diffusers divides each result by 1, forward and backward: a twentieth of a step's operations.
    """
    for layer in network.modules():
        if isinstance(layer, Attention) and _is_plain(layer):
            layer.set_processor(_PlainAttention())


class _PlainAttention:
    """What AttnProcessor2_0 computes for such layers, with the same results."""

    def __call__(
        self,
        attn: Attention,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        assert attention_mask is None, "no family here masks its attention"
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        heads = (len(hidden_states), -1, attn.heads, attn.inner_dim // attn.heads)
        query, key, value = (
            layer(given).view(heads).transpose(1, 2)  # (B, heads, T, D)
            for layer, given in (
                (attn.to_q, hidden_states),
                (attn.to_k, source),
                (attn.to_v, source),
            )
        )
        output = F.scaled_dot_product_attention(query, key, value)
        project, dropout = attn.to_out
        result: Tensor = dropout(project(output.transpose(1, 2).flatten(2)))
        return result


def _is_plain(layer: Attention) -> bool:
    """Return whether a layer's processor is the usual one, and none of its options is used."""
    parts = (layer.spatial_norm, layer.group_norm, layer.norm_q, layer.norm_k, layer.norm_cross)
    return (
        type(layer.processor) is AttnProcessor2_0
        and not any(parts)
        and not layer.residual_connection
        and layer.rescale_output_factor == 1
        and layer.inner_kv_dim == layer.inner_dim
    )
