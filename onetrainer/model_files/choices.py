"""Whether a model is what the config says it is; where it is not, the right choice is named."""

from onetrainer.config.run.model import (
    FamilyName,
    Prediction,
    PredictionChoice,
    ZeroSnrChoice,
    base_of,
)
from onetrainer.errors import UserError
from onetrainer.model_files.kinds import DESCRIPTIONS, FAMILIES, NAMES, PREDICTS, ModelFile

_SMALLER_THINGS = ("lora", "embedding", "vae", "unet", "text-encoder")


def require_family(model: ModelFile, family: FamilyName, *, vae_given: bool = False) -> None:
    """Raises UserError, naming the right choice, unless the model is a whole one of the family.

    vae_given: whether another VAE than the model's own is used, so that it needs none.
    """
    if model.kind != family:
        raise _wrong_kind(model, family)
    missing = [part for part in model.missing if part != "VAE" or not vae_given]
    if not missing:
        return
    if "UNet" in missing and model.has_ema:
        vae = " --vae FILE" if "VAE" in missing else ""
        raise UserError(
            f"{model.path.name}: of this {NAMES[family]} model's UNet there are only averaged"
            f" weights (EMA){', and there is no VAE' if vae else ''}",
            "A model with the weights themselves was expected",
            "Make one of the averaged weights, and choose that:"
            f" onetrainer convert --ema{vae} {model.path.name} NEW.safetensors",
        )
    only_vae = missing == ["VAE"]
    raise UserError(
        f"{model.path.name}: this {NAMES[family]} model has no {' and no '.join(missing)}",
        "A model with UNet, VAE and every text encoder was expected",
        f'Choose a VAE for {NAMES[family]} as "Custom VAE" (model.vae), or the whole model'
        if only_vae
        else "Choose the file or folder of the whole model",
    )


def require_published_size(model: ModelFile) -> None:
    """Raises UserError for a single file of other widths than the published models have."""
    if model.has_unusual_size:
        raise UserError(
            f"{model.path.name}: this model has an unusual size, other widths than the published"
            " models of its kind",
            "A single file can be opened only in the published sizes, a diffusers folder in any",
            "Save it as a diffusers folder where it is made: in training"
            " output.model_format=diffusers",
        )


def require_made_for(addition: ModelFile, family: FamilyName) -> None:
    """Raises UserError if a LoRA or an embedding tells that it is for another base model."""
    owner = addition.made_for
    # What is made for a base is used on its inpainting model too.
    if owner is None or owner in (family, base_of(family)):
        return
    what = DESCRIPTIONS[addition.kind].partition(",")[0].partition(" ")[2]
    raise UserError(
        f"{addition.path.name}: this {what} was made for {NAMES[owner]}; the model is"
        f" {NAMES[family]}",
        f"One for {NAMES[base_of(family)]} was expected",
        f"Choose another {what}, or a model that it was made for",
    )


def require_vae(model: ModelFile, family: FamilyName) -> None:
    """Raises UserError unless there is a VAE for the family in it, alone or with a whole model.

    SDXL's latents are other ones than those of SD 1.5 and 2, in the same shapes; a VAE's file alone
    does not tell whose it is.
    """
    is_whole = model.kind in FAMILIES and "VAE" not in model.missing
    if model.kind == "vae" or is_whole:
        owner = model.kind if is_whole else model.made_for
        if owner is not None and owner.startswith("sdxl") != family.startswith("sdxl"):
            raise UserError(
                f"{model.path.name}: this VAE is that of {NAMES[owner]}, whose latents are others",
                f"A VAE for {NAMES[family]} was expected",
                'Choose another file as "Custom VAE" (model.vae), or none to use the model\'s own',
            )
        return
    lack = " without a VAE" if model.kind in FAMILIES else ""
    raise UserError(
        f"{model.path.name}: this is {DESCRIPTIONS[model.kind].partition(',')[0]}{lack}",
        "A VAE, or a model with one, was expected",
        'Choose another file as "Custom VAE" (model.vae), or none to use the model\'s own',
    )


def resolve_prediction(model: ModelFile, choice: PredictionChoice) -> Prediction:
    """What the model predicts. Raises UserError if the choice is wrong or has to be made.

    A choice that contradicts metadata alone counts: programs copy metadata carelessly.
    """
    told = model.prediction
    if choice == "auto":
        if told is None and model.kind == "sd2":
            raise UserError(
                f"{model.path.name}: nothing in this SD 2 model tells what it predicts",
                "Those made for 768 pixels (2.1, 2.0-v) predict velocity, the 512-pixel "
                '"base" ones noise',
                'Choose "v_prediction" or "epsilon" as model.prediction',
            )
        return told or "epsilon"
    if told is not None and told != choice and model.prediction_is_sure:
        raise UserError(
            f"{model.path.name}: this model predicts {PREDICTS[told]}, as {model.told_by} says",
            f'model.prediction is "{choice}"',
            f'Choose "{told}" or "auto" as model.prediction',
        )
    return choice


def resolve_zero_snr(model: ModelFile, choice: ZeroSnrChoice) -> bool:
    """Whether the noise schedule ends in pure noise. Raises UserError if "off" is wrong.

    "on" is never refused here: a model that was trained without can be taught it. "off" counts
    where only metadata says otherwise.
    """
    match choice:
        case "auto":
            return bool(model.zero_terminal_snr)
        case "on":
            return True
    if model.zero_terminal_snr and model.zero_snr_is_sure:
        raise UserError(
            f"{model.path.name}: this model was trained with zero terminal SNR",
            'model.zero_terminal_snr is "off"',
            'Choose "on" or "auto" as model.zero_terminal_snr',
        )
    return False


def require_predictable(
    prediction: Prediction, *, zero_terminal_snr: bool, model: ModelFile | None = None
) -> None:
    """Raises UserError for zero terminal SNR with a model that predicts noise.

    model: what was looked at, so that only what it allows is named; None names all.
    """
    if not zero_terminal_snr or prediction != "epsilon":
        return
    subject = "zero terminal SNR"
    if model is not None and model.zero_terminal_snr:
        subject = f"{model.path.name}: this model asks for zero terminal SNR, which"
    raise UserError(
        f"{subject} is for models that predict velocity, not noise (epsilon): at the last step"
        " there is nothing but noise to predict from",
        "A model that predicts velocity was expected",
        "Choose " + ", ".join(_ways_out(model)) + " or another model",
    )


def _ways_out(model: ModelFile | None) -> list[str]:
    """The choices that the model allows, so that zero terminal SNR and noise do not meet."""
    ways = []
    if model is None or model.prediction is None or not model.prediction_is_sure:
        ways.append('"v_prediction" as model.prediction')
    if model is None or not (model.zero_terminal_snr and model.zero_snr_is_sure):
        ways.append('"off" as model.zero_terminal_snr')
    return ways


def _wrong_kind(model: ModelFile, family: FamilyName) -> UserError:
    what = f"{model.path.name}: this is {DESCRIPTIONS[model.kind]}"
    if model.kind in FAMILIES:
        return UserError(
            what,
            f'The family that is set is "{family}"',
            f'Choose "{model.kind}" as model.family, or another model',
        )
    if model.kind == "unknown" and model.unet_channels not in (0, 4, 9):
        what += f"; its UNet reads {model.unet_channels} channels"
    name = NAMES.get(model.made_for or "", "")
    made_for = f" It was made for {name}" if name else ""
    is_part = model.kind in _SMALLER_THINGS
    return UserError(
        what + (f".{made_for}" if made_for else ""),
        f"A whole {NAMES[family]} model was expected",
        "Choose the base model that it belongs to" if is_part else "Choose another model",
    )
