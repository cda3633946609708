"""Small base models of every family, as folders and as single files; nobody writes into them."""

import pytest

from modules import worker
from modules.jobs.convert import convert
from onetrainer.cli import jobs
from onetrainer.errors import UserError
from onetrainer.jobs.convert_request import ConvertRequest
from onetrainer.run.failures import failed
from onetrainer.run.wire import decode_event, encode_event
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


class _Here:
    """A job without its process: what the worker does, and the events as they would arrive."""

    def __init__(self, name, request):
        self._name, self._request = name, request.model_dump_json()

    def events(self):
        made = []
        try:
            made.append(worker._run_job(self._name, self._request, made.append))
        except UserError as error:
            made.append(failed(error))
        return (decode_event(encode_event(event, time=0)) for event in made)


@pytest.fixture
def in_this_process(monkeypatch, tmp_path):
    """Commands run their jobs here; what they write for a while is in the test's folder."""
    monkeypatch.setattr(jobs, "Job", _Here)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
