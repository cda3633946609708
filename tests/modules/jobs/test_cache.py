"""The job of caching leaves nothing for a run to encode."""

import pytest

from modules.jobs.cache import cache
from modules.jobs.train import train
from onetrainer.cache.store import cache_report
from onetrainer.errors import UserError
from onetrainer.jobs.plan_request import CacheRequest
from onetrainer.presets.presets import load_document, resolve, with_absolute_paths
from onetrainer.run.events import Phase
from tests import runs


def request_of(config, **changes):
    document = load_document(config)
    for section, values in changes.items():
        document[section] = {**document.get(section, {}), **values}
    resolved = with_absolute_paths(resolve(document, source=str(config)))
    return CacheRequest(config=resolved, folder=str(config.parent / "cache"))


def kept(folder):
    return {entry.kind: entry.entries for entry in cache_report(folder).kinds}


def test_a_run_finds_all_that_the_job_has_encoded(tmp_path):
    config = runs.write_project(tmp_path)
    reported = []
    data = {"cache_folder": str(tmp_path / "cache")}
    done = cache(request_of(config, data=data), reported.append)
    where = f"4 images are in the cache {tmp_path / 'cache'},"
    assert done.summary == [f"{where} all of them new."]
    assert Phase("caching", 4, 4) in reported
    before = kept(tmp_path / "cache")
    assert train(runs.new_run(config, data=data)) == 0
    assert kept(tmp_path / "cache") == before


def test_job_reports_how_many_images_were_missing_from_the_cache(tmp_path):
    config = runs.write_project(tmp_path)
    request = request_of(config)
    cache(request, lambda event: None)
    assert ", none of them new." in cache(request, lambda event: None).summary[0]
    path = tmp_path / "pictures" / "picture-1.png"
    path.write_bytes(path.read_bytes() + b"another file now")
    assert "4 images are in the cache" in (
        reported := cache(request, lambda event: None).summary[0]
    )
    assert reported.endswith(", 1 new.")


def test_left_out_images_are_named(tmp_path):
    config = runs.write_project(tmp_path)
    path = tmp_path / "pictures" / "picture-1.png"
    path.write_bytes(path.read_bytes()[:-100])
    summary = cache(request_of(config), lambda event: None).summary
    assert summary[1] == "1 left out:"
    assert "picture-1.png" in summary[2]


def test_a_config_without_images_has_nothing_to_encode(tmp_path):
    config = runs.write_project(tmp_path)
    request = request_of(config, objective={"kind": "alignprop"})
    with pytest.raises(UserError, match="prompts alone"):
        cache(request, lambda event: None)
