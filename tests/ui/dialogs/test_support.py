"""The doctor's findings and reports of runs, as the window offers them."""

import pytest

from onetrainer.run.run_folder import create_run
from onetrainer.support.findings import Finding, problem
from tests.ui.pumping import deliver_until, once_asked, pump_until
from ui.actions.support_actions import SupportActions

FOUND = [Finding("python", "3.11"), problem("gpu", "hidden", "Show it.")]


@pytest.fixture
def said(context, monkeypatch):
    """What the window says and opens; the doctor's findings are FOUND."""
    said = []
    context.act.show_message = said.append
    context.act.open_path = said.append
    monkeypatch.setattr("onetrainer.support.doctor.examine", lambda: iter(FOUND))
    return said


def test_findings_are_shown_copied_and_completed_by_a_self_test(
    root, widgets, context, said, monkeypatch
):
    tested, shown, copied = [], [], []

    def run_self_test(**request):
        tested.append(request)
        return Finding("self-test", "five steps")

    def press(*names):
        shown.append(widgets.named["answer code"].get("1.0", "end-1c"))
        can_test = "answer test" in widgets.buttons
        if can_test:
            once_asked(root, lambda: press("answer "))
        for name in names:
            button = widgets.buttons[name]
            button.widget.invoke()
            if name == "answer copy":
                copied.append(button.widget.cget("text"))

    monkeypatch.setattr("onetrainer.support.self_test.run_self_test", run_self_test)
    once_asked(root, lambda: press("answer copy", "answer test"))
    SupportActions(context).examine()
    pump_until(root, lambda: widgets.jobs.deliver() >= 0 and len(shown) == 2)
    assert copied == ["Copied"]
    assert root.clipboard_get() == shown[0] == "\n".join(map(str, reversed(FOUND)))
    assert shown[1].splitlines()[-1] == "good     self-test: five steps"
    assert tested == [{"device": "auto", "precision": "auto"}]


def test_a_report_is_made_after_a_question_and_shown(root, widgets, context, said, tmp_path):
    run = create_run(tmp_path, name="run", config={})
    actions = SupportActions(context)
    once_asked(root, lambda: widgets.buttons["answer "].widget.invoke())
    actions.report(run.path)
    assert not list(run.path.glob("*.zip"))
    once_asked(root, lambda: widgets.buttons["answer plain"].widget.invoke())
    actions.report(run.path)
    deliver_until(widgets.jobs, lambda: len(said) == 3)
    report = run.path / "report-001.zip"
    assert report.is_file()
    assert said[1:] == [run.path, f"The report is {report}"]
