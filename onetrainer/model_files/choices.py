"""Whether a model is what the config says it is; where it is not, the right choice is named."""

from onetrainer.config.model import FamilyName, Prediction, PredictionChoice, ZeroSnrChoice
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
    only_vae = missing == ["VAE"]
    raise UserError(
        f"{model.path.name}: this {NAMES[family]} model has no {' and no '.join(missing)}",
        "A model with UNet, VAE and every text encoder was expected",
        f'Choose a VAE for {NAMES[family]} as "Other VAE" (model.vae), or the whole model'
        if only_vae
        else "Choose the file or folder of the whole model",
    )


def require_vae(model: ModelFile) -> None:
    """Raises UserError unless there is a VAE in it, alone or with a whole model."""
    is_whole = model.kind in FAMILIES and "VAE" not in model.missing
    if model.kind == "vae" or is_whole:
        return
    lack = " without a VAE" if model.kind in FAMILIES else ""
    raise UserError(
        f"{model.path.name}: this is {DESCRIPTIONS[model.kind].partition(',')[0]}{lack}",
        "A VAE, or a model with one, was expected",
        'Choose another file as "Other VAE", or none to use the model\'s own',
    )


def resolve_prediction(model: ModelFile, choice: PredictionChoice) -> Prediction:
    """What the model predicts. Raises UserError if the choice is wrong or has to be made."""
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
    if told is not None and told != choice:
        raise UserError(
            f"{model.path.name}: this model predicts {PREDICTS[told]}, as {model.told_by} says",
            f'model.prediction is "{choice}"',
            f'Choose "{told}" or "auto" as model.prediction',
        )
    return choice


def resolve_zero_snr(model: ModelFile, choice: ZeroSnrChoice) -> bool:
    """Whether the noise schedule ends in pure noise. Raises UserError if "off" is wrong.

    "on" is never refused here: a model that was trained without can be taught it.
    """
    match choice:
        case "auto":
            return bool(model.zero_terminal_snr)
        case "on":
            return True
    if model.zero_terminal_snr:
        raise UserError(
            f"{model.path.name}: this model was trained with zero terminal SNR",
            'model.zero_terminal_snr is "off"',
            'Choose "on" or "auto" as model.zero_terminal_snr',
        )
    return False


def require_predictable(prediction: Prediction, *, zero_terminal_snr: bool) -> None:
    """Raises UserError for zero terminal SNR with a model that predicts noise."""
    if zero_terminal_snr and prediction == "epsilon":
        raise UserError(
            "a model that predicts noise (epsilon) cannot be trained with zero terminal SNR: at the"
            " last step there is nothing but noise to predict from",
            "A model that predicts velocity was expected",
            'Choose "off" as model.zero_terminal_snr, or a v-prediction model',
        )


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
