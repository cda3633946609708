"""Check a run's images before it starts.

What reads images is imported only when needed: importing Pillow would take most of the time of a
check of the settings.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer import program
from onetrainer.captions.placeholder_tokens import missing_tokens
from onetrainer.concepts.concepts import PRIOR_ROLES, ConceptSettings
from onetrainer.concepts.folder_listing import CONDITIONING_SUFFIX, MASK_SUFFIX
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Offer, Problem, UserError, sentence, some_of, warning
from onetrainer.families.registry import family_spec
from onetrainer.json_file import shortened
from onetrainer.metrics.messages import FEW_IMAGES
from onetrainer.rules.data import is_same_folder, masks_path, sibling_path, subfolders_path

if TYPE_CHECKING:
    from onetrainer.dataset.items import DatasetIndex
    from onetrainer.dataset.pixel_facts import PixelFacts

_UNMEASURED = 4  # times the measured images: more are kept from training for nothing
_SHOWN_IMAGES = 5

Indexes = Mapping[int, "DatasetIndex"]
"""Contents of concepts by their index, without those that cannot be read."""


def check_images(config: TrainConfig) -> list[Problem]:
    """Return problems with the images, each at the setting of its folder."""
    from onetrainer.cache.run_entries import open_image_index
    from onetrainer.dataset.dataset import reads_image_folders, used_concepts, uses_images_only
    from onetrainer.dataset.pixel_facts import PixelFacts
    from onetrainer.images.image_index import recent_facts

    if not reads_image_folders(config):
        return []
    concepts = used_concepts(config)
    with open_image_index(config) as known:
        facts = PixelFacts(known or recent_facts())
        indexes, problems = _list_folders(config, concepts, facts)
        # What was found in their pixels by now; the validation split is as if they were sound.
        sound = {
            number: facts.apply_to(index, concepts[number]) for number, index in indexes.items()
        }
    is_plain = uses_images_only(config)
    problems += _subfolder_problems(concepts, indexes)
    problems += _numbered_folder_problems(config, concepts)
    for number, index in sound.items():
        is_reported = is_plain or _is_reported_by_rules(config, concepts[number])
        problems += _index_problems(concepts[number], index, has_captions=not is_reported)
        problems += _finding_problems(concepts[number], index)
    if is_plain:
        unused = (("data.masks", "masks", "off"), ("data.class_folder", "class images", ""))
        problems += [
            warning(
                setting,
                f"a VAE is trained without {noun}",
                "They have no effect",
                "Remove them.",
                to=empty,
            )
            for setting, noun, empty in unused
            if getattr(config.data, setting.removeprefix("data.")) != empty
        ]
    else:
        problems += _mask_problems(config, concepts, indexes)
        problems += _conditioning_problems(config, indexes)
        problems += _shared_file_problems(concepts, indexes)
    return [*problems, *_split_problems(config, concepts, indexes)]


def unreadable_problem(path: str, error: OSError) -> Problem:
    """Return the problem of a setting whose path the system does not let us read."""
    reason = (error.strerror or str(error)).lower()
    setting = shortened(Path(str(error.filename or "")))
    return Problem(path, f"{setting}: {reason}", "Expected a readable path", "Check it.")


def _list_folders(
    config: TrainConfig, concepts: Sequence[ConceptSettings], facts: "PixelFacts"
) -> "tuple[dict[int, DatasetIndex], list[Problem]]":
    from onetrainer.captions.caption_list import read_caption_list
    from onetrainer.dataset.items import index_concept

    indexes, problems = {}, []
    for number, concept in enumerate(concepts):
        setting = concept.setting_path
        try:
            if concept.caption_source == "list" and concept.caption_list is not None:
                setting = sibling_path(concept, "caption_list")
                read_caption_list(concept.caption_list)
                setting = concept.setting_path
            required = concept.require_captions and not _is_reported_by_rules(config, concept)
            seen = replace(concept, require_captions=required)
            indexes[number] = index_concept(seen, number=number, headers=facts.headers)
        except UserError as error:
            problems.append(Problem(setting, error.what, error.expected, error.remedy))
        except OSError as error:  # a name too long, a folder that may not be looked into
            problems.append(unreadable_problem(setting, error))
    return indexes, problems


def _is_reported_by_rules(config: TrainConfig, concept: ConceptSettings) -> bool:
    """Return whether the settings alone show that a folder has no captions."""
    is_empty = not concept.caption_text.strip() and not concept.trigger
    is_ruled = concept.setting_path != "validation.folder" or bool(config.data.folder)
    return concept.caption_source == "text" and is_empty and is_ruled


def _subfolder_problems(concepts: Sequence[ConceptSettings], indexes: Indexes) -> Iterator[Problem]:
    """Yield warnings about images in subfolders that no folder includes."""
    from onetrainer.concepts.folder_listing import count_images

    named = {Path(os.path.realpath(each.folder)) for each in concepts}
    for number, index in indexes.items():
        counts = [
            count
            for folder in index.inner
            if Path(os.path.realpath(folder)) not in named and (count := count_images(folder))
        ]
        if counts:
            more = f"{sum(counts)} more image{'s are' if sum(counts) > 1 else ' is'}"
            within = f"{len(counts)} subfolders" if len(counts) > 1 else "a subfolder"
            yield warning(
                concepts[number].setting_path,
                f"{more} in {within} and will not be used",
                "Only images in the folder itself are used",
                "Turn on subfolders to include them.",
                fix=Fix(subfolders_path(concepts[number]), True),
            )


def _numbered_folder_problems(
    config: TrainConfig, concepts: Sequence[ConceptSettings]
) -> Iterator[Problem]:
    """Yield warnings that the names of folders hold repeats and words, with concepts of them."""
    from onetrainer.concepts.numbered_folders import numbered_concepts, numbered_text

    for concept in concepts:
        _, is_further, place = concept.setting_path.removesuffix(".folder").partition(".concepts.")
        if not is_further and concept.setting_path != "data.folder":
            continue
        if made := numbered_concepts(concept.folder):
            entries = [*config.data.concepts]
            at = int(place) if is_further else len(entries)
            entries[at : at + 1] = made
            documents = [entry.model_dump(mode="json") for entry in entries]
            yield warning(
                concept.setting_path,
                numbered_text(made),
                "They are used only if each is a folder of its own (data.concepts)",
                "Make concepts of them, in a terminal with:"
                f' {program()} concepts "{concept.folder}"',
                fix=Offer(
                    "data.concepts",
                    documents,
                    also=() if is_further else (Fix("data.folder", ""),),
                    label=f"Make {len(made)} concepts from these folders"
                    if len(made) > 1
                    else "Make a concept from this folder",
                ),
            )


def _split_problems(
    config: TrainConfig, concepts: Sequence[ConceptSettings], indexes: Indexes
) -> Iterator[Problem]:
    """Yield problems of the validation split; none while a folder cannot be read."""
    from onetrainer.dataset.dataset import split

    is_whole = len(indexes) == len(concepts)
    if not is_whole or not any(concept.role == "train" for concept in concepts):
        return
    folder = next((each.setting_path for each in concepts if each.role == "validation"), "")
    try:
        dataset = split(config, concepts, [indexes[number] for number in range(len(concepts))])
    except UserError as error:
        yield Problem(folder or "validation.use", error.what, error.expected, error.remedy)
        return
    if dataset.validation is not None and len(dataset.validation) < FEW_IMAGES:
        count = len(dataset.validation)
        yield warning(
            folder or "validation.split",
            f"only {count} image{'s' if count > 1 else ''} would be used for validation, too few"
            " for a reliable loss",
            f"Expected at least {FEW_IMAGES}; ten or more are better",
            "Put more images into the folder."
            if folder
            else "Increase the validation split, or choose a folder of validation images.",
        )
    measured = len(dataset.validation or ())
    if not folder and measured and dataset.held_out > _UNMEASURED * measured:
        share = measured / (dataset.held_out + len(dataset.items))
        yield warning(
            "validation.split",
            f"{dataset.held_out:,} images are kept from training and {measured:,} are measured",
            "Expected not many more than are measured (validation.max_images)",
            "Lower the split, so that the others are trained, or measure more.",
            to=float(f"{share:.2g}"),
        )
    if isinstance(config.objective, AlignProp):
        return  # tokens are trained with prompts
    trained = [item for item in dataset.items if not item.is_prior]
    used = [concepts[number] for number in {item.concept for item in trained}]
    texts = [text for each in used for text in (each.trigger, each.captions.template)]
    texts += [caption for item in trained for caption in item.captions]
    yield from missing_token_problems(config, texts)


def missing_token_problems(
    config: TrainConfig,
    captions: Sequence[str],
    *,
    are_prompts: bool = False,
    is_complete: bool = True,
) -> list[Problem]:
    """Return problems about tokens that no caption contains; errors if nothing else is trained.

    are_prompts: whether the captions are prompts of reward training. is_complete: whether the
    tokens have no other text to be trained with.
    """
    trained = {
        f"embeddings.tokens.{number}.token": section.token
        for number, section in enumerate(config.embeddings.tokens)
        if section.train
    }
    absent = missing_tokens(captions, list(trained.values()))
    is_alone = (
        is_complete and isinstance(config.method, EmbeddingOnly) and len(absent) == len(trained)
    )
    noun, where, into = (
        ("prompt", "prompts", "prompts (objective.prompts)")
        if are_prompts
        else ("caption", "captions of the images", "caption files")
    )
    return [
        Problem(
            path,
            f'no {noun} contains the token "{token}", so it cannot be trained',
            f"Expected it in the {where}",
            f'Write it into the {into}, such as "a photo of {token}".',
            "error" if is_alone else "warning",
        )
        for path, token in trained.items()
        if token in absent
    ]


def _shared_file_problems(
    concepts: Sequence[ConceptSettings], indexes: Indexes
) -> Iterator[Problem]:
    """Yield problems about files in two folders at once, such as a folder within a folder.

    Training images that are validation images as well need none, as they are left out of training.
    """
    from onetrainer.dataset.dataset import real_paths

    places = {number: real_paths(index.items) for number, index in indexes.items()}
    pairs = sorted(combinations(indexes, 2), key=lambda pair: pair[1])
    for earlier, later in pairs:
        one, other = concepts[earlier], concepts[later]
        both = [item.path.name for at, item in places[later].items() if at in places[earlier]]
        if both and not is_same_folder(one, other):
            yield from _shared_file_problem(one, other, both)


def _shared_file_problem(
    one: ConceptSettings, other: ConceptSettings, both: list[str]
) -> Iterator[Problem]:
    some = ", ".join(both[:_SHOWN_IMAGES]) + (" …" if len(both) > _SHOWN_IMAGES else "")
    roles = {one.role, other.role}
    if "validation" in roles:
        if roles & PRIOR_ROLES:
            measured, kept = (one, other) if one.role == "validation" else (other, one)
            yield Problem(
                measured.setting_path,
                f"{len(both)} of its images are also class images ({kept.setting_path}): {some}",
                "Expected images that are not used in training",
                "Choose another folder, or leave it empty to split off some of the images.",
            )
    elif "train" in roles and roles & PRIOR_ROLES:
        trained, kept = (one, other) if one.role == "train" else (other, one)
        yield Problem(
            kept.setting_path,
            f"{len(both)} of its images are also training images ({trained.setting_path}): {some}",
            "Expected different images, so neither folder inside the other",
            "Move one of the folders out of the other, or do not include subfolders.",
        )
    else:
        yield warning(
            other.setting_path,
            f"{len(both)} of its images are also in {one.setting_path}: {some}",
            "They are used as often as both together say",
            "Move one of the folders out of the other, if that is not intended.",
        )


def _index_problems(
    concept: ConceptSettings, index: "DatasetIndex", *, has_captions: bool = True
) -> Iterator[Problem]:
    from onetrainer.dataset.items import counted_images, no_images_error

    setting = concept.setting_path
    if not index.items:
        error = no_images_error(concept.folder, index.skipped, recursive=concept.recursive)
        yield Problem(setting, error.what, error.expected, error.remedy)
        return
    if index.skipped:
        names = [each.described for each in index.skipped]
        yield warning(
            setting,
            f"{len(names)} image{'s' if len(names) > 1 else ''} cannot be used:"
            f" {some_of(names, _SHOWN_IMAGES)}",
            "The others will be used",
            "Replace or remove what cannot be used.",
        )
    if index.uncaptioned and has_captions:
        prompt = "trigger words only" if concept.trigger.strip() else "an empty prompt"
        yield warning(
            setting,
            f"{counted_images(index.uncaptioned, len(index.items))} no caption",
            f"Images without one are trained with {prompt}{index.missed and f'; {index.missed}'}",
            "Add a line for each to the caption list."
            if concept.caption_source == "list"
            else "Add a .txt file of the same name for each.",
        )


def _finding_problems(concept: ConceptSettings, index: "DatasetIndex") -> Iterator[Problem]:
    """Yield the findings about a folder's files as problems of its setting."""
    from onetrainer.images.findings import SAID_OTHERWISE, group_findings

    for group in group_findings(index.findings, concept.folder):
        is_about_all = group.kind == "mask-missing" and not index.masked
        if group.kind not in (*SAID_OTHERWISE, "repeats") and not is_about_all:
            severity = "error" if group.severity == "error" else "warning"
            remedy = sentence(group.remedy)
            yield Problem(concept.setting_path, group.what, "", remedy, severity)


def _mask_problems(
    config: TrainConfig, concepts: Sequence[ConceptSettings], indexes: Indexes
) -> Iterator[Problem]:
    """Yield settings that enable masks while none of their images has one.

    Settings with a folder that cannot be read are skipped.
    """
    groups: dict[str, list[int]] = {}
    for number, concept in enumerate(concepts):
        if concept.masks != "off":
            groups.setdefault(masks_path(config, concept), []).append(number)
    for setting, numbers in groups.items():
        is_whole = all(number in indexes for number in numbers)
        if is_whole and not any(indexes[number].masked for number in numbers):
            example, first = indexes[numbers[0]].items[0].path, concepts[numbers[0]]
            wanted = "Expected images with transparent parts"
            if first.masks == "files" and first.mask_folder is not None:
                wanted = f'A mask has the name of its image, "{example.stem}", in its mask folder'
            elif first.masks == "files":
                wanted = (
                    f'A mask is a file like "{example.stem}{MASK_SUFFIX}" next to "{example.name}"'
                )
            yield warning(
                setting,
                "no image has a mask, so images are trained whole",
                wanted,
                "Add masks, or turn them off.",
                to="off",
            )


def _conditioning_problems(config: TrainConfig, indexes: Indexes) -> Iterator[Problem]:
    """Yield a problem if conditioning images are enabled and there are none."""
    sees_masked = family_spec(config.model.family).sees_masked_image
    if config.data.conditioning != "files" or not sees_masked or not indexes:
        return
    items = [item for index in indexes.values() for item in index.items]
    if not any(item.conditioning is not None for item in items):
        example = items[0].path
        wanted = f'It is a file like "{example.stem}{CONDITIONING_SUFFIX}" next to "{example.name}"'
        if config.data.conditioning_folder:
            wanted = f'It has the name of its image, "{example.stem}", in the conditioning folder'
        yield warning(
            "data.conditioning",
            "no image has a conditioning image",
            wanted,
            "Add some, or choose another conditioning.",
            to="blank",
        )
