from onetrainer.families import registry
from onetrainer.presets.presets import defaults, with_variant
from tests.families.flow.spec import FLOW
from ui.model.form_fields import (
    display_text,
    edit_text,
    find_setting,
    groups_in,
    page_of,
    pages,
    parse_value,
)
from ui.model.search import find_settings
from ui.model.variants import all_settings, is_variant_choice, section_of, settings_in, variants_in


def kinds_around(section):
    """Kinds with which a section is there."""
    needs = find_setting(f"{section}.kind").needs
    wanted = {path: min(variants) for path, variants in needs}
    return {path: wanted.get(path, kind) for path, kind in variants_in({})}


EVERY_KIND = [
    (section_of(setting.path), kind)
    for setting in all_settings()
    if is_variant_choice(setting.path)
    for kind in setting.choices
]


def setting(path):
    found = find_setting(path)
    assert found is not None
    return found


def shown_on(plan, variants):
    return [s for group in groups_in(plan, variants) for s in group.deep_settings]


def test_every_setting_of_every_variant_is_explained_and_on_its_page_only():
    for section, kind in EVERY_KIND:
        outer = kinds_around(section)
        variants = variants_in(with_variant(defaults(dict(outer)), section, kind))
        shown = {plan.name: shown_on(plan, variants) for plan in pages()}
        everything = [s for settings in shown.values() for s in settings]
        wanted = [s.path for s in settings_in(variants) if s.ui.level != "hidden"]
        assert sorted(s.path for s in everything) == sorted(wanted), (section, kind)
        assert all(s.ui.label and s.help for s in everything), (section, kind)
        for page, settings in shown.items():
            assert {page_of(s.path) for s in settings} <= {page}, (section, kind)


def test_text_encoders_are_groups_under_the_names_that_their_family_gives_them(monkeypatch):
    monkeypatch.setattr(registry, "FAMILIES", (*registry.FAMILIES, FLOW))
    plan = next(plan for plan in pages() if plan.name == "method")
    for family, number, title in [
        ("sd15", 1, "Text encoder"),
        ("sdxl", 1, "Text encoder"),
        ("sdxl", 2, "Second text encoder"),
        ("flow", 1, "Byte encoder"),
    ]:
        method, *_ = groups_in(plan, variants_in({"model": {"family": family}}))
        groups = {group.key: group for group in method.subgroups}
        group = groups[f"method.text_encoders.te{number}"]
        assert group.title == title
        assert group.settings[0].ui.label == f"Train the {title.lower()}"


def test_text_becomes_the_value_it_means():
    for path, text, value in [
        ("optimizer.lr", "1e-4", 1e-4),
        ("optimizer.lr", " 0.003 ", 0.003),
        ("optimizer.lr", "1/4", 0.25),
        ("training.steps", "1_000", 1000),
        ("training.steps", "1e3", 1000),
        ("training.steps", "2.5", 2.5),
        ("training.steps", "abc", "abc"),
        ("training.steps", "", ""),
        ("training.steps", "-", "-"),
        ("method.text_encoders.te1.lr", "", None),
        ("model.path", ' "/a b/c" ', "/a b/c"),
        ("sampling.prompts.0.seed", "7", 7),
    ]:
        made = parse_value(text, setting(path))
        assert made == value, (path, text, value)
        assert type(made) is type(value), (path, text, value)


def test_a_choice_is_reported_by_its_label_and_anything_else_as_it_is():
    assert display_text("sdxl", setting("model.family")) == "SDXL"
    assert display_text("what", setting("model.family")) == "what"
    assert display_text(1e-4, setting("optimizer.lr")) == "1e-4"
    assert display_text(None, setting("method.text_encoders.te1.lr")) == ""
    assert display_text(False, setting("validation.use")) == "off"
    assert display_text(True, setting("validation.use")) == "on"


def test_a_number_shown_and_read_again_is_the_same():
    for value in [1e-4, 3.3e-5, 0.999, 1e-8, 123456.5, 1e22]:
        assert parse_value(edit_text(value), setting("optimizer.lr")) == value, value


def test_search_finds_settings_by_what_people_call_them_now_and_formerly():
    for query, path in [
        ("lr", "optimizer.lr"),
        ("learning", "optimizer.lr"),
        ("vram", "hardware.gradient_checkpointing"),
        ("memory", "hardware.gradient_checkpointing"),
        ("out of memory", "hardware.gradient_checkpointing"),
        ("will it fit", "hardware.gradient_checkpointing"),
        ("overfitting", "validation.use"),
        ("overfit", "validation.use"),
        ("early stop", "validation.patience"),
        ("cfg", "sampling.guidance"),
        ("batch", "training.batch_size"),
        ("keep check", "output.keep_checkpoints"),
        ("sdxl", "model.family"),
        ("inpainting", "model.family"),
        ("vpred", "model.prediction"),
        ("euler", "sampling.sampler"),
        ("privacy", "metadata.include_config"),
        ("validation.share", "validation.split"),
        ("step_in_backward", "optimizer.fused_backward"),
        ("temp_device", "hardware.offload_device"),
        ("most_pictures", "validation.max_images"),
        ("step in backward", "optimizer.fused_backward"),
        ("decode in tiles", "hardware.vae_tiling"),
        ("frozen weights", "hardware.quantization"),
        ("layers in main memory", "hardware.offload_layers"),
        ("held-out pictures", "validation.folder"),
        ("average the weights", "ema.use"),
        ("mirror", "data.augmentation.flip"),
        ("words", "embeddings.tokens"),
        ("text_encoder_2.lr", "method.text_encoders.te2.lr"),
        ("least_diversity", "objective.evaluation.min_diversity"),
    ]:
        found = [hit.setting.path for hit in find_settings(query, pages(), variants_in({}))]
        assert path in found[:3], (query, found)


def hits(query, variants):
    return find_settings(query, pages(), variants)


def test_search_for_a_variant_finds_where_it_is_chosen():
    for query, path, choice in [
        ("lion", "optimizer.kind", "Lion"),
        ("prodigy", "optimizer.kind", "Prodigy"),
        ("min snr", "objective.weighting.kind", "min-SNR"),
        ("dora", "method.kind", "DoRA"),
        ("logit", "objective.timesteps.kind", "logit-normal"),
        ("finetune", "method.kind", "Fine-tuning"),
        ("full finetune", "method.kind", "Fine-tuning"),
        ("full fine-tuning", "method.kind", "Fine-tuning"),
        ("fine tune", "method.kind", "Fine-tuning"),
        ("finetuning", "method.kind", "Fine-tuning"),
    ]:
        first = hits(query, variants_in({}))[0]
        assert (first.target, first.choice, first.only_with) == (path, choice, ""), (
            query,
            path,
            choice,
        )


def test_search_finds_what_other_variants_have_and_says_which():
    there = hits("momentum", variants_in({"optimizer": {"kind": "sgd"}}))
    assert there[0].target == "optimizer.momentum"
    elsewhere = {hit.setting.path: hit for hit in hits("nesterov", variants_in({}))}
    hit = elsewhere["optimizer.nesterov"]
    assert hit.target == "optimizer.kind"
    assert "and others" in hit.only_with
