"""Rules of adapters."""

from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix
from onetrainer.rules.method import problems
from tests.each import each


def found(family="sd15", **method):
    document = {"model": {"family": family}, "method": {"kind": "lora"} | method}
    return list(problems(TrainConfig.model_validate(document)))


def places(family="sd15", **method):
    assert all(problem.severity == "warning" for problem in found(family, **method))
    return [problem.path for problem in found(family, **method)]


def test_alpha_with_a_components_rank_is_a_warning_with_a_fix():
    (problem,) = found(unet={"rank": 2})
    assert (problem.path, problem.severity) == ("method.unet.rank", "warning")
    assert "alpha 16 with rank 2 scales the adapter by 8" in problem.what
    assert problem.fix == Fix("method.unet.alpha", 2.0)
    assert found(unet={"rank": 2, "alpha": 2}) == []


def test_each_trained_component_is_checked():
    assert places(alpha=40) == ["method.alpha"]
    assert places(alpha=40, unet={"alpha": 16}) == []
    assert places(text_encoder={"rank": 4}) == []
    assert places(text_encoder={"rank": 4, "train": True}) == ["method.text_encoder.rank"]
    second = {"text_encoder_2": {"alpha": 64, "train": True}}
    assert places("sdxl", **second) == ["method.text_encoder_2.alpha"]
    assert places("sd15", **second) == ["method.text_encoder_2.train"]
    assert places(alpha=40, unet={"train": False}, text_encoder={"rank": 2, "train": True}) == [
        "method.text_encoder.rank"
    ]


@each(
    ("rule", "expected"),
    [
        ({"rank": 4}, ["method.layers.0.rank"]),
        ({"alpha": 64}, ["method.layers.0.alpha"]),
        ({"rank": 4, "alpha": 64}, ["method.layers.0.alpha"]),
        ({"rank": 4, "alpha": 4}, []),
        ({"rank": 4, "train": False}, []),
        ({"lr": 1e-5}, []),
        ({"pattern": "text_encoder.*fc1", "rank": 4}, []),
        ({"pattern": "unet.*attn2", "rank": 4}, ["method.layers.0.rank"]),
    ],
)
def test_ranks_and_alphas_of_named_layers_are_checked(rule, expected):
    encoder = {"train": True, "alpha": 4, "rank": 4}
    assert places(layers=[{"pattern": "attn2"} | rule], text_encoder=encoder) == expected


def test_nothing_is_said_of_alphas_that_do_not_count():
    sizes = {"alpha": 64, "unet": {"rank": 2}}
    assert places(kind="lokr", full_matrix=True, **sizes) == []
    assert places(kind="lokr", **sizes) == ["method.unet.rank"]
    assert places(kind="oft") == []


def test_rank_dropout_of_whole_matrices_is_a_warning():
    (problem,) = found(kind="lokr", full_matrix=True, rank_dropout=0.1)
    assert (problem.path, problem.severity) == ("method.rank_dropout", "warning")
    assert problem.fix == Fix("method.rank_dropout", 0.0)
    assert found(kind="lokr", rank_dropout=0.1) == found(kind="lokr", full_matrix=True) == []
