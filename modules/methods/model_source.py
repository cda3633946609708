"""The base model's files, from which a fine-tuned model is written with its changes."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from modules.formats.files.component_configs import MODELS
from modules.formats.models.model_folder import write_model_folder
from modules.formats.models.single_file import write_single_file
from modules.formats.models.stored_configs import config_folder, has_own_configs
from modules.formats.models.stored_model import StoredVae, open_stored_model, open_stored_vae
from modules.formats.models.whole_model import Description, describe
from modules.interfaces import ExportOptions, Family
from onetrainer.config.run.model import Model
from onetrainer.model_files.inspection import inspect_model
from onetrainer.model_files.kinds import ModelFile

Trained = Mapping[str, Mapping[str, Tensor]]
"""Trained tensors by component, then by name there, text encoders' with `text_model.`."""


@dataclass(frozen=True)
class ModelSource:
    """The files a model was loaded from.

    Attributes:
        vae: File or folder of another VAE; None for the model's own.
        configs: Folder with each base's component configs, for single files.
    """

    model: ModelFile
    vae: Path | None = None
    configs: Path = MODELS

    @staticmethod
    def of(section: Model, *, configs: Path = MODELS) -> "ModelSource":
        """Return the files of the config's base model, whose path is a folder or a file."""
        vae = Path(section.vae) if section.vae else None
        return ModelSource(inspect_model(Path(section.path)), vae, configs)

    def write(
        self, path: Path, family: Family, trained: Trained, options: ExportOptions
    ) -> list[Path]:
        """Write the whole model, complete or not at all, and return the paths written.

        Untrained tensors are read from the source now, one by one, and cast once.

        path: Without suffix.

        Raises:
            UserError: If the source is gone, or the disk has too little space.
        """
        with open_stored_model(self.model, self._description(family), vae=self.vae) as stored:
            model = stored.model
            components = {
                name: {**tensors, **trained.get(name, {})}
                for name, tensors in model.components.items()
            }
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
        """Open the VAE that the family was loaded with."""
        description = self._description(family)
        return open_stored_vae(
            self.vae or self.model.path, family.spec.vae, description.configs["vae"]
        )

    def _description(self, family: Family) -> Description:
        return describe(
            config_folder(self.model, family.spec.configs_in(self.configs)),
            family.spec,
            prediction=family.process.prediction,
            zero_terminal_snr=family.process.zero_terminal_snr,
            is_model_folder=has_own_configs(self.model),
        )
