"""The list of base models: used before, in named folders, or published."""

from tests.ui.project import write_model
from tests.ui.pumping import deliver_until
from ui.background.known_models import KnownModels
from ui.model.window_state import WindowState

HUB = "stable-diffusion-v1-5/stable-diffusion-v1-5"


def listed(jobs, *used):
    known = KnownModels(jobs, WindowState(models=list(used)))
    known.read()
    deliver_until(jobs, lambda: not known.is_working)
    return {model.text: model for model in known.models}


def test_a_used_name_has_its_family_and_published_models_are_listed_below_the_others(
    jobs, home, tmp_path
):
    before = listed(jobs, HUB)
    assert before[HUB].family == "sd15"
    assert before[HUB].was_used
    assert {model.family for model in before.values()} >= {"sd15", "sdxl"}
    path = str(write_model(tmp_path / "base.safetensors"))
    after = listed(jobs, path)
    assert next(iter(after)) == path
    assert all(model.is_proposed for model in [*after.values()][1:])
    assert {HUB} < {*after} - {path}
