"""Updates of reward training, of every method and base, raise the reward of what is generated."""

from functools import partial

import pytest
import torch

from modules.assembly.method import attach
from modules.assembly.rewards import reward_objective, rollout_of
from modules.data.prompts import EMPTY, EncodedPrompts, PromptBatches
from modules.evaluation.prompts import Evaluator, ValidationPrompts
from modules.families.registry import load_family
from modules.methods.model_source import ModelSource
from modules.optim.build import build_optimizer
from modules.rewards.measures import Measure, color
from modules.rewards.mixer import Mixer, NamedReward
from onetrainer.config.run.model import Model
from onetrainer.dataset.caption_caching import encodes_text_each_step
from onetrainer.demo.write import write_demo
from onetrainer.presets.presets import resolve
from tests import table, tiny
from tests.batches import loss_of

pytestmark = pytest.mark.slow

ENOUGH = 8
PROMPTS = (f"a {table.WORD} cat", f"a {table.WORD} square", f"{table.WORD}")
VALIDATION = (f"a {table.WORD} bird", f"a green {table.WORD}")
REWARD = NamedReward("color", Measure(partial(color, name="warm")))
MIXER = Mixer((REWARD,))
WHOLE = {"targets": "full"}
WORD = {"token": table.WORD, "initial_text": "blue", "lr": 0.05}
METHODS = {
    "lora": {"method": {"kind": "lora", "rank": 2, **WHOLE}},
    "dora": {"method": {"kind": "dora", "rank": 2, **WHOLE}},
    "loha": {"method": {"kind": "loha", "rank": 2, **WHOLE}},
    "lokr": {"method": {"kind": "lokr", "rank": 2, **WHOLE}},
    "oft": {"method": {"kind": "oft", **WHOLE}},
    "full": {"method": {"kind": "full", "weights": "fp32"}, "optimizer": {"lr": 1e-3}},
    "embedding": {"method": {"kind": "embedding"}, "embeddings": {"tokens": [WORD]}},
    "output-embedding": {
        "method": {"kind": "embedding"},
        "embeddings": {"tokens": [{**WORD, "place": "output"}]},
    },
}


def config_of(family, method, path):
    return resolve(
        {
            "model": {"path": str(path), "family": family},
            "objective": {
                "kind": "alignprop",
                "rewards": [{"reward": "color"}],
                "algorithm": {"kind": "alignprop", "through": "all"},
                # Guidance and checkpoints, which take most of the time, are tested elsewhere.
                "rollout": {
                    "steps": 2,
                    "guidance": 2.0 if "embedding" in method else 1.0,
                    "checkpoint": False,
                    "width": 64,
                    "height": 64,
                },
            },
            "training": {"batch_size": 3, "seed": 1},
            "optimizer": {"lr": 0.02},
            **METHODS[method],
        },
        source="test",
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A base model's folder for each family, which full fine-tuning asks for."""
    made = tmp_path_factory.mktemp("bases")
    return {name: tiny.write_folder(made / name, name=name) for name in ("sd15", "sdxl")}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A small SD 1.5 that follows its prompt."""
    return write_demo(tmp_path_factory.mktemp("demo") / "demo").with_name("base")


def family_of(name, method, demo):
    """An untrained UNet pays hardly any heed to its text, which is all that embeddings change."""
    if "embedding" in method and name == "sd15":
        base = Model(path=str(demo))
        return load_family(base, compute_dtype=torch.float32, device=tiny.CPU)
    made = tiny.family(name)
    for path, weight in made.unet.named_parameters():
        if ".attn2.to_v" in path or ".attn2.to_out" in path:
            weight.data *= 16
    return made


def mean_reward(evaluator):
    scores = [one.total for one in evaluator.evaluate(MIXER, lambda _: None)]
    return float(torch.cat(scores).mean())


FEW = (("sdxl", "oft"),)
EVERY = tuple((family, method) for family in ("sd15", "sdxl") for method in METHODS)
IN_LONG = [pytest.param(*pair, marks=pytest.mark.long) for pair in EVERY if pair not in FEW]


@pytest.mark.parametrize(("family", "method"), [*FEW, *IN_LONG])
def test_updates_raise_the_reward_of_validation_prompts(family, method, folders, demo):
    config, loaded = config_of(family, method, folders[family]), family_of(family, method, demo)
    attached = attach(config, loaded, ModelSource.of(config.model))
    texts = None
    if not encodes_text_each_step(config):
        texts = EncodedPrompts.of(loaded, [EMPTY, *PROMPTS, *VALIDATION])
    batches = PromptBatches(PROMPTS, texts, 3, 1, seed=1, size=(64, 64))
    objective = reward_objective(config, attached, MIXER, device=tiny.CPU, prompts=batches)
    evaluator = Evaluator(
        family=attached.family,
        validation=ValidationPrompts(VALIDATION, 2, 0, (64, 64), texts, at_once=2),
        rollout=rollout_of(config, attached, device=tiny.CPU),
        merged=attached.method.merged,
        autocast=torch.no_grad,
        base_model=None,
        device=tiny.CPU,
    )
    optimizer = build_optimizer(config.optimizer, attached.method.parameter_groups())
    before = mean_reward(evaluator)
    attached.method.train(True)
    for step in range(ENOUGH if (family, method) in FEW else 20):
        for batch in batches.at(step):
            loss_of(objective, batch, seed=1, step=step).value.backward()
        optimizer.step()
        optimizer.zero_grad()
        attached.method.after_step()
    attached.method.train(False)
    # The same noise before and after: every difference comes of the updates.
    assert mean_reward(evaluator) > before + (0.002 if "embedding" in method else 0.01)
