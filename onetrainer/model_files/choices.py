"""Checks whether a model is what the config states, with errors that name the right choice."""

from collections.abc import Sequence

from onetrainer.config.run.model import FamilyName, PredictionChoice, ZeroSnrChoice
from onetrainer.errors import UserError
from onetrainer.families import registry
from onetrainer.families.registry import FAMILY_LABELS, base_of, family_spec
from onetrainer.families.spec import Prediction
from onetrainer.model_files.kinds import DESCRIPTIONS, NAMES, PREDICTS, ModelFile
from onetrainer.model_files.wholeness import VAE

_COMPONENTS_AND_ADDITIONS = ("lora", "embedding", "vae", "unet", "text-encoder")


def require_family(model: ModelFile, family: FamilyName, *, has_custom_vae: bool = False) -> None:
    """Check that the model is a complete one of the family.

    has_custom_vae: Whether another VAE is used, so that the model needs none.

    Raises:
        UserError: Names the right choice.
    """
    if model.kind != family:
        raise _wrong_kind(model, family)
    missing = [component for component in model.missing if component != "VAE" or not has_custom_vae]
    if not missing:
        _require_whole(
            model, [label for label, _ in model.problems if label != VAE or not has_custom_vae]
        )
        return
    if "UNet" in missing and model.has_ema:
        vae = " --vae FILE" if "VAE" in missing else ""
        raise UserError(
            f"{model.path.name}: this {NAMES[family]} model's UNet has EMA weights only"
            f"{', and there is no VAE' if vae else ''}",
            "Expected a model with regular weights as well",
            "Write a model with the EMA weights as regular ones, and choose it:"
            f" onetrainer convert --ema{vae} {model.path.name} NEW.safetensors",
        )
    only_vae = missing == ["VAE"]
    raise UserError(
        f"{model.path.name}: this {NAMES[family]} model has no {' and no '.join(missing)}",
        "Expected a model with UNet, VAE and all text encoders",
        f'Choose a VAE for {NAMES[family]} as "Custom VAE" (model.vae), or the complete model'
        if only_vae
        else "Choose the file or folder of the complete model",
        failure="model file",
    )


def _require_whole(model: ModelFile, labels: Sequence[str]) -> None:
    """Raise UserError if one of these components is not whole."""
    for label, problem in model.problems:
        if label in labels:
            longer = "position_embedding" in problem or "positional_embedding" in problem
            raise UserError(
                f"{model.path.name}: its {label} is not whole: {problem}",
                "Expected each tensor of each network, in the published model's shape",
                "Choose a diffusers folder, whose config states the longer prompts that its text"
                " encoder reads"
                if longer
                else "Choose another file, or download this one again",
                failure="model file",
            )


def require_published_size(model: ModelFile) -> None:
    """Raise UserError for a single file whose widths differ from those of the published models."""
    if model.has_unusual_size:
        raise UserError(
            f"{model.path.name}: this model has an unusual size: its widths differ from those of"
            " the published models",
            "Single files can be opened only in the published sizes, diffusers folders in any",
            "Save it as a diffusers folder where it is made: in training"
            " output.model_format=diffusers",
        )


def require_made_for(addition: ModelFile, family: FamilyName) -> None:
    """Raise UserError if a LoRA or an embedding is known to be for another base model."""
    owner = addition.made_for
    # Additions for a base model also work on the models made from it.
    if owner is None or owner in (family, base_of(family)):
        return
    what = DESCRIPTIONS[addition.kind].partition(",")[0].partition(" ")[2]
    raise UserError(
        f"{addition.path.name}: this {what} was made for {NAMES[owner]}; the model is"
        f" {NAMES[family]}",
        f"Expected one for {NAMES[base_of(family)]}",
        f"Choose another {what}, or a model that it was made for",
    )


def require_vae(model: ModelFile, family: FamilyName) -> None:
    """Check that the file is a VAE for the family, or a model with one.

    Latents of several families have the same shapes and differ by their scale; a VAE file alone
    does not state its family.

    Raises:
        UserError: If it is not.
    """
    is_whole = model.kind in FAMILY_LABELS and "VAE" not in model.missing
    if model.kind == "vae" or is_whole:
        owner = model.kind if is_whole else model.made_for
        scale = family_spec(family).vae_scale
        if owner is not None and family_spec(owner).vae_scale != scale:
            raise UserError(
                f"{model.path.name}: this VAE is for {NAMES[owner]}, whose latents differ",
                f"Expected a VAE for {NAMES[family]}",
                'Choose another file as "Custom VAE" (model.vae), or none to use the model\'s own',
            )
        _require_whole(model, [VAE])
        return
    suffix = " without a VAE" if model.kind in FAMILY_LABELS else ""
    raise UserError(
        f"{model.path.name}: this is {DESCRIPTIONS[model.kind].partition(',')[0]}{suffix}",
        "Expected a VAE, or a model with one",
        'Choose another file as "Custom VAE" (model.vae), or none to use the model\'s own',
    )


def resolve_prediction(model: ModelFile, choice: PredictionChoice) -> Prediction:
    """Return what the model predicts, or shall learn to. Raises UserError if a choice is missing.

    The choice wins over the model's files, which may be wrong: see `prediction_change`.
    """
    if choice != "auto":
        return choice
    if model.prediction is None and model.kind in FAMILY_LABELS:
        _require_single_prediction(model)
    return model.prediction or "epsilon"


def prediction_change(model: ModelFile, choice: PredictionChoice) -> tuple[str, str] | None:
    """Return what a choice changes and what that means; None if the model says nothing else."""
    stated = model.prediction
    if choice == "auto" or stated in (None, choice):
        return None
    return (
        f"{model.path.name}: {model.prediction_source} says that it predicts {PREDICTS[stated]};"
        f" it is used as a model that predicts {PREDICTS[choice]}",
        "If what it says is right, its images are noise until it has been trained to the other"
        " prediction, which takes a fine-tuning of thousands of steps",
    )


def _require_single_prediction(model: ModelFile) -> None:
    """Raise UserError if models of the family were published with several predictions."""
    spec = family_spec(model.kind)
    if not spec.several_predictions:
        return
    published = (
        f"the {spec.side_of(prediction)}-pixel models predict {PREDICTS[prediction]}"
        for prediction in spec.several_predictions
    )
    choices = " or ".join(f'"{prediction}"' for prediction in spec.several_predictions)
    raise UserError(
        f"{model.path.name}: this {spec.label} model does not state its prediction type",
        f"As published, {', '.join(published)}",
        f"Set model.prediction to {choices}",
    )


def resolve_zero_snr(model: ModelFile, choice: ZeroSnrChoice) -> bool:
    """Return whether the noise schedule ends in pure noise. Raises UserError if "off" is wrong.

    "on" is always allowed, since a model can learn it. "off" wins over metadata alone.
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
            'Set model.zero_terminal_snr to "on" or "auto"',
        )
    return False


def require_predictable(
    prediction: Prediction, *, zero_terminal_snr: bool, model: ModelFile | None = None
) -> None:
    """Raise UserError for zero terminal SNR with a model that predicts noise.

    model: The inspected model, to name only the choices that it allows; None to name all.
    """
    if not zero_terminal_snr or prediction != "epsilon":
        return
    subject = "zero terminal SNR"
    if model is not None and model.zero_terminal_snr:
        subject = f"{model.path.name}: this model uses zero terminal SNR, which"
    ways = ", or ".join([*_allowed_changes(model), "choose another model"])
    raise UserError(
        f"{subject} is for models that predict velocity, not noise (epsilon): at the last step"
        " the input is pure noise",
        "Expected a model that predicts velocity",
        f"{ways[0].upper()}{ways[1:]}",
    )


def _allowed_changes(model: ModelFile | None) -> list[str]:
    """Return the changes that the model allows instead of zero terminal SNR with noise."""
    changes = ['set model.prediction to "v_prediction"']
    if model is None or not (model.zero_terminal_snr and model.zero_snr_is_sure):
        changes.append('set model.zero_terminal_snr to "off"')
    return changes


def _wrong_kind(model: ModelFile, family: FamilyName) -> UserError:
    what = f"{model.path.name}: this is {DESCRIPTIONS[model.kind]}"
    if model.kind in FAMILY_LABELS:
        return UserError(
            what,
            f'The chosen family is "{family}"',
            f'Set model.family to "{model.kind}", or choose another model',
            failure="model family",
        )
    usual = {0, *(spec.unet_channels for spec in registry.FAMILIES)}
    if model.kind == "unknown" and model.unet_channels not in usual:
        what += f"; its UNet has {model.unet_channels} input channels"
    name = NAMES.get(model.made_for or "", "")
    made_for = f" It was made for {name}" if name else ""
    is_component = model.kind in _COMPONENTS_AND_ADDITIONS
    return UserError(
        what + (f".{made_for}" if made_for else ""),
        f"Expected a complete {NAMES[family]} model",
        "Choose the base model that it belongs to" if is_component else "Choose another model",
        failure="model family",
    )
