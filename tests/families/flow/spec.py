"""A small transformer that follows a flow, with a text encoder that reads bytes: all of a family.

Registered by one line in a test; no file outside of this folder knows of it.
"""

from pathlib import Path

from onetrainer.families.spec import ComponentSpec, EncoderSpec, FamilySpec

NETWORKS = "tests.families.flow.networks"
FLOW = FamilySpec(
    name="flow",
    label="Flow",
    description="a Flow model",
    engine="tests.families.flow.engine",
    unet=ComponentSpec("unet", f"{NETWORKS}:Transformer", "transformer."),
    vae=ComponentSpec("vae", "diffusers.models.autoencoders.autoencoder_kl:AutoencoderKL", "vae."),
    encoders=(
        EncoderSpec(
            "bytes",
            "byte encoder",
            ComponentSpec(
                "byte_encoder", f"{NETWORKS}:ByteEncoder", "byte_encoder.", "same", "model"
            ),
            width=16,
        ),
    ),
    side=64,
    latent_channels=6,
    text_width=16,
    vae_scale=0.5,
    predictions=("flow",),
    shift=3.0,
    architecture="flow-test",
    vae_architecture="flow-test/vae",
    pipeline="FlowPipeline",
    models=Path(__file__).parent / "configs",
    marks=("transformer.patches.", "byte_encoder."),
)
