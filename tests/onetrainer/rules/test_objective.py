"""Rules of the objective."""

import json

from onetrainer.config.train import TrainConfig
from onetrainer.presets.presets import resolve, with_value, with_variant
from onetrainer.rules.objective import problems
from tests.each import each


def found(document):
    return list(problems(resolve(document, source="test")))


def test_the_defaults_have_no_problem():
    assert not list(problems(TrainConfig()))


# What is set, and the setting and severity of the only problem.
BROKEN = [
    ({"objective": {"loss": {"mse": 0}}}, "objective.loss.mse", "error"),
    ({"objective": {"timesteps": {"lowest": 0.5, "highest": 0.5}}},
     "objective.timesteps.lowest", "error"),
    ({"objective": {"weighting": {"kind": "v_like"}}, "model": {"prediction": "v_prediction"}},
     "objective.weighting.kind", "warning"),
    ({"objective": {"weighting": {"kind": "noise_like"}}, "model": {"prediction": "epsilon"}},
     "objective.weighting.kind", "warning"),
    ({"objective": {"noise": {"offset": 0.05}},
      "model": {"zero_terminal_snr": "on", "prediction": "v_prediction"}},
     "objective.noise.offset", "warning"),
    ({"objective": {"noise": {"offset": 0.5}}}, "objective.noise.offset", "warning"),
    ({"objective": {"noise": {"offset_by_timestep": True}}},
     "objective.noise.offset_by_timestep", "warning"),
    ({"objective": {"prior": {"weight": 0}}}, "objective.prior.weight", "warning"),
    ({"objective": {"prior": {"kind": "own_prediction"}}}, "objective.prior.kind", "warning"),
    ({"objective": {"mask": {"prior_weight": 0.5}}}, "objective.mask.prior_weight", "warning"),
]  # fmt: skip
FINE = [
    {"objective": {"loss": {"mse": 0, "log_cosh": 1}}},
    {"objective": {"timesteps": {"kind": "beta", "lowest": 0.5, "highest": 0.6}}},
    {"objective": {"weighting": {"kind": "v_like"}}},
    {"objective": {"weighting": {"kind": "min_snr"}}, "model": {"prediction": "v_prediction"}},
    {"objective": {"noise": {"offset": 0.05, "offset_by_timestep": True}}},
    {"objective": {"kind": "reconstruction"}},
    {"objective": {"prior": {"kind": "own_prediction"}}, "data": {"class_folder": "class"}},
    {"objective": {"mask": {"prior_weight": 0.5}}, "data": {"masks": "alpha"}},
]


@each(("document", "path", "severity"), BROKEN, ids=lambda part: str(part)[:60])
def test_what_does_not_go_together_is_said(document, path, severity):
    (problem,) = found(document)
    assert (problem.path, problem.severity) == (path, severity)
    assert problem.what
    assert problem.expected
    assert problem.remedy


@each("document", FINE, ids=json.dumps)
def test_what_goes_together_is_left_alone(document):
    assert found(document) == []


@each(("document", "path", "severity"), BROKEN, ids=lambda part: str(part)[:60])
def test_fixes_fix(document, path, severity):
    (problem,) = found(document)
    if (fix := problem.fix) is None:
        return
    if fix.path.endswith(".kind"):
        mended = with_variant(document, fix.path.removesuffix(".kind"), fix.value)
    else:
        mended = with_value(document, fix.path, fix.value)
    assert found(mended) == []


def test_a_value_means_the_same_in_every_variant_that_keeps_it():
    """A variant's value is kept only if it is valid in the next one."""
    document = {"objective": {"timesteps": {"kind": "sigmoid", "center": 0.2, "slope": 9.0}}}
    hill = with_variant(document, "objective.timesteps", "inverted_parabola")["objective"][
        "timesteps"
    ]
    assert hill["center"] == 0.2
    assert "slope" not in hill
