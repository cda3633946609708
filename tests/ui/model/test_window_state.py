from pathlib import Path

from onetrainer.presets.find import BUILT_IN
from onetrainer.run.known_folders import known_run_folders
from tests.corrupted import corruptions, require_type
from ui.model.draft import Draft
from ui.model.window_state import WindowState, read_state, state_file, write_state


def test_what_is_being_edited_comes_back(home, project):
    draft, other = Draft(), Draft()
    draft.load(project)
    draft.load(BUILT_IN / "sd15" / "lora.json")
    assert draft.origin.user_settings
    draft.set("training.steps", "many")
    state = WindowState(mode="light", geometry="1000x700+1+2", run_folder="/runs/a-001")
    state.store_draft(draft)
    write_state(state)
    again = read_state()
    again.restore_draft(other)
    assert (again.mode, again.geometry, again.run_folder) == (
        "light",
        "1000x700+1+2",
        "/runs/a-001",
    )
    assert other.document == draft.document
    assert other.origin == draft.origin
    assert other.changed() == ["training.steps"]


def test_folders_of_runs_are_remembered_the_last_one_first(home, tmp_path):
    state = WindowState()
    for folder in ("one/a-001", "two/b-001", "one/c-001"):
        state.show_run(tmp_path / folder)
    state.show_run(None)
    write_state(state)
    assert read_state().run_folder == ""
    assert known_run_folders() == [tmp_path / "one", tmp_path / "two"]


def test_models_are_looked_for_where_one_was_used_else_in_a_named_folder_else_at_home(
    home, tmp_path
):
    gone, used, named = (tmp_path / name for name in ("gone", "used", "named"))
    assert WindowState().folder_of_models() == str(home)
    used.mkdir()
    named.mkdir()
    state = WindowState(model_folders=[str(tmp_path), str(named), str(gone)])
    for model in ("a/name-on-the-hub", gone / "base.safetensors"):
        state.remember_model(str(model))
    assert state.folder_of_models() == str(named)
    state.models.append(str(used / "base.safetensors"))
    assert state.folder_of_models() == str(used)


def test_no_file_and_a_broken_file_mean_a_fresh_state(home):
    assert read_state() == WindowState()
    state_file().parent.mkdir(parents=True)
    for text in ("", "[1]", '{"mode": 3, "draft": "x", "else": 1}'):
        state_file().write_text(text)
        assert read_state() == WindowState()


def test_a_draft_of_an_older_version_takes_the_new_defaults(home):
    draft = Draft()
    state = WindowState(draft={"training": {"steps": 5}, "gone": {"x": 1}}, base={})
    state.restore_draft(draft)
    assert draft.value("training.steps") == 5
    assert draft.value("training.batch_size") == 1
    assert draft.value("gone") is None


def test_two_windows_keep_what_the_other_one_changed(home):
    write_state(WindowState(page="data", run_folder="/runs/a-001"))
    first, second = read_state(), read_state()
    first.mode, first.draft, first.base = "light", {"a": 1}, {"a": 0}
    second.page = "run"
    second.advanced.append("data")
    for state in (first, second, first):
        write_state(state)
    both = read_state()
    assert (both.mode, both.page, both.advanced) == ("light", "run", ["data"])
    assert (both.draft, both.base, both.run_folder) == ({"a": 1}, {"a": 0}, "/runs/a-001")
    second.draft = {"b": 2}  # its base is its own, not that of the first window
    write_state(second)
    assert (read_state().draft, read_state().base) == ({"b": 2}, {})


def test_a_state_is_read_and_shown_whatever_is_in_its_file():
    state = WindowState("1x1", folders=["/a"], scales={"1x1": 1.5}, preset={"name": "a"})
    state.draft = state.base = {"version": 1, "training": {"steps": 3}}
    write_state(state)
    for case, content in corruptions(state_file().read_bytes()):
        state_file().write_bytes(content)
        found = read_state()
        require_type(found, WindowState, case)
        found.restore_draft(Draft())
        found.scale_of("1x1")
        assert Path(found.folder_of_models()).is_absolute(), case
