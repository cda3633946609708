"""The preview that pages share: computed again when settings or image folders change."""

import pytest

from tests.ui.fake_paint import paint
from tests.ui.pumping import deliver_until
from ui.background.current_preview import CurrentPreview
from ui.background.folder_times import FolderWatch, folder_times


@pytest.fixture
def current(draft, project, jobs):
    draft.load(project)
    return CurrentPreview(draft, jobs, lambda _ms, call: call())


def images_of(current, jobs):
    """The number of images, once it is known exactly."""
    deliver_until(jobs, lambda: current.get() and not current.query.is_working)
    return len(current.get().preview.dataset.items)


def look_again(current, jobs):
    """Looks again, and waits for what comes of it."""
    changes = []
    current.look_again(lambda: changes.append(True))
    deliver_until(jobs, lambda: changes)


def test_files_that_come_and_go_are_seen_when_it_looks_again(current, draft, jobs, project):
    folder = project.parent / "pictures"
    (folder / "below").mkdir()
    draft.set("data.include_subfolders", True)
    before = images_of(current, jobs)
    more = (folder / "more.png", folder / "below" / "more.png")
    for place, path in enumerate(more):
        paint(place, 1.0, size=64).save(path)
        look_again(current, jobs)
        assert images_of(current, jobs) == before + 1 + place
    more[0].unlink()
    look_again(current, jobs)
    assert images_of(current, jobs) == before + 1


def test_nothing_is_computed_again_while_the_folders_stay_the_same(current, draft, jobs):
    images_of(current, jobs)
    answer, changes, ended = current.get(), [], []
    current.look_again(lambda: changes.append(True))
    jobs.run(lambda: folder_times(draft.valid_config()), ended.append)
    deliver_until(jobs, lambda: ended)
    assert (current.get() is answer, changes) == (True, [])


def test_what_the_window_writes_itself_is_no_reason_to_read_all_again(draft, jobs, project):
    watch, config, calls = FolderWatch(jobs), draft.valid_config(), []
    watch.noting(lambda *_: None)(config, None)
    own, other = (project.parent / "pictures" / name for name in ("own.txt", "other.txt"))
    for path in (own, other):
        path.write_text("a caption")
        if path is own:
            watch.note_own([path.resolve()])
        watch.compare(config, lambda path=path: calls.append(path))
        ended = []
        jobs.run(lambda: folder_times(config), ended.append)
        deliver_until(jobs, lambda ended=ended, path=path: ended and (calls or path is own))
    assert calls == [other]
