"""Small base models of every family, as folders and as single files; nobody writes into them."""

import pytest

from modules.jobs.convert import convert
from onetrainer.jobs.convert_request import ConvertRequest
from tests.modules.formats import small_models


@pytest.fixture(scope="session")
def configs(tmp_path_factory):
    return small_models.write_configs(tmp_path_factory.mktemp("configs") / "models")


class Made(dict):
    """Models by family and prediction, each made when it is first asked for."""

    def __init__(self, make):
        self._make = make

    def __missing__(self, key):
        self[key] = self._make(*key)
        return self[key]


@pytest.fixture(scope="session")
def folders(tmp_path_factory, configs):
    """Each family's folder."""
    root = tmp_path_factory.mktemp("folders")

    def make(family, prediction):
        folder = root / f"{family}-{prediction}"
        return small_models.write_folder(folder, family, configs, prediction=prediction)

    return Made(make)


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

    def make(*key):
        path = root / f"{folders[key].name}.safetensors"
        request = ConvertRequest(source=str(folders[key]), target=str(path))
        convert(request, lambda event: None, configs=configs)
        return path

    return Made(make)
