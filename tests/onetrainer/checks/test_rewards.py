"""Files of rewards are searched for before a run starts."""

from onetrainer.checks.rewards import check_rewards
from onetrainer.presets.presets import resolve
from tests.each import each

CASES = [
    ({"reward": "hpsv2", "model": "nowhere/at/all.pt"}, "model", "no such file or folder"),
    ({"reward": "hpsv2", "model": "nobody/has-this"}, "model", "no network of this name"),
    ({"reward": "image_reward", "model": "net.pt"}, "model", "vocabulary is missing"),
    ({"reward": "aesthetic", "model": "net.pt", "head": "gone.pt"}, "head", "no such file"),
    ({"reward": "reference", "model": "net.pt", "folder": "gone"}, "folder", "no such file"),
    ({"reward": "reference", "model": "net.pt", "folder": "empty"}, "folder", "has no images"),
]


@each(("reward", "setting", "words"), CASES)
def test_missing_files_are_reported_at_their_setting(tmp_path, reward, setting, words):
    (tmp_path / "net.pt").touch()
    (tmp_path / "empty").mkdir()
    local = {"net.pt", "gone.pt", "gone", "empty", "nowhere/at/all.pt"}
    reward = {
        key: str(tmp_path / value) if value in local else value for key, value in reward.items()
    }
    objective = {"kind": "alignprop", "rewards": [reward], "prompts": {"text": "a cat"}}
    made = resolve({"objective": objective, "model": {"offline": True}}, source="")
    found = [one for one in check_rewards(made) if one.path.startswith("objective.rewards")]
    assert [one.path for one in found] == [f"objective.rewards.0.{setting}"]
    assert words in found[0].what
