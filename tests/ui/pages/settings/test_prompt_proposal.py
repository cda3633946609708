"""Sample prompts made of captions, where there are none to be had."""

from types import SimpleNamespace

from ui.pages.settings.prompt_proposal import PromptProposal


def test_why_no_prompt_can_be_proposed_is_said(draft):
    said = []
    act = SimpleNamespace(show_message=said.append)
    proposal = PromptProposal(SimpleNamespace(draft=draft, act=act))
    for path, value in (("data.resolution", 700), ("data.folder", "")):
        draft.set(path, value)
        proposal.propose()
        draft.undo()
    assert said == [
        "A setting of Data is wrong. Correct it first (F8 goes there).",
        "There are no images yet. Choose their folder in Data.",
    ]
