"""Files of sample prompts: lines of text with kohya's options, or a JSON list."""

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from onetrainer.captions.prompt_file import numbered_lines, read_text, require_prompts
from onetrainer.config.problems import problems_of
from onetrainer.config.run.sampling import SAMPLER_LABELS, Prompt
from onetrainer.errors import UserError
from onetrainer.json_file import parse
from onetrainer.presets.find import expanded

# sd-scripts' options at the end of a line, and those of its options that mean nothing here.
_OPTIONS: Mapping[str, str] = {
    **{"n": "negative", "w": "width", "h": "height", "d": "seed"},
    **{"s": "steps", "l": "guidance", "ss": "sampler"},
}
_OTHER_OPTIONS = ("g", "cn", "ctr", "rcfg", "fs")
_OPTION = re.compile(rf"(?:^|\s+)--({'|'.join((*_OPTIONS, *_OTHER_OPTIONS))})(?=\s|$)")
# Keys in the JSON files of sd-scripts and of OneTrainer before version 3, and those of the latter
# that its runs overrule.
_KEYS: Mapping[str, str] = {
    **{"negative_prompt": "negative", "enabled": "use"},
    **{"base_image_path": "image", "mask_image_path": "mask"},
    **{"scale": "guidance", "cfg_scale": "guidance"},
    **{"sample_steps": "steps", "diffusion_steps": "steps"},
    **{"sample_sampler": "sampler", "noise_scheduler": "sampler"},
}
_IGNORED = re.compile(
    r"frames|length|random_seed|text_encoder_\d_(layer_skip|sequence_length)"
    r"|transformer_attention_mask|force_last_timestep|sample_inpainting"
)


def read_sample_prompts(path: Path, *, place: str) -> list[Prompt]:
    """Return the prompts of a file; `model_fields_set` has what it says of each.

    place: The option or setting that names the file.

    Raises:
        UserError: If the file cannot be read, or an entry is wrong.
    """
    text = read_text(path, place=place)
    if path.suffix.lower() != ".json":
        lines = [(f"{path}: line {number}", line) for number, line in numbered_lines(text)]
        return [_prompt(_of_line(line, place), place, path) for place, line in lines]
    entries = parse(text, source=str(path))
    if not isinstance(entries, list):
        raise UserError(
            f"{path}: this is no list of prompts",
            'Expected a list such as [{"prompt": "a cat", "seed": 7}]',
            f"Correct it, or choose another file for {place}",
        )
    return [
        _prompt(_of_entry(entry), f"{path}: prompt {number}", path)
        for number, entry in enumerate(entries, start=1)
    ]


def prompt_of_line(line: str, *, place: str) -> Prompt:
    """Return the prompt of a line with options, such as "a cat --w 768 --d 7". Raises UserError."""
    return _prompt(_of_line(line, place), place, Path())


def sampler_name(text: str) -> str:
    """Return the name of a sampler by its name or label in any case; the text if there is none."""
    name = " ".join(text.split()).casefold()
    names = {label.casefold(): value for value, label in SAMPLER_LABELS.items()}
    return names.get(name, name if name in SAMPLER_LABELS else text)


def _of_line(line: str, place: str) -> dict[str, object]:
    text, *options = _OPTION.split(line)
    given = {key: value.strip() for key, value in zip(options[::2], options[1::2], strict=True)}
    for option in given.keys() & set(_OTHER_OPTIONS):
        raise UserError(
            f"{place}: --{option} has no meaning here",
            f"Expected options among {', '.join(f'--{known}' for known in _OPTIONS)}",
            "Remove it",
        )
    return {"prompt": text} | {_OPTIONS[key]: value for key, value in given.items()}


def _of_entry(entry: object) -> dict[str, object]:
    if not isinstance(entry, dict):
        return {"prompt": entry}
    known = {key: value for key, value in entry.items() if not _IGNORED.fullmatch(key)}
    return {_KEYS.get(key, key): value for key, value in known.items()}


def _prompt(values: dict[str, object], place: str, path: Path) -> Prompt:
    if isinstance(name := values.get("sampler"), str):
        values["sampler"] = sampler_name(name)
    for key in ("image", "mask"):
        if (name := values.get(key)) and isinstance(name, str):
            values[key] = str(path.parent / expanded(name))
    try:
        prompt = Prompt.model_validate(values)
    except ValidationError as error:
        problem = problems_of(error, Prompt)[0]
        raise UserError(
            f"{place}: {problem.path}: {problem.what}", problem.expected, problem.remedy
        ) from error
    require_prompts(place, [prompt.prompt, prompt.negative])
    return prompt
