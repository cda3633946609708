"""The base model's files, out of which a fine-tuned model is written with what has changed."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from modules.formats.files.component_configs import MODELS
from modules.formats.models.model_folder import write_model_folder
from modules.formats.models.single_file import write_single_file
from modules.formats.models.stored_model import StoredVae, open_stored_model, open_stored_vae
from modules.formats.models.whole_model import Description, describe
from modules.formats.original.layout import Component
from modules.interfaces import ExportOptions, Family
from onetrainer.config.run.model import Model, base_of
from onetrainer.model_files import ModelFile, inspect_model

Trained = Mapping[Component, Mapping[str, Tensor]]
"""Tensors that have changed, by their names in the component, text encoders' with `text_model.`."""


@dataclass(frozen=True)
class ModelSource:
    """Where the parts of a loaded model came from.

    vae: the file or folder whose VAE takes the place of the model's own; None for its own.
    configs: the folder with each base's component configs, for single files.
    """

    model: ModelFile
    vae: Path | None = None
    configs: Path = MODELS

    @staticmethod
    def of(section: Model, *, configs: Path = MODELS) -> "ModelSource":
        """That of the config's base model. section.path: a folder or a file, not a hub name."""
        vae = Path(section.vae) if section.vae else None
        return ModelSource(inspect_model(Path(section.path)), vae, configs)

    def write(
        self, path: Path, family: Family, trained: Trained, options: ExportOptions
    ) -> list[Path]:
        """The whole model, complete or not at all; gives what was written.

        path: without an ending. What was not trained is read from its file now, tensor by tensor,
        and cast once. Raises UserError where the source is gone, or the disk has too little room.
        """
        with open_stored_model(self.model, self._description(family), vae=self.vae) as stored:
            model = stored.model
            components = {name: {**own, **trained.get(name, {})} for name, own in
                          model.components.items()}  # fmt: skip
            changed = replace(model, components=components, metadata=options.metadata)
            if options.model_format == "diffusers":
                write_model_folder(path, changed, dtype=options.dtype, overwrite=True)
                return [path]
            file = path.with_name(f"{path.name}.safetensors")
            write_single_file(
                file, changed, dtype=options.dtype, metadata=options.metadata, overwrite=True
            )
            return [file]

    def open_vae(self, family: Family) -> AbstractContextManager[StoredVae]:
        """The VAE that the family was loaded with, while the block lasts."""
        description = self._description(family)
        return open_stored_vae(
            self.vae or self.model.path, base_of(family.name), description.configs["vae"]
        )

    def _description(self, family: Family) -> Description:
        is_own = self.model.layout == "folder"
        return describe(
            self.model.path if is_own else self.configs / base_of(family.name),
            family.name,
            prediction=family.prediction,
            zero_terminal_snr=family.schedule.settings.zero_terminal_snr,
            is_own=is_own,
        )
