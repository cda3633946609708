from modules.formats.models.extras import standard_extras_notes

LAYER = "cond_stage_model.model.transformer.resblocks.23."


def test_made_up_extras_are_reported():
    names = [f"{LAYER}{n}" for n in range(12)]
    names += ["cond_stage_model.model.text_projection", "cond_stage_model.model.logit_scale"]
    assert standard_extras_notes(names) == [
        "Added 14 standard tensors that single files have and folders do not (an unused layer of"
        " the text encoder, text projection, logit scale); the model's weights are unchanged."
    ]


def test_position_ids_are_not_reported():
    positions = "conditioner.embedders.0.transformer.text_model.embeddings.position_ids"
    assert standard_extras_notes([positions]) == []
    (note,) = standard_extras_notes([positions, "conditioner.embedders.1.model.logit_scale"])
    assert note.startswith("Added 1 standard tensor that single files have and folders do not (l")
    assert "position" not in note
