"""Averages of vectors whose length is kept: they have that length wherever they are shown."""

import torch

from modules.formats.embeddings.embedding_file import read_embedding
from modules.interfaces import ExportOptions
from modules.methods.embedding import Embeddings
from modules.optim.ema import Ema
from modules.optim.exported_weights import ExportedWeights
from modules.optim.update import WeightUpdater
from onetrainer.config.methods.embedding import Embeddings as Section
from onetrainer.config.methods.embedding import EmbeddingToken
from tests import tiny
from tests.close import close
from tests.each import each

PLACES = each("place", ["input", "output"])


def trained(base, *, place, preserve_norm):
    """An embedding whose vectors went far in different directions, and their average."""
    word = EmbeddingToken(token="<cat>", vectors=3, initial_text="a cat", place=place)
    section = Section(tokens=(word,), preserve_norm=preserve_norm)
    _, method = Embeddings.attach(tiny.family(base), section, seed=3)
    (group,) = method.parameter_groups()
    weights = dict(group.parameters)
    ema = Ema(weights, decay=0.6, ramp=False, every=1, location="host")
    generator = torch.Generator().manual_seed(0)
    for step in range(1, 7):
        with torch.no_grad():
            for rows in weights.values():
                rows += rows.norm() * torch.randn(rows.shape, generator=generator)
        method.after_step()
        ema.update(step)
    optimizer = torch.optim.SGD(list(weights.values()))
    updater = WeightUpdater(optimizer, rounding_seed=None, updates_independently=True)
    return method, ema, ExportedWeights(updater, ema, method.after_step)


def lengths(rows):
    return rows.detach().norm(dim=1)


def file_of(method, folder):
    (path,) = method.export(folder / "cat", ExportOptions(torch.float32, {}))
    found = read_embedding(path)
    return {**found.vectors, **found.outputs}


@PLACES
@each("base", ["sd15", "sdxl"])
def test_an_ema_has_the_length_that_its_vectors_keep(tmp_path, base, place):
    method, ema, shown = trained(base, place=place, preserve_norm=True)
    (word,) = method.tokens
    before = {name: rows.clone() for name, rows in method.state_dict().items()}
    averages = {name: rows.clone() for name, rows in ema.state_dict().items()}
    for name, rows in averages.items():
        assert bool((lengths(rows) < 0.95 * lengths(before[name])).all())

    with shown.for_files():
        written = file_of(method, tmp_path)
        bundled = {**method.trained()[0].vectors, **method.trained()[0].outputs}
    with shown.for_samples():
        sampled = {te: rows.detach().clone() for te, rows in word.trained.items()}
    names = {te: name for name, rows in word.parameters().items()
             for te, own in word.trained.items() if own is rows}  # fmt: skip
    for te, name in names.items():
        own = averages[name]
        expected = own * (lengths(before[name]) / lengths(own))[:, None]
        for shown_rows in (written[te], bundled[te], sampled[te]):
            close(shown_rows, expected)
    # Neither the average itself nor what is trained has changed.
    assert all(torch.equal(rows, averages[name]) for name, rows in ema.state_dict().items())
    assert all(torch.equal(rows, before[name]) for name, rows in method.state_dict().items())


def test_an_ema_keeps_its_length_after_its_token_has_stopped(tmp_path):
    method, _, shown = trained("sd15", place="input", preserve_norm=True)
    (rows,) = method.tokens[0].trained.values()
    expected = lengths(rows)
    rows.requires_grad_(False)
    with shown.for_files():
        close(lengths(file_of(method, tmp_path)["te"]), expected)
    with shown.for_samples():
        close(lengths(rows), expected)
