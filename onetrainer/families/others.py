"""Models of other architectures, which are recognized by their files and not trained."""

from onetrainer.families.spec import ComponentSpec, FamilySpec

_VAE = ComponentSpec(
    "vae", "diffusers.models.autoencoders.autoencoder_kl:AutoencoderKL", "first_stage_model.", "vae"
)

SD3 = FamilySpec(
    name="sd3",
    label="SD 3",
    description="an SD 3 model",
    engine="",
    unet=ComponentSpec(
        "transformer",
        "diffusers.models.transformers.transformer_sd3:SD3Transformer2DModel",
        "model.diffusion_model.",
    ),
    vae=_VAE,
    encoders=(),
    side=1024,
    latent_channels=16,
    text_width=4096,
    vae_scale=1.5305,
    architecture="stable-diffusion-3",
    vae_architecture="stable-diffusion-3/vae",
    stated=("sd3",),
    pipeline="StableDiffusion3Pipeline",
    marks=("joint_blocks.",),
)
FLUX = SD3._replace(
    name="flux",
    label="Flux",
    description="a Flux model",
    unet=SD3.unet._replace(
        network="diffusers.models.transformers.transformer_flux:FluxTransformer2DModel"
    ),
    vae_scale=0.3611,
    architecture="flux-1",
    vae_architecture="flux-1/vae",
    stated=("flux",),
    pipeline="FluxPipeline",
    marks=("double_blocks.",),
)
