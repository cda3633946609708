"""Our files of LyCORIS' kinds, applied by the loader that LyCORIS has for kohya's naming."""

import torch

from modules.methods.adapters.adapters import Adapters
from onetrainer.config.methods.low_rank import Dora, LoHa, LoKr, Lora
from onetrainer.config.methods.oft import Oft
from tests import tiny
from tests.adapters import shake
from tests.close import close
from tests.each import each
from tests.exports import export

# Its list for other models names the time embedding twice in a UNet of diffusers.
BLOCKS = ["Transformer2DModel", "ResnetBlock2D", "Downsample2D", "Upsample2D"]


def output_of(unet):
    generator = torch.Generator().manual_seed(2)
    latents = torch.randn(1, 4, 8, 8, generator=generator)
    text = torch.randn(1, 7, unet.config.cross_attention_dim, generator=generator)
    with torch.no_grad():
        return unet(latents, torch.tensor([500]), encoder_hidden_states=text).sample


@each("section", [Lora(), Dora(norms="outputs"), LoHa(), LoKr(), Oft()])
def test_lycoris_computes_with_our_file_what_was_trained(section, tmp_path, monkeypatch):
    """To 1e-5 of the change. Its loader fails for (IA)³ of any file (version 4.1.3), and for DoRA
    with norms of inputs."""
    from lycoris import kohya

    monkeypatch.setattr(kohya.LycorisNetworkKohya, "UNET_TARGET_REPLACE_MODULE", BLOCKS)
    family, other = tiny.family("sd15"), tiny.family("sd15").unet
    base = output_of(other)
    method = Adapters.attach(family, section, seed=0)
    shake(method, 0.1)
    method.train(False)
    path = tmp_path / "a.safetensors"
    export(method, path, dtype=torch.float32, metadata={})
    network, weights = kohya.create_network_from_weights(
        1.0, str(path), None, None, other, for_inference=True
    )
    network.apply_to(None, other, False, True)
    network.eval()
    missing, unexpected = network.load_state_dict(weights, strict=False)
    assert not missing
    assert not unexpected
    ours = output_of(family.unet)
    change = (ours - base).norm()
    assert change > 0.1
    close(output_of(other), ours, of=change)
