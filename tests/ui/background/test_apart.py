"""Questions about very many images are answered in another process as they are in this one."""

import pytest

from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.images.image_file import ImageError
from onetrainer.presets.presets import load_document, resolve
from tests.each import each
from ui.background import answering_process, apart
from ui.background.background_query import CancelToken, QueryCancelledError
from ui.background.dataset_preview import compute_preview
from ui.background.image_check import check_images
from ui.editing.image_list import read_images

PREVIEWED = ("images", "validation", "steps", "epochs", "buckets", "skipped", "notes", "captions")


@pytest.fixture
def config(project):
    (project.parent / "pictures" / "broken.png").write_bytes(b"no image")
    return resolve(load_document(project), source=str(project))


@pytest.fixture(autouse=True)
def home(home):
    """The user's folder is the test's own, also in the other process."""


def described(answer):
    """What of an answer can be compared."""
    if hasattr(answer, "rows"):
        return [
            (row.path, row.name, row.item, row.reason, row.caption, row.mask, row.buckets)
            for row in answer.rows
        ]
    if hasattr(answer, "preview"):
        batches = answer.preview.batches
        found = [list(bucket.images) for bucket in answer.buckets]
        items = [*answer.preview.dataset.items]
        known = [getattr(answer.preview, name) for name in PREVIEWED]
        return found, items, known, [batches.at(step) for step in (0, 7, 40)]
    return answer


def fail(config, _):
    """Fails as only the other process can."""
    raise ImageError(config.data.folder, "it is cut off")


@each("ask", [read_images, compute_preview, check_images])
def test_another_process_gives_the_same_answers_and_what_comes_before_them(ask, config):
    early = []
    here, there = (
        answer(config, CancelToken(lambda *_: None, early.append))
        for answer in (ask, lambda *given: answering_process.answer_apart(ask, *given))
    )
    assert described(here) == described(there)
    if ask is read_images:  # what else comes early depends on what is known by then
        listed, again = early
        assert described(listed) == described(again) and not again.is_complete


def test_what_it_cannot_answer_is_said_here_and_it_ends_when_nobody_waits(config, monkeypatch):
    empty = TrainConfig.model_validate({"data": {}})
    with pytest.raises(UserError, match="no image folder is selected"):
        answering_process.answer_apart(read_images, empty, CancelToken(lambda *_: None))
    with pytest.raises(RuntimeError, match=r"ImageError: .*it is cut off"):
        answering_process.answer_apart(fail, config, CancelToken(lambda *_: None))
    started = []
    token = CancelToken(lambda *_: started[0].stop(), lambda _: None)  # as if it had crashed
    monkeypatch.setattr(token, "start", lambda begin: started.append(begin()) or started[0])
    with pytest.raises(UserError, match="has ended"):
        answering_process.answer_apart(compute_preview, config, token)
    token = CancelToken(lambda *_: None, lambda _: token.cancel())
    with pytest.raises(QueryCancelledError):
        answering_process.answer_apart(read_images, config, token)


def test_only_many_files_are_worth_a_process(config, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(answering_process, "answer_apart", lambda *_: asked.append("apart"))
    ask = apart.apart(lambda *_: asked.append("here"))
    for most in (10_000, 12):
        monkeypatch.setattr(apart, "MANY_FILES", most)
        ask(config, CancelToken(lambda *_: None))
    assert asked == ["here", "apart"]
    gone = config.model_copy(
        update={"data": config.data.model_copy(update={"folder": str(tmp_path / "gone")})}
    )
    assert not apart.has_many_files(gone)
