"""What the window says, without a window."""

from pathlib import Path

from onetrainer.errors import Fix, Offer, Problem
from onetrainer.messages.run_standing import standing_text
from onetrainer.presets.find import BUILT_IN
from onetrainer.run.events import Sample, Stopped
from onetrainer.run.history import RunSummary
from onetrainer.run.run_folder import create_run
from ui.actions.preset_actions import name_error, suggested_name
from ui.messages.problems import fix_label, problem_text
from ui.model.draft import PENDING, Draft
from ui.model.preset_origin import PresetOrigin
from ui.pages.run.banner_message import stopped_message
from ui.pages.samples.page import extent
from ui.pages.settings.summary_card import how_often
from ui.progress.run_state import RunState
from ui.progress.samples import SampleBook
from ui.progress.worker_log import relevant_lines, worker_log_tail
from ui.shell.footer import problems_line

ERROR, WARNING = Problem("a", "x"), Problem("a", "x", severity="warning")


def test_ready_is_shown_only_when_it_is_known():
    for problems, is_running, words in [
        ([], False, "Ready to start"),
        ([], True, ""),
        ([PENDING], False, "Checking files…"),
        ([PENDING], True, ""),
        ([ERROR, WARNING, PENDING], False, "1 problem ·"),
        ([WARNING, PENDING], False, "1 warning ·"),
    ]:
        line = problems_line(problems, is_running=is_running)
        assert line.startswith(words), (problems, is_running, words)
        assert bool(line) == bool(words), (problems, is_running, words)


def test_a_quoted_label_has_the_quotes_of_the_window_and_a_command_keeps_its_own():
    text = 'Choose best of n, or turn off "Train toward it". Or run: "a b" -m pip'
    shown = problem_text(Problem("objective.rewards.0.reward", "x", "", text))
    assert "“Train toward it”" in shown
    assert '"a b" -m pip' in shown


def test_a_run_stopped_before_its_first_step_has_saved_nothing(tmp_path):
    folder = create_run(tmp_path, name="paper", config={})
    message = stopped_message(Stopped(0, "stop"), folder)
    assert "No step was trained. “Resume” starts from the beginning" in message.text
    assert not message.can_open_output


def test_a_discarded_run_says_from_where_it_continues(tmp_path):
    folder = create_run(tmp_path, name="paper", config={})
    message = stopped_message(Stopped(57, "discard"), folder)
    assert message.title == "Stopped after step 57, without saving"
    assert message.text == "“Resume” continues from the beginning."
    (folder.checkpoint(50)).mkdir()
    (folder.checkpoint(50) / "state.json").touch()
    message = stopped_message(Stopped(57, "discard"), folder)
    assert message.text == "“Resume” continues from step 50."


def test_a_stopped_run_offers_its_output_where_there_is_some(tmp_path):
    folder = create_run(tmp_path, name="paper", config={})
    (folder.output / "paper.safetensors").write_bytes(b"weights")
    by_itself = Stopped(12, "pause", because="the disk has 1 GB free")
    assert stopped_message(by_itself, folder).text.startswith("The disk has 1 GB free.\nSaved up")
    message = stopped_message(Stopped(12, "stop", ["output/paper.safetensors"]), folder)
    assert "Saved up to step 12" in message.text
    assert message.can_open_output


def test_the_log_s_excerpt_is_that_of_the_last_worker_without_bars(tmp_path):
    log = tmp_path / "worker.log"
    log.write_text(
        "worker 1 begins at 2026-11-20 08:00:00\nan old trouble\n"
        "worker 2 begins at 2026-11-20 09:00:00\nloading\n\n"
        "  0%|          | 0/20 [00:00<?, ?it/s]\r 50%|#####     | 10/20 [00:01<00:01,  9.8it/s]\r"
        "100%|##########| 20/20 [00:40<00:00,  2.0s/it]\nthe trouble\n"
    )
    assert worker_log_tail(log) == ["loading", "the trouble"]
    assert relevant_lines(["no beginning in sight", "trouble"])[-1] == "trouble"
    assert worker_log_tail(tmp_path / "none.log") == []


def test_the_log_s_excerpt_has_no_chatter_of_libraries_and_one_thread_of_a_crash():
    lines = [
        "worker 7 begins at 2026-11-25 22:42:52",
        "Failed to load /x/torchao/_C_mxfp8.so: Could not load this library: /x/torchao/_C.so",
        "W1125 22:42:57.309000 7 /x/torch/utils/_pytree.py:630] an enum is deprecated",
        "Unable to import `torchao` Tensor objects. This may affect loading checkpoints",
        "/x/site-packages/torch/cuda/__init__.py:61: FutureWarning: The pynvml package is old.",
        "  import pynvml  # type: ignore",
        "Fatal Python error: Segmentation fault",
        "",
        "Thread 0x00007ff997fff6c0 (most recent call first):",
        '  File "/x/modules/data/shards.py", line 185 in gather',
        "",
        "Current thread 0x00007ff9d3e72b80 (most recent call first):",
        '  File "/x/modules/trainer.py", line 91 in run',
        "",
        "Extension modules: numpy._core._multiarray_umath, torch._C (total: 2)",
        "E1125 22:43:00.100000 7 /x/torch/distributed.py:7] the port is taken",
    ]
    kept = [lines[place] for place in (6, 11, 12, 15)]
    assert relevant_lines(lines) == kept


def test_a_sentence_begins_with_a_capital_but_the_name_of_a_file_stays():
    for what, words in [
        ("sdxl.safetensors: this is SDXL", "sdxl.safetensors: this is SDXL."),
        ("my model.safetensors: cut off", "my model.safetensors: cut off."),
        ("base: no unet in this folder", "base: no unet in this folder."),
        ("the prompt is empty", "The prompt is empty."),
    ]:
        assert problem_text(Problem("model.path", what)) == words, (what, words)


def test_settings_and_their_values_are_shown_as_the_window_shows_them():
    for path, said, words in [
        ("model.family", 'Choose "sdxl" as model.family', "Choose “SDXL” as “Model family”."),
        ("model.family", 'The one that is set is "sd15"', "The one that is set is “SD 1.5”."),
        (
            "model.zero_terminal_snr",
            'Choose "off", or "v_prediction" with it',
            "Choose “off”, or “v-prediction” with it.",
        ),
        ("model.path", 'Choose "Custom VAE" (model.vae)', "Choose “Custom VAE”."),
        ("schedule.warmup_steps", "fewer than training.steps = 60", "fewer than “Length” = 60."),
        ("model.path", "model.vae.ckpt, /model.vae are files", "model.vae.ckpt, /model.vae are"),
        ("data.folder", '"auto" is the name of a folder', '"auto" is the name of a folder.'),
        ("model.path", "choose a .safetensors version", "choose a .safetensors version."),
        ("sampling.prompts", "sampling.prompts.0.seed is wrong", "sampling.prompts.0.seed is"),
    ]:
        assert words in problem_text(Problem(path, "wrong", said)), (path, said, words)


def test_it_is_shown_how_often_each_image_is_seen():
    for seen, images, words in [
        (1000, 3, "each of 3 images 333 times"),
        (240, 96, "each of 96 images 2.5 times"),
        (12, 12, "each of 12 images once"),
        (60, 1, "the one image 60 times"),
        (60, 1200, "not all of 1,200 images"),
    ]:
        assert how_often(seen, images) == words, (seen, images, words)


def test_times_of_sampling_are_not_called_steps():
    for steps, words in [([12], "once"), ([0, 4, 8, 12], "4 times")]:
        samples = [Sample(step, 0, "samples/a.png", "a boat", 7) for step in steps]
        assert extent(SampleBook.of(samples)) == f"1 image  ·  {words}"


def test_a_button_that_puts_a_problem_right_says_how():
    for fix, words in [
        (Fix("model.family", "sd15-inpainting"), "Use SD 1.5 inpainting"),
        (Fix("model.prediction", "auto"), "Set “Prediction” to automatic"),
        (Fix("training.gradient_clipping", 0.0), "Set “Gradient clipping” to 0"),
        (Fix("model.offline", value=False), "Turn “Offline” off"),
        (Fix("model.family", value=True), "Turn it on"),
    ]:
        assert fix_label(fix, "model.family") == words, (fix, words)


def test_the_pages_run_and_runs_say_the_same_of_a_dead_worker():
    state = RunState()
    run = RunSummary(Path("paper-001"), "broken off", 3, 9, None, 0.0)
    state.unexpected_exit = object()
    assert standing_text(run) == state.status_text() == "Stopped unexpectedly"


def test_a_new_preset_begins_with_a_name_of_its_own():
    for source, proposed in [
        (PresetOrigin(), ("my-preset", "")),
        (PresetOrigin("sd15/lora", BUILT_IN / "sd15/lora.json", False, "Theirs"), ("my-lora", "")),
        (PresetOrigin("paper-001", Path("/r/paper-001/config.json"), False, ""), ("paper-001", "")),
        (PresetOrigin("mine", Path("/p/mine.json"), True, "My words"), ("mine", "My words")),
    ]:
        assert suggested_name(source) == proposed, (source, proposed)


def test_a_name_that_no_file_can_have_is_refused_with_a_message():
    for name in [
        "what?",
        "a:b",
        "..",
        "a/../b",
        "/",
        "a//b",
        "end.",
        "CON",
        "dogs/aux.json",
        "com1.v2",
    ]:
        assert name_error(name), name
    for name in ["short one", "sd15/mine", "mine.json", "v1.5 fast"]:
        assert name_error(name) == "", name


def test_a_remedy_is_left_out_only_where_it_is_obvious_next_to_the_field(home):
    draft = Draft()
    draft.set_all({"training.steps": "many", "hardware": 3})
    for path, ending in (("training.steps", '30 minutes".'), ("hardware", "in { }.")):
        assert problem_text(draft.problem(path)).endswith(ending), problem_text(draft.problem(path))
    reported = Problem(
        "data.caption_list", "wrong", "", "Correct it; {{ and }} are literal braces."
    )
    assert "literal braces" in problem_text(reported)


def test_an_offer_takes_the_place_of_the_remedy():
    fix = Offer("data.concepts", [], label="Make a concept from this folder")
    problem = Problem("data.folder", "numbered", "", "In a terminal: onetrainer concepts", fix=fix)
    assert problem_text(problem) == "Numbered."
