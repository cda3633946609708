"""Small base models of every family, as folders and as single files; nobody writes into them."""

import pytest

from modules.jobs.convert import convert
from onetrainer.jobs.convert_request import ConvertRequest
from tests.modules.formats import small_models
from tests.modules.formats.small_models import FAMILIES


@pytest.fixture(scope="session")
def configs(tmp_path_factory):
    return small_models.write_configs(tmp_path_factory.mktemp("configs") / "models")


@pytest.fixture(scope="session")
def folders(tmp_path_factory, configs):
    """Each family's folder."""
    root = tmp_path_factory.mktemp("folders")
    return {
        (family, prediction): small_models.write_folder(
            root / f"{family}-{prediction}", family, configs, prediction=prediction
        )
        for family, prediction in FAMILIES
    }


@pytest.fixture
def run(configs):
    """Converts, and gives the notes."""

    def run(source, target, **options):
        request = ConvertRequest(source=str(source), target=str(target), **options)
        finished = convert(request, lambda event: None, configs=configs)
        assert finished.outputs == [str(target)]
        return finished.summary

    return run


@pytest.fixture(scope="session")
def singles(tmp_path_factory, configs, folders):
    """Each family's folder as a single file of ours."""
    root = tmp_path_factory.mktemp("singles")
    made = {key: root / f"{folder.name}.safetensors" for key, folder in folders.items()}
    for key, path in made.items():
        request = ConvertRequest(source=str(folders[key]), target=str(path))
        convert(request, lambda event: None, configs=configs)
    return made
