"""Stable Diffusion 1.x, 2.x and XL, each with its inpainting model, and two relatives.

Inpainting models are given a mask and a masked image besides the latents (Rombach et al. 2022,
arXiv:2112.10752); other numbers are those of their base.
"""

from onetrainer.families.spec import ComponentSpec, EncoderSpec, FamilySpec, Names

ENGINE = "modules.families.load"
END_TOKEN = 49407  # of CLIP's vocabulary; OpenAI's encoders are padded with it, OpenCLIP's with 0
UNET = ComponentSpec(
    "unet",
    "diffusers.models.unets.unet_2d_condition:UNet2DConditionModel",
    "model.diffusion_model.",
    "unet",
)
VAE = ComponentSpec(
    "vae",
    "diffusers.models.autoencoders.autoencoder_kl:AutoencoderKL",
    "first_stage_model.",
    "vae",
)


def _encoder(
    prefix: str,
    *,
    folder: str = "text_encoder",
    is_open_clip: bool,
    has_projection: bool = False,
) -> ComponentSpec:
    network = "CLIPTextModelWithProjection" if has_projection else "CLIPTextModel"
    names: Names = "open-clip" if is_open_clip else "same"
    return ComponentSpec(folder, f"transformers:{network}", prefix, names, "model")


SD15 = FamilySpec(
    name="sd15",
    label="SD 1.5",
    title="Stable Diffusion 1.5",
    description="an SD 1.5 model",
    engine=ENGINE,
    unet=UNET,
    vae=VAE,
    encoders=(  # CLIP ViT-L/14, read at its last layer
        EncoderSpec(
            "te",
            "text encoder",
            _encoder("cond_stage_model.transformer.", is_open_clip=False),
            width=768,
            depth=12,
            comfy_name="clip_l",
            other_names=("te1",),
            pad=END_TOKEN,
        ),
    ),
    side=512,
    text_width=768,
    architecture="stable-diffusion-v1",
    vae_architecture="stable-diffusion-v1/vae",
    has_convolution_projections=True,
    series="SD 1.x",
    hub="stable-diffusion-v1-5/stable-diffusion-v1-5",
    kohya_versions={"epsilon": "sd_v1", "v_prediction": "sd_v1_v"},
    pipeline="StableDiffusionPipeline",
)
SD2 = FamilySpec(
    name="sd2",
    label="SD 2",
    title="Stable Diffusion 2.1",
    description="an SD 2 model",
    engine=ENGINE,
    unet=UNET,
    vae=VAE,
    # OpenCLIP ViT-H/14, read at its penultimate layer; OpenCLIP pads chunks with 0. The diffusers
    # weights omit the layer that is never read, so the layer read is their last one.
    encoders=(
        EncoderSpec(
            "te",
            "text encoder",
            _encoder("cond_stage_model.model.", is_open_clip=True),
            width=1024,
            depth=24,
            comfy_name="clip_h",
            other_names=("te1",),
            other_comfy_names=("clip_l",),
            clip_skip=2,
            missing_layers=1,
        ),
    ),
    side=512,
    sides={"v_prediction": 768},
    text_width=1024,
    architecture="stable-diffusion-v2-512",
    stated=("stable-diffusion-v2",),
    architectures={"v_prediction": "stable-diffusion-v2-768-v"},
    vae_architecture="stable-diffusion-v1/vae",
    series="SD 2.x",
    kohya_versions={"epsilon": "sd_v2", "v_prediction": "sd_v2_v"},
    kohya_v2=True,
    pipeline="StableDiffusionPipeline",
)
# Layers that encode sizes; attention at the bottom of the way up; the second transformer block, and
# those behind it, of any place.
SDXL_LAYERS = (
    r"(?:^|[._])(?:label_emb[._]0[._][02]|add_embedding[._]linear_[12])$"
    r"|(?:^|[._])(?:up_blocks[._]0[._]attentions[._]\d|output_blocks[._][01][._]1)[._]"
    r"(?:transformer_blocks|proj_)"
    r"|(?:^|[._])(?:(?:down|up)_blocks[._]\d[._]attentions[._]\d|mid_block[._]attentions[._]0"
    r"|(?:input|output)_blocks[._]\d+[._]1|middle_block[._]1)"
    r"[._]transformer_blocks[._][1-9]\d*[._]"
)
SDXL = FamilySpec(
    name="sdxl",
    label="SDXL",
    description="an SDXL model",
    engine=ENGINE,
    unet=UNET,
    vae=VAE,
    # CLIP ViT-L/14 and OpenCLIP ViT-bigG/14, both read at the penultimate layer, without the final
    # norm; bigG's projection gives the pooled vector.
    # Source: Podell et al. 2023, arXiv:2307.01952, sections 2.1 and 2.2.
    encoders=(
        EncoderSpec(
            "te1",
            "text encoder",
            _encoder("conditioner.embedders.0.transformer.", is_open_clip=False),
            width=768,
            depth=12,
            comfy_name="clip_l",
            pad=END_TOKEN,
            clip_skip=2,
            is_normed=False,
        ),
        EncoderSpec(
            "te2",
            "second text encoder",
            _encoder(
                "conditioner.embedders.1.model.",
                folder="text_encoder_2",
                is_open_clip=True,
                has_projection=True,
            ),
            width=1280,
            depth=32,
            comfy_name="clip_g",
            clip_skip=2,
            is_normed=False,
            has_projection=True,
        ),
    ),
    side=1024,
    smallest_side=768,
    bucket_step=64,  # Podell et al. 2023, appendix I; the UNets of the others accept any 8
    text_width=2048,
    pooled_width=1280,
    vae_scale=0.13025,
    fp16_vae="sdxl-vae-fp16-fix",
    has_size_conditioning=True,
    levels=3,
    architecture="stable-diffusion-xl-v1-base",
    stated=("sdxl", "stable-diffusion-xl"),
    vae_architecture="stable-diffusion-xl-v1-base/vae",
    series="SDXL",
    kohya_versions={"epsilon": "sdxl_base_v1-0", "v_prediction": "sdxl_base_v1-0"},
    pipeline="StableDiffusionXLPipeline",
    hub="stabilityai/stable-diffusion-xl-base-1.0",
    index_flags=("force_zeros_for_empty_prompt",),
    has_original_layer_names=True,
    own_layers=SDXL_LAYERS,
)
SD15_INPAINTING = SD15._replace(
    name="sd15-inpainting",
    base="sd15",
    label="SD 1.5 inpainting",
    hub="stable-diffusion-v1-5/stable-diffusion-inpainting",
    description="an SD 1.5 inpainting model",
    sees_masked_image=True,
    architecture="stable-diffusion-v1-inpainting",
    pipeline="StableDiffusionInpaintPipeline",
)
SD2_INPAINTING = SD2._replace(
    name="sd2-inpainting",
    base="sd2",
    label="SD 2 inpainting",
    description="an SD 2 inpainting model",
    sees_masked_image=True,
    architecture="stable-diffusion-v2-inpainting",
    architectures={},
    pipeline="StableDiffusionInpaintPipeline",
)
SDXL_INPAINTING = SDXL._replace(
    name="sdxl-inpainting",
    base="sdxl",
    label="SDXL inpainting",
    hub="diffusers/stable-diffusion-xl-1.0-inpainting-0.1",
    description="an SDXL inpainting model",
    sees_masked_image=True,
    architecture="stable-diffusion-xl-v1-inpainting",
    pipeline="StableDiffusionXLInpaintPipeline",
    index_flags=("force_zeros_for_empty_prompt", "requires_aesthetics_score"),
)
SD2_DEPTH = SD2._replace(
    name="sd2-depth",
    base="sd2",
    label="SD 2 depth",
    description="an SD 2 depth model",
    engine="",
    other_channels=1,
    architecture="stable-diffusion-v2-depth",
    architectures={},
    pipeline="StableDiffusionDepth2ImgPipeline",
)
# Improves the images of SDXL: larger, with its second text encoder alone.
SDXL_REFINER = SDXL._replace(
    name="sdxl-refiner",
    label="SDXL refiner",
    hub="",
    description="an SDXL refiner, which improves another model's images",
    engine="",
    encoders=(
        SDXL.encoders[1]._replace(
            component=SDXL.encoders[1].component._replace(prefix="conditioner.embedders.0.model."),
        ),
    ),
    text_width=1280,
    levels=4,
    architecture="stable-diffusion-xl-v1-refiner",
    stated=("stable-diffusion-xl-v1-refiner",),
    kohya_versions={},
    series="",
)
