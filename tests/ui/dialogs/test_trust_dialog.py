"""Code of a person's own is run after they have seen it and said yes, and not otherwise."""

import json
from functools import partial

import pytest

from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.rewards.reward import Reward
from onetrainer.config.train import TrainConfig
from onetrainer.trust import trusted_files
from tests.ui.pumping import once_asked
from ui.dialogs.trust_dialog import confirm_draft, confirm_functions, untrusted_functions
from ui.model.draft import Draft

CODE = "import math\n\n\ndef mine(pictures, prompts):\n    return [0.0] * len(prompts)\n"


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(CODE)
    return path


def config_with(*specs):
    rewards = tuple(Reward(reward="function", function=spec) for spec in specs)
    return TrainConfig(objective=AlignProp(rewards=rewards))


def answering(root, widgets, seen, *answers, meanwhile=lambda: None):
    """Has the dialogs that come up read, and answered one after the other.

    meanwhile: what happens after the first one was read, and before it is answered.
    """
    left = list(answers)

    def answer():
        box = widgets.named["answer code"]
        assert box.cget("wrap") == "word"  # nothing is out of sight
        seen.append(box.get("1.0", "end-1c"))
        if len(seen) == 1:
            meanwhile()
        do = left.pop(0)
        if left:
            once_asked(root, answer)
        widgets.buttons[f"answer {do}"].widget.invoke()

    once_asked(root, answer)


def test_yes_allows_the_very_code_that_was_shown(root, widgets, context, own):
    seen = []
    answering(root, widgets, seen, "run")
    assert confirm_functions(context, config_with(f"{own}:mine"))
    lines = enumerate(CODE.splitlines(), start=1)
    assert seen == ["\n".join(f"{number:>4}  {line}".rstrip() for number, line in lines)]
    assert trusted_files.status(f"{own}:mine") == "trusted"
    assert confirm_functions(context, config_with(f"{own}:mine"))  # without a question


def test_all_that_it_imports_from_beside_it_is_shown_to_its_last_line(root, widgets, context, own):
    own.write_text("import beside\n" + CODE)
    own.with_name("beside.py").write_text("# a line\n" * 3000 + "# the last\n")
    seen = []
    answering(root, widgets, seen, "run")
    assert confirm_functions(context, config_with(f"{own}:mine"))
    assert seen[0].startswith(f"# {own}:\n   1  import beside")
    assert seen[0].endswith("3001  # the last")


def test_no_allows_nothing(root, widgets, context, own):
    answering(root, widgets, [], "")
    assert not confirm_functions(context, config_with(f"{own}:mine"))
    assert trusted_files.status(f"{own}:mine") == "unknown"


def test_a_file_that_changes_while_it_is_read_is_shown_again(root, widgets, context, own):
    seen = []
    change = partial(own.write_text, CODE + "\nprint('and this')\n")
    answering(root, widgets, seen, "run", "", meanwhile=change)
    assert not confirm_functions(context, config_with(f"{own}:mine"))
    assert "and this" not in seen[0]
    assert "and this" in seen[1]
    assert trusted_files.status(f"{own}:mine") == "changed"


def test_each_function_is_asked_for_once_and_nothing_else_is(own, home, tmp_path):
    spec, missing = f"{own}:mine", f"{tmp_path / 'no.py'}:mine"
    assert list(untrusted_functions(config_with(spec, spec, missing))) == [spec]
    assert list(untrusted_functions(TrainConfig())) == []
    left = TrainConfig(objective=AlignProp(rewards=(Reward(reward="color", function=spec),)))
    assert list(untrusted_functions(left)) == []


def test_what_a_file_from_elsewhere_does_outside_is_asked_for_and_what_was_written_here_is_not(
    root, widgets, context, tmp_path
):
    file = tmp_path / "strange" / "a.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"data": {"cache_folder": str(tmp_path / "precious")}}))
    draft = context.draft = Draft()
    draft.load(file)

    def press(answer):
        once_asked(root, lambda: widgets.buttons[f"answer {answer}"].widget.invoke())

    press("")
    assert not confirm_draft(context, draft.config())
    press("start")
    assert confirm_draft(context, draft.config())
    assert confirm_draft(context, draft.config())  # without a question
    draft.set("data.cache_folder", str(tmp_path / "mine"))
    assert confirm_draft(context, draft.config())  # written here
