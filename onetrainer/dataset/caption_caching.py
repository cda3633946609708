"""Decide whether captions are encoded once before training or in every step, and which."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from onetrainer.concepts.concepts import ConceptSettings, concepts_of
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.train import TrainConfig, trains_text_encoder
from onetrainer.dataset.batch_plan import BatchPlan
from onetrainer.dataset.caption_sampling import captions_vary, plain_caption, sample_caption
from onetrainer.dataset.items import Item

MAX_VARYING_CAPTIONS = 10_000
"""Most randomly varied captions to cache: 1.2 to 3.2 GB in 16 bits, depending on the family.
Most are used once, so encoding them within the steps takes no longer, but then the text encoders
are needed on the device.
"""


def encodes_text_each_step(config: TrainConfig) -> bool:
    """Return whether captions are encoded in every step.

    That is so if their encodings change, caching is off, or there are too many to cache.
    """
    if trains_text_encoder(config) or config.embeddings.tokens or not config.data.cache_text:
        return True
    training = config.training
    used = training.total_steps * training.batch_size * training.accumulation
    return used > MAX_VARYING_CAPTIONS and any(
        captions_vary(concept.captions) for concept in concepts_of(config)
    )


def caches_captions(config: TrainConfig) -> bool:
    """Return whether captions are encoded before training; a VAE is trained without any."""
    return not isinstance(config.objective, Reconstruction) and not encodes_text_each_step(config)


def captions_of_run(
    concepts: Sequence[ConceptSettings],
    trained: Sequence[Item],
    validation: Iterable[Item],
    plan: BatchPlan,
    steps: range,
) -> list[str]:
    """Return every caption that steps or the validation need, once, the empty one first.

    trained: the images that the plan is of. Only captions that vary depend on the steps.
    """
    captions = ["", *(plain_caption(item, concepts[item.concept]) for item in validation)]
    if any(captions_vary(concept.captions) for concept in concepts):
        for image in (image for step in steps for image in plan.at(step).images):
            item = trained[image.item]
            captions.append(sample_caption(item, concepts[item.concept], image.repeat))
        return list(dict.fromkeys(captions))
    for item in trained:
        concept = concepts[item.concept]
        without_dropout = concept.captions.model_copy(update={"dropout": 0.0})
        concept = replace(concept, captions=without_dropout)
        # An item's repeats use its captions in turn.
        captions += [sample_caption(item, concept, n) for n in range(len(item.captions))]
    return list(dict.fromkeys(captions))
