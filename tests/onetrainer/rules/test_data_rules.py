"""Rules of folders, captions, methods and embeddings."""

import json
from typing import get_args

from onetrainer.config.objectives.reconstruction import missing_packages
from onetrainer.config.optimizers.optimizer import Optimizer
from onetrainer.errors import Fix
from onetrainer.presets.presets import load_document, resolve
from onetrainer.rules.data import has_images
from tests.each import each
from tests.onetrainer.rules.rule_cases import check, document_of, reported

VAE = {"method.kind": "vae", "objective.kind": "reconstruction", "optimizer.lr": 1e-5}
FULL = {"method.kind": "full", "optimizer.lr": 1e-5}
NONE = {"data.folder": ""}
VALIDATES = {"validation.use": True}
INPAINTING = {"model.family": "sd15-inpainting"}
SCHEDULE_FREE = [
    section().kind for section in get_args(get_args(Optimizer)[0]) if section.is_schedule_free
]


def concepts(*entries, **changes):
    """Return settings of some concepts; a text is a concept's folder."""
    listed = [{"folder": one} if isinstance(one, str) else one for one in entries]
    return {"data.concepts": listed, **changes}


def twice(first, second):
    """Return settings in which two concepts of some roles name the same folder."""
    both = [{"folder": "/x/", "role": first}, {"folder": "/b/../x", "role": second}]
    return concepts(*both) | VALIDATES


def source(name, **more):
    return {"folder": "/b", "caption_source": name, **more}


@each(
    "case",
    [
        # No folder at all, one in use without a folder, and roles that are not trained.
        (NONE, "error data.folder"),
        (NONE | concepts({"folder": "/a", "use": False}), "error data.folder"),
        (NONE | concepts({}), "error data.concepts.0.folder"),
        (concepts({}, {"use": False}), "error data.concepts.0.folder"),
        *[
            (NONE | VALIDATES | concepts({"folder": "/a", "role": role}), "error data.folder")
            for role in ("validation", "prior", "own_prediction")
        ],
        # One folder that is to serve twice.
        (twice("train", "train"), "warning data.concepts.1.folder"),
        (twice("prior", "train"), "error data.concepts.0.folder"),
        (twice("train", "own_prediction"), "error data.concepts.1.folder"),
        (twice("validation", "train"), "error data.concepts.0.folder"),
        (twice("prior", "validation"), "error data.concepts.1.folder"),
        (twice("prior", "own_prediction"),),
        (VALIDATES | {"validation.folder": "/b/../a"}, "error validation.folder | value=''"),
        (
            VALIDATES | {"data.class_folder": "/c", "validation.folder": "/c"},
            "error validation.folder",
        ),
        ({"validation.folder": "/a"},),
        (
            concepts({"folder": "/c", "role": "validation"})
            | VALIDATES
            | {"data.class_folder": "/c"},
            "error data.concepts.0.folder",
        ),
        # Roles that have no effect.
        (
            concepts({"folder": "/b", "role": "validation"}),
            "warning data.concepts.0.role | Fix(path='validation.use', value=True)",
        ),
        (
            VAE | concepts({"folder": "/b", "role": "prior"}, {"folder": "/c", "loss_weight": 0}),
            "warning data.concepts.0.role",
            "warning data.concepts.1.loss_weight",
        ),
        # Sources of captions, for the first folder and for others.
        (concepts(source("text")), "error data.concepts.0.caption_text"),
        (concepts(source("list")), "error data.concepts.0.caption_list"),
        (concepts(source("names")),),
        (concepts(source("text", trigger="sks dog")),),
        ({"data.caption_source": "text"}, "error data.caption_text"),
        ({"data.caption_source": "text", "data.trigger": "sks dog"},),
        ({"data.caption_source": "list"}, "error data.caption_list"),
        ({"data.caption_source": "names"},),
        (concepts({"folder": "/b", "captions": {"template": "a photo"}}),),
        (
            concepts({"folder": "/b", "own_captions": True, "captions": {"template": "a photo"}}),
            "error data.concepts.0.captions.template",
        ),
        # Masks are needed where they say what is shown.
        ({"data.conditioning": "masks"},),
        (INPAINTING | {"data.conditioning": "masks"}, "warning data.conditioning"),
        (INPAINTING | {"data.conditioning": "masks", "data.masks": "files"},),
        # Sizes.
        (
            {"data.buckets.sizes": [{}], "data.buckets.resolutions": [{}]},
            "warning data.buckets.resolutions",
        ),
        *[(concepts({"folder": "/b", "resolution": size}),) for size in (0, 64)],
        *[
            (
                concepts({"folder": "/b", "resolution": size}),
                "error data.concepts.0.resolution",
            )
            for size in (8, 56)
        ],
        (
            concepts({"folder": "/b", "resolution": 768}) | {"data.buckets.sizes": [{}]},
            "warning data.concepts.0.resolution | value=0",
        ),
    ],
)
def test_folders_and_their_roles_captions_and_sizes_are_checked(case):
    check(*case)


def test_one_more_folder_is_enough_to_train():
    assert reported(NONE | concepts("/b")) == {}
    assert has_images(resolve(document_of(NONE | concepts("/b")), source=""))


def tokens(*names, **more):
    listed = [name if isinstance(name, dict) else {"token": name} for name in names]
    return {"embeddings.tokens": listed, **more}


def still(**more):
    return {"token": "cat", "train": False, **more}


SAMPLE = {"sampling.prompts": [{"prompt": "a  <MY cat> on grass"}]}
ALONE = {"method.kind": "embedding"}
UNCLIPPED = {"training.gradient_clipping": 0.0}


@each(
    "case",
    [
        (tokens("<my cat>", "<my cat 2>") | SAMPLE | {"embeddings.bundle": True},),
        (ALONE | tokens("<my cat>") | SAMPLE,),
        # The method needs a trained token, and a frozen one needs an initial value.
        (ALONE | tokens(), "error embeddings.tokens"),
        (ALONE | tokens(still(initial_text="dog")), "error embeddings.tokens"),
        (tokens(still(initial_text="dog")),),
        (tokens("dog", still()), "error embeddings.tokens.1.start_from"),
        (tokens("dog", still(initial_text=" ")), "error embeddings.tokens.1.start_from"),
        (tokens("dog", still(initial_text="a cat")),),
        (tokens("dog", still(start_from="cat.pt")),),
        # Tokens that cannot be distinguished or found.
        (tokens("cat", " CAT"), "error embeddings.tokens.1.token"),
        (tokens("red cat", "dog", "Red  Cat"), "error embeddings.tokens.2.token"),
        (tokens("dog", " "), "error embeddings.tokens.1.token"),
        (tokens("***"), "error embeddings.tokens.0.token"),
        (tokens("red, cat"), "warning embeddings.tokens.0.token"),
        # Samples and bundles.
        (tokens("dog") | SAMPLE, "warning sampling.prompts"),
        (tokens("dog", "<my cat>") | SAMPLE,),
        (tokens("dog") | {"sampling.prompts": [{"prompt": "a cat", "negative": "dog"}]},),
        (
            {"sampling.prompts": [{"prompt": "a (big:1.2) cat (1980)"}]},
            "warning sampling.prompts.0.prompt | prompt weights are off",
        ),
        (
            {
                "sampling.prompts": [{"prompt": "a (big:1.2) cat"}],
                "sampling.prompt_weights": "comfyui",
            },
        ),
        (ALONE | tokens("cat") | {"embeddings.bundle": True}, "warning embeddings.bundle"),
        *[
            (tokens(token) | UNCLIPPED | {"optimizer.kind": kind}, *expected)
            for kind in SCHEDULE_FREE
            for token, *expected in [
                ("cat", "error embeddings.preserve_norm"),
                (still(initial_text="cat"),),
            ]
        ],
    ],
)
def test_embeddings_are_checked(case):
    check(*case)


def test_a_file_to_continue_from_is_relative_to_the_config(tmp_path):
    entry = {"token": "cat", "start_from": "old/cat.pt"}
    (tmp_path / "c.json").write_text(json.dumps({"embeddings": {"tokens": [entry]}}))
    config = resolve(load_document(tmp_path / "c.json"), source="")
    assert config.embeddings.tokens[0].start_from == str(tmp_path / "old" / "cat.pt")


FP32, FP16 = {"hardware.precision": "fp32"}, {"hardware.precision": "fp16"}
FP32_WEIGHTS = {"method.weights": "fp32"}
ROUNDED = {"method.stochastic_rounding": False}
RATES = {
    "method.kind": "full",
    "method.unet.lr": 2e-4,
    "method.text_encoders.te1": {"train": True, "lr": 1e-5},
    "method.text_encoders.te2": {"lr": 1.0},
    "method.layers": [{"pattern": "attn2", "lr": 3e-4}],
}


@each(
    "case",
    [
        (FULL,),
        (VAE,),
        # Precision and rounding of weights.
        (FULL | ROUNDED, "warning method.stochastic_rounding | 1/512"),
        (FULL | ROUNDED | FP32_WEIGHTS,),
        (FULL | FP16, "error hardware.precision"),
        (FULL | FP16 | FP32_WEIGHTS,),
        (FULL | FP32, "warning method.weights | the precision fp32 has no effect"),
        (FULL | FP32 | FP32_WEIGHTS,),
        (VAE | {"method.weights": "bf16"} | FP16, "error hardware.precision"),
        (VAE | {"method.weights": "bf16"},),
        (VAE | {"method.weights": "bf16"} | FP32,),
        (VAE | {"method.weights": "fp32"} | FP16,),
        # High rates, where a rate is a step.
        *[
            (FULL | {"optimizer.kind": kind, "optimizer.lr": 2e-4} | more, *expected)
            for kind, more, *expected in [
                ("adamw", {}, "warning optimizer.lr"),
                ("lion", {}, "warning optimizer.lr"),
                ("adafactor", {"schedule.warmup_steps": 100} | UNCLIPPED, "warning optimizer.lr"),
                ("sgd", {}),
                ("prodigy", UNCLIPPED, "warning optimizer.lr | multiplies it"),
            ]
        ],
        ({"method.kind": "full", "optimizer.kind": "adafactor_relative"} | UNCLIPPED,),
        (RATES, "warning method.unet.lr", "warning method.layers.0.lr"),
        ({"method.kind": "full", "optimizer.lr": 1.0}, "warning optimizer.lr | full fine-tuning"),
        (VAE | {"optimizer.lr": 4e-3}, "warning optimizer.lr | decoder"),
        (VAE | {"optimizer.lr": 1e-3},),
        (ALONE | tokens("<x>") | {"optimizer.lr": 0.05},),
        (ALONE | tokens("<x>") | {"optimizer.lr": 0.5}, "warning optimizer.lr | AdamW"),
        ({"optimizer.lr": 0.05}, "warning optimizer.lr | AdamW"),
        # A VAE and reconstruction require each other.
        (VAE | {"objective.kind": "denoising"}, "error objective.kind | value='reconstruction'"),
        (FULL | {"objective.kind": "reconstruction"}, "error objective.kind | value='denoising'"),
        ({"objective.kind": "reconstruction"}, "error objective.kind | value='denoising'"),
        (VAE | {"model.family": "sdxl", "data.resolution": 1024,
                "sampling.prompts": [{"prompt": "a", "width": 1024, "height": 1024}]},
         "error method.kind"),
        (VAE | tokens("<x>"), "error embeddings.tokens"),
        (VAE | {"objective.l1": 0}, "error objective.l1"),
        (VAE | {"objective.l1": 0, "objective.l2": 1},),
    ],
)  # fmt: skip
def test_full_and_vae_fine_tuning_are_checked(case):
    check(*case)


def test_lpips_without_its_packages_is_reported_before_the_start(monkeypatch):
    looked = "onetrainer.config.objectives.reconstruction.importlib.util.find_spec"
    section = resolve(document_of(VAE | {"objective.lpips": 0.1}), source="").objective
    monkeypatch.setattr(looked, lambda name: None if name == "torchvision" else object())
    problem = missing_packages(section)
    assert problem.path == "objective.lpips"
    assert "torchvision" in problem.what and "lpips," not in problem.what
    assert "--extra perceptual" in problem.remedy
    assert missing_packages(section.model_copy(update={"lpips": 0.0})) is None
    monkeypatch.setattr(looked, lambda _: object())
    assert missing_packages(section) is None


def lora(kind="lora", **method):
    return {"method.kind": kind, **{f"method.{name}": value for name, value in method.items()}}


SECOND = lora(text_encoders={"te2": {"alpha": 64, "train": True}})
SDXL = {"model.family": "sdxl", "data.resolution": 1024, "sampling.prompts": []}
SMALL_ENCODER = {"te1": {"train": True, "alpha": 4, "rank": 4}}
SMALL_RANK = {"te1": {"train": True, "rank": 4}}


@each(
    "case",
    [
        # Alphas of each trained component count, and only where they scale.
        (lora(unet={"rank": 2}), "warning method.unet.rank | alpha 16 with rank 2 scales the"
         " adapter by 8"),
        (lora(unet={"rank": 2, "alpha": 2}),),
        (lora(alpha=40), "warning method.alpha"),
        (lora(alpha=40, unet={"alpha": 16}),),
        (lora(text_encoders={"te1": {"rank": 4}}),),
        (lora(text_encoders=SMALL_RANK), "warning method.text_encoders.te1.rank"),
        (SECOND | SDXL, "warning method.text_encoders.te2.alpha"),
        (SECOND, "warning method.text_encoders.te2.train"),
        (lora(alpha=40, unet={"train": False}, text_encoders=SMALL_RANK),
         "warning method.text_encoders.te1.rank"),
        (lora(max_norm=1),),
        (lora("loha", max_norm=1) | {"optimizer.kind": "schedulefree_adamw"},
         "error method.max_norm"),
        (lora("lokr", full_matrix=True, alpha=64, unet={"rank": 2}),),
        (lora("lokr", alpha=64, unet={"rank": 2}), "warning method.unet.rank"),
        (lora("oft"),),
        *[
            (lora(layers=[{"pattern": "attn2"} | rule], text_encoders=SMALL_ENCODER), *expected)
            for rule, *expected in [
                ({"rank": 4}, "warning method.layers.0.rank"),
                ({"alpha": 64}, "warning method.layers.0.alpha"),
                ({"rank": 4, "alpha": 64}, "warning method.layers.0.alpha"),
                ({"rank": 4, "alpha": 4},),
                ({"rank": 4, "train": False},),
                ({"lr": 1e-5},),
                ({"pattern": "text_encoder.*fc1", "rank": 4},),
                ({"pattern": "unet.*attn2", "rank": 4}, "warning method.layers.0.rank"),
            ]
        ],
        (lora("lokr", full_matrix=True, rank_dropout=0.1), "warning method.rank_dropout"),
        (lora("lokr", rank_dropout=0.1),),
        (lora("lokr", full_matrix=True),),
    ],
)  # fmt: skip
def test_adapters_are_checked(case):
    check(*case)


def test_the_fix_of_an_alpha_is_at_the_component_whose_rank_is_small():
    fix = reported(lora(unet={"rank": 2}))["method.unet.rank"].fix
    assert fix == Fix("method.unet.alpha", 2.0)
