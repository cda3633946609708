"""What cards, page and terminal say of a run before it begins is what its worker then does."""

import re

import pytest

from onetrainer.cache.run_entries import cache_folder
from onetrainer.config.train import TrainConfig
from onetrainer.messages.dataset import format_preview
from onetrainer.run.events import Checkpoint, Finished, Progress, Sample, Started, Warned
from tests import runs, tiny
from ui.background.background_query import CancelToken
from ui.background.dataset_preview import compute_preview
from ui.messages.dataset import facts
from ui.model.draft import Draft
from ui.pages.settings.summary_card import data_lines, left_out_lines, run_lines

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_workers")]


def number_before(word, lines):
    """The number before a word with which one of several lines begins."""
    found = {hit[1] for line in lines for hit in [re.match(rf"([\d.,]+) {word}", line)] if hit}
    assert len(found) == 1, (word, lines)
    return float(found.pop().replace(",", ""))


def test_cards_page_and_terminal_say_of_a_run_what_its_events_then_report(tmp_path):
    config = runs.write_project(tmp_path)
    captions = [f"thing {number}" for number in range(8)]
    whole = tiny.write_images(tmp_path / "pictures", captions) / "picture-7.png"
    whole.write_bytes(whole.read_bytes()[:-200])  # a download that was broken off
    folder = runs.new_run(
        config,
        training={"steps": "3 epochs", "batch_size": 2, "accumulation": 1},
        validation={"use": True, "split": 0.25, "every": 4},
    )
    draft = Draft()
    draft.load(folder.config)
    resolved = TrainConfig.model_validate_json(folder.config.read_text())
    data = compute_preview(resolved, CancelToken(lambda *_: None))
    card = [*run_lines(draft, data), *data_lines(data, "files"), *left_out_lines(data)]
    page = [f"{fact.text}" for fact in facts(data.preview)]
    terminal = format_preview(data.preview)

    assert runs.finish(folder) == 0
    shards = [*cache_folder(resolved).rglob("*.safetensors")]
    latents = [path.stat().st_size for path in shards if path.parent.name == "latents"]
    forecast = data.preview.cache
    # Of the tiny model's captions less than of a published one's, of latents the same.
    assert forecast.image_bytes <= sum(latents) <= forecast.image_bytes + 1024 * len(latents)
    assert sum(path.stat().st_size for path in shards) <= forecast.bytes
    events = {kind: [] for kind in (Started, Progress, Sample, Checkpoint, Finished, Warned)}
    for event in runs.events_of(folder):
        events.get(type(event), []).append(event)

    # Each is told before the samples of its step, the last one before those of the end.
    assert all(event.eta_seconds >= 1 for event in events[Progress])
    progress, summary = events[Progress], " ".join(events[Finished][0].summary)
    assert len(progress) == number_before("steps?\\b", card) == progress[-1].total_steps
    epochs = number_before("epochs?\\b", card)
    assert progress[-1].epoch <= epochs <= progress[-1].epoch + 1
    assert len(events[Sample]) == number_before("sample images?", card)
    assert f"Trained on {number_before('training', card):.0f} images" in summary
    assert "picture-7.png" in summary
    assert number_before("left out", card) == 1
    for other in (page, terminal):
        whole_text = " ".join(other)
        assert f"{len(progress)} steps" in whole_text
        assert f"{number_before('training', card):.0f} training" in whole_text
        assert ("1 image" if other is page else "picture-7.png") in whole_text
