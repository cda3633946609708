"""Sections that come in kinds, in the draft: choosing, keeping, undoing, going back."""

import json

from onetrainer.config.optimizers.momentum import Lion
from onetrainer.errors import Fix
from onetrainer.presets.find import BUILT_IN
from tests.ui.project import errors_of, write_project
from ui.model.draft import Draft


def test_another_variant_has_its_own_settings_and_values(draft):
    draft.set("optimizer.kind", "lion")
    assert draft.value("optimizer") == Lion().model_dump(mode="json")
    assert draft.setting("optimizer.lr").default == Lion().lr
    assert draft.setting("optimizer.eps") is None
    assert draft.config().optimizer == Lion()
    assert errors_of(draft) == []


def test_no_change_is_made_by_way_of_a_variant_without_the_settings(home, tmp_path):
    draft = Draft()
    draft.load(write_project(tmp_path, method={"targets": "full", "rank": 24}))
    for kind in ("embedding", "dora", "vae", "lora"):
        draft.set("method.kind", kind)
        draft.set("training.steps", draft.value("training.steps") + 1)
        own = [path for path in draft.changed() if path.startswith("method.")]
        assert own == ([] if kind == "lora" else ["method.kind"])
    assert (draft.value("method.targets"), draft.value("method.rank")) == ("full", 24)


def test_what_is_set_in_one_variant_is_so_in_others_that_were_left_before(draft):
    draft.set("method.rank", 24)
    for kind, rank in (("dora", 32), ("loha", 9)):
        draft.set("method.kind", kind)
        assert draft.value("method.rank") == {"dora": 24, "loha": 32}[kind]
        draft.set("method.rank", rank)
    draft.set("method.kind", "lora")
    assert draft.value("method.rank") == 9


def test_what_was_taken_back_is_not_brought_along(draft):
    draft.set("method.rank", 24)
    draft.undo()
    draft.set("method.kind", "dora")
    assert draft.value("method.rank") == 16
    assert draft.changed() == ["method.kind"]


def test_another_preset_and_a_reset_forget_what_variants_were_like(draft, project):
    for forget in (draft.reset_all, lambda: draft.load(BUILT_IN / "sd15" / "dora.json")):
        draft.set("method.kind", "loha")
        draft.set("method.rank", 5)
        forget()
        draft.set("method.kind", "loha")
        assert draft.value("method.rank") != 5


def test_a_draft_of_last_time_keeps_what_was_opened_and_what_was_changed(draft):
    base = draft.base
    draft.set("method.rank", 24)
    draft.set("method.kind", "dora")
    again = Draft()
    again.restore(draft.document, base, draft.origin)
    again.set("method.kind", "loha")
    assert again.value("method.rank") == 24
    assert again.changed() == ["method.kind", "method.rank"]


def test_the_objective_goes_along_with_the_method_in_one_step(draft):
    draft.set("objective.noise.offset", 0.05)
    before = draft.document
    draft.set("method.kind", "vae")
    assert draft.implied_change == Fix("objective.kind", "reconstruction")
    assert draft.value("objective.kind") == "reconstruction"
    assert errors_of(draft) == []
    draft.undo()
    assert draft.document == before
    draft.redo()
    draft.set("training.steps", 99)
    draft.set("method.kind", "full")
    assert draft.implied_change == Fix("objective.kind", "denoising")
    assert draft.value("objective.noise.offset") == 0.05
    draft.set("method.kind", "dora")
    assert draft.implied_change is None


def test_entries_of_a_list_keep_what_entries_of_the_new_variant_have(draft):
    draft.set("method.layers", [{"pattern": "attn1", "train": False, "rank": 4, "alpha": None}])
    draft.set("method.kind", "full")
    assert draft.value("method.layers") == [{"pattern": "attn1", "train": False}]
    assert errors_of(draft) == []
    draft.set("method.kind", "lora")
    assert draft.value("method.layers.0.rank") == 4


def test_only_the_choice_counts_as_a_change_and_not_what_follows_from_it(draft):
    draft.set("optimizer.kind", "lion")
    assert draft.changed() == ["optimizer.kind"]
    assert draft.base_value("optimizer.kind") == "adamw"
    assert not draft.is_default("optimizer.kind")
    assert draft.is_default("optimizer.lr")
    draft.set("optimizer.lr", 0.5)
    assert draft.changed() == ["optimizer.kind", "optimizer.lr"]
    assert draft.base_value("optimizer.lr") == Lion().lr


def test_reset_of_a_variant_brings_the_whole_section_back(home, tmp_path):
    draft = Draft()
    draft.load(write_project(tmp_path, optimizer={"lr": 0.003, "eps": 1e-6}))
    draft.set("optimizer.kind", "lion")
    draft.set("optimizer.lr", 0.5)
    draft.reset("optimizer.kind")
    assert draft.document == draft.base
    draft.undo()
    assert (draft.value("optimizer.kind"), draft.value("optimizer.lr")) == ("lion", 0.5)


def test_reset_of_an_inner_variant_leaves_the_outer_one(draft):
    draft.set("objective.noise.offset", 0.05)
    draft.set("objective.timesteps.kind", "beta")
    draft.set("objective.timesteps.alpha", 3.0)
    draft.reset("objective.timesteps.kind")
    assert draft.changed() == ["objective.noise.offset"]


def test_an_inner_variant_goes_with_the_outer_one_and_comes_back_with_it(draft):
    draft.set("objective.timesteps.kind", "beta")
    draft.set("objective.kind", "reconstruction")
    assert draft.changed() == ["objective.kind"]
    assert draft.value("objective.timesteps") is None
    draft.reset("objective.kind")
    assert draft.changed() == []
    assert draft.value("objective.timesteps.kind") == "uniform"


def test_all_changes_are_taken_back_at_once_variants_too(draft):
    draft.set("model.path", "/elsewhere")
    draft.set("optimizer.kind", "lion")
    draft.set("objective.timesteps.kind", "beta")
    draft.set("method.kind", "full")
    draft.reset_all()
    assert draft.document == draft.base
    draft.undo()
    assert draft.value("method.kind") == "full"


def test_a_preset_of_another_variant_is_taken_over_whole(draft, tmp_path):
    preset = tmp_path / "lion.json"
    preset.write_text(json.dumps({"version": 2, "optimizer": {"kind": "lion", "beta1": 0.95}}))
    draft.set("optimizer.eps", 1e-6)
    assert draft.load(preset) == ["optimizer.eps"]
    assert draft.value("optimizer") == Lion(beta1=0.95).model_dump(mode="json")
    assert draft.changed() == []
    draft.undo()
    assert draft.value("optimizer.eps") == 1e-6


def test_a_draft_of_version_1_is_brought_up_to_date(home, draft):
    old = {
        "version": 1,
        "model": {"path": "/base.safetensors", "family": "sdxl"},
        "method": {"kind": "lora", "rank": 8, "train_text_encoder": True},
        "optimizer": {"kind": "adamw", "lr": 0.002, "text_encoder_lr": 1e-5},
        "schedule": {"kind": "cosine", "warmup_steps": 3},
    }
    draft.restore(old, old, draft.origin)
    assert [problem.path for problem in errors_of(draft)] == ["data.folder"]
    assert draft.value("method.text_encoders.te1.train") is True
    assert draft.value("method.text_encoders.te2.lr") == 1e-5
    assert draft.value("schedule.kind") == "cosine"
    assert draft.changed() == []


def test_a_draft_of_a_newer_version_gives_what_is_known_of_it(home, draft):
    newer = {"version": 99, "optimizer": {"kind": "unheard-of", "lr": 0.002}, "method": 3}
    draft.restore(newer, {}, draft.origin)
    assert draft.value("optimizer.lr") == 0.002
    assert draft.value("method.rank") == 16


def test_it_is_reported_as_well_when_the_objective_goes_back_with_the_method(draft):
    draft.set("method.kind", "vae")
    draft.set("method.kind", "lora")
    assert draft.implied_change == Fix("objective.kind", "denoising")
    assert draft.changed() == []
    draft.set("method.kind", "vae")
    draft.reset("method.kind")
    assert draft.value("objective.kind") == "denoising"
    assert errors_of(draft) == []


def test_what_is_set_to_its_default_has_the_default_of_other_variants(home, tmp_path):
    draft = Draft()
    draft.load(write_project(tmp_path, optimizer={"lr": 0.003}))
    draft.set("optimizer.lr", draft.default("optimizer.lr"))
    draft.set("optimizer.kind", "lion")
    assert draft.value("optimizer.lr") == Lion().lr
