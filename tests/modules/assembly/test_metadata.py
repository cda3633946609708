"""A finished file's metadata: the fields that programs show, and nothing private."""

import json

from modules.assembly.metadata import (
    MAX_TAGS,
    DatasetFacts,
    ModelFacts,
    count_tags,
    output_metadata,
)
from modules.formats.embeddings.modelspec import embedding_metadata
from onetrainer import __version__
from onetrainer.config.fields import settings
from onetrainer.config.rewards.reward import Reward
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.buckets import Bucket
from onetrainer.presets.presets import resolve, with_value
from tests.close import near
from tests.each import each

SECRET = "jane-doe-at-home"
DATASET = DatasetFacts(
    buckets={Bucket(448, 576): 3, Bucket(512, 512): 5},
    tags={"ink": 6, "墨": 2},
    steps_per_epoch=3,
    digest="ab" * 32,
)
SDXL_V = ModelFacts("sdxl", "v_prediction", zero_terminal_snr=True)


def config(**changes) -> TrainConfig:
    """A config with some settings changed: {"output.name": "x"} as output__name="x"."""
    document: dict = {
        "training": {"steps": 20, "batch_size": 2, "accumulation": 2, "seed": 7},
        "output": {"name": "étude"},
        "sampling": {"prompts": [{"prompt": "a bridge"}]},
    }
    for path, value in changes.items():
        document = with_value(document, path.replace("__", "."), value)
    return resolve(document, source="test")


def past_warnings(changed: TrainConfig, **arguments) -> dict[str, str]:
    return output_metadata(changed, SDXL_V, DATASET, arguments.pop("step", 10), **arguments)


def test_every_key_and_value_is_text_under_a_known_prefix():
    fields = past_warnings(config())
    assert all(isinstance(value, str) for value in fields.values())
    assert {key.partition("_")[0].partition(".")[0] for key in fields} == {
        "ss", "modelspec", "onetrainer",
    }  # fmt: skip


def test_the_length_is_written_as_kohyas_trainer_counts_it():
    # 3 and 5 images in batches of 2: 2 + 3 batches. Steps of 4 images: 1 + 2 = 3 an epoch.
    fields = past_warnings(config(), step=10)
    expected = {
        "steps": "10", "max_train_steps": "20", "epoch": "4", "num_epochs": "7",
        "num_batches_per_epoch": "5", "num_train_images": "8", "num_reg_images": "0",
        "batch_size_per_device": "2", "gradient_accumulation_steps": "2", "total_batch_size": "4",
    }  # fmt: skip
    assert {key: fields[f"ss_{key}"] for key in expected} == expected


def test_the_settings_are_written_under_kohyas_keys():
    changed = config(method__text_encoders={"te1": {"train": True, "lr": 5e-5}}, model__clip_skip=2)
    fields = past_warnings(changed)
    expected = {
        "output_name": "étude", "seed": "7", "resolution": "(512, 512)", "clip_skip": "2",
        "learning_rate": "0.0001", "unet_lr": "0.0001", "text_encoder_lr": "5e-05",
        "optimizer": "torch.optim.AdamW", "lr_scheduler": "constant", "lr_warmup_steps": "0",
        "mixed_precision": "bf16", "gradient_checkpointing": "False", "max_grad_norm": "1.0",
        "zero_terminal_snr": "True", "noise_offset": "None", "caption_dropout_rate": "0.0",
    }  # fmt: skip
    assert {key: fields[f"ss_{key}"] for key in expected} == expected
    plain = past_warnings(config(hardware__precision="fp32"))
    assert plain["ss_text_encoder_lr"] == plain["ss_clip_skip"] == "None"
    assert plain["ss_mixed_precision"] == "no"


def test_the_metadata_section_is_written_and_the_title_falls_back_to_the_name():
    assert past_warnings(config())["modelspec.title"] == "étude"
    fields = past_warnings(config(metadata__title="Étude", metadata__trigger_words="sumi,ink"))
    assert fields["modelspec.title"] == "Étude"
    assert fields["modelspec.trigger_phrase"] == fields["ss_trigger_words"] == "sumi, ink"
    assert fields["modelspec.architecture"] == "stable-diffusion-xl-v1-base/lora"
    assert fields["modelspec.prediction_type"] == "v"


def test_trigger_words_that_are_trained_are_written_unless_there_are_others():
    folders = [
        {"folder": "more", "trigger": "wash"},
        {"folder": "again", "trigger": "sumi"},
        {"folder": "classes", "role": "prior", "trigger": "nothing"},
        {"folder": "left out", "use": False, "trigger": "unused"},
    ]
    trained = {"data__folder": "images", "data__trigger": " sumi ", "data__concepts": folders}
    fields = past_warnings(config(**trained))
    assert fields["modelspec.trigger_phrase"] == fields["ss_trigger_words"] == "sumi, wash"
    fields = past_warnings(config(**trained, metadata__trigger_words="ink"))
    assert fields["modelspec.trigger_phrase"] == fields["ss_trigger_words"] == "ink"


def test_tags_are_counted_by_caption_parts_and_the_most_frequent_stand_first():
    counted = count_tags(["a cat, ink,  red", "ink,Ink , ,a cat", "", "墨,ink"])
    assert list(counted.items()) == [("ink", 3), ("a cat", 2), ("Ink", 1), ("red", 1), ("墨", 1)]
    assert len(count_tags([f"tag {number}" for number in range(MAX_TAGS + 5)])) == MAX_TAGS


def test_the_dataset_is_written_in_the_layout_that_programs_read():
    fields = past_warnings(config())
    assert json.loads(fields["ss_tag_frequency"]) == {"pictures": {"ink": 6, "墨": 2}}
    assert json.loads(fields["ss_bucket_info"])["buckets"] == {
        "0": {"resolution": [448, 576], "count": 3},
        "1": {"resolution": [512, 512], "count": 5},
    }
    assert fields["onetrainer_dataset"] == DATASET.digest
    assert fields["onetrainer_version"] == __version__


def test_the_config_can_be_loaded_again_from_the_file():
    wanted = config(metadata__author="Ø", sampling__prompts=[{"prompt": "“墨”", "seed": 3}])
    again = resolve(json.loads(past_warnings(wanted)["onetrainer_config"]), source="the file")
    assert again == resolve(with_value(wanted.model_dump(), "output.folder", ""), source="test")


@each(
    ("switch", "keys"),
    [
        ("include_dataset", {"onetrainer_dataset", "ss_tag_frequency", "ss_bucket_info"}),
        ("include_thumbnail", {"modelspec.thumbnail"}),
        ("include_date", {"modelspec.date"}),
    ],
)
def test_each_switch_puts_in_its_own_fields_and_no_others(switch, keys):
    arguments = {"thumbnail": b"jpeg", "day": lambda: "2031-02-03"}
    with_it = past_warnings(config(**{f"metadata__{switch}": True}), **arguments)
    without = past_warnings(config(**{f"metadata__{switch}": False}), **arguments)
    assert with_it.keys() - without.keys() == keys
    assert without.keys() <= with_it.keys()


def test_without_the_settings_neither_seed_nor_rates_are_written():
    with_them, without = (
        past_warnings(config(metadata__include_config=wanted)) for wanted in (True, False)
    )
    settings = {"onetrainer_config", "ss_seed", "ss_learning_rate", "ss_steps", "ss_optimizer"}
    assert settings <= with_them.keys()
    assert {key for key in without if key.startswith("ss_")} == {
        "ss_tag_frequency",
        "ss_bucket_info",
    }
    assert "onetrainer_config" not in without


PATHS = [setting.path for setting in settings(TrainConfig) if setting.ui.is_path]


@each("path", PATHS)
def test_no_path_of_any_setting_is_written(path):
    for value in (f"/home/{SECRET}/x", f"C:\\Users\\{SECRET}", f"{SECRET}/x.safetensors"):
        document = config().model_dump()
        if path.startswith("objective."):
            document["objective"] = {"kind": "alignprop"}
        if path.endswith(".function"):
            document[path.partition(".")[0]] = {"kind": "custom"}
        fields = past_warnings(resolve(with_value(document, path, value), source="test"))
        assert SECRET not in json.dumps(fields, ensure_ascii=False)


def test_own_optimizers_are_named_without_their_folders():
    for function, name in (
        (f"/home/{SECRET}/own.py:Sign", "custom.Sign"),
        (f"C:\\{SECRET}\\own.py:Sign", "custom.Sign"),
        ("package.module.Sign", "package.module.Sign"),
        ("package.module:Sign", "package.module.Sign"),
    ):
        fields = past_warnings(config(optimizer={"kind": "custom", "function": function}))
        assert fields["ss_optimizer"] == name


@each("name", [setting.path for setting in settings(Reward) if setting.ui.is_path])
def test_no_path_of_a_reward_is_written(name):
    value = f"/home/{SECRET}/x.py:mine"
    objective = {"kind": "alignprop", "rewards": [{"reward": "function", name: value}]}
    fields = past_warnings(config(objective=objective))
    assert '"function"' in fields["onetrainer_config"]
    assert SECRET not in json.dumps(fields, ensure_ascii=False)


def test_a_relative_path_that_resembles_a_hub_name_is_not_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / SECRET / "model").mkdir(parents=True)
    fields = past_warnings(config(model__path=f"{SECRET}/model"))
    assert SECRET not in json.dumps(fields, ensure_ascii=False)


def test_a_hub_name_stays():
    fields = past_warnings(config(model__path="someone/a-model-1.5"))
    assert fields["ss_sd_model_name"] == "someone/a-model-1.5"
    assert json.loads(fields["onetrainer_config"])["model"]["path"] == "someone/a-model-1.5"


def test_the_file_of_an_embedding_says_the_rate_that_its_token_was_trained_at():
    tokens = [{"token": "<a>"}, {"token": "<b>", "lr": 2e-3}]
    for section, expected in (({"lr": 5e-3}, (5e-3, 2e-3)), ({}, (1e-4, 2e-3))):
        values = {"embeddings": {"tokens": tokens, **section}, "method": {"kind": "embedding"}}
        made = past_warnings(config(**values))
        files = [embedding_metadata(made, name, n) for n, name in enumerate(("<a>", "<b>"))]
        rates = [file["ss_learning_rate"] for file in files]
        assert [float(rate) for rate in rates] == near(expected)
