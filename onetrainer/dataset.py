"""The pictures that a config names, listed: those to learn, and those that keep what is known."""

from dataclasses import replace

from onetrainer.config.denoising import Denoising
from onetrainer.config.train import TrainConfig
from onetrainer.dataset_index import DatasetIndex, index_folder


def is_pictures_alone(config: TrainConfig) -> bool:
    """Whether captions, masks and class pictures play no part: so a VAE learns."""
    return not isinstance(config.objective, Denoising)


def index_pictures(config: TrainConfig) -> DatasetIndex:
    """The pictures to learn. Raises UserError as `index_folder` does."""
    is_plain = is_pictures_alone(config)
    return index_folder(
        config.data.folder,
        resolution=config.data.resolution,
        include_subfolders=config.data.include_subfolders,
        require_captions=config.data.require_captions and not is_plain,
        masks="off" if is_plain else config.data.masks,
    )


def index_class_pictures(config: TrainConfig) -> DatasetIndex | None:
    """The class pictures, of which all is to be kept, so without masks.

    None if no folder is named, or the objective has no use for them.
    """
    if not config.data.class_folder or is_pictures_alone(config):
        return None
    index = index_folder(
        config.data.class_folder,
        resolution=config.data.resolution,
        include_subfolders=config.data.include_subfolders,
        require_captions=config.data.require_captions,
        label="Class pictures",
    )
    return replace(index, items=tuple(replace(item, is_prior=True) for item in index.items))
