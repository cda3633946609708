"""Takes the screenshots of the window for the documents: python -m tests.ui.screenshots.

Two of the demos are trained for it, which takes some minutes; a run holds still while it is shown.
Needs Xvfb, openbox and xdotool.
"""

import argparse
import fcntl
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from onetrainer.run.run_folder import RunFolder
from tests.ui.desk import ROOT, Desk
from tests.ui.xscreen import screen

SETTINGS_PAGES = (
    "model",
    "data",
    "method",
    "training",
    "loss",
    "sampling",
    "validation",
    "output",
    "hardware",
)
LONG = 1800.0
UNDER_WAY = 0.68
TOO_LARGE = {"extends": "sdxl/lora-24gb"}
"""What the GPU of `tests.ui.gpu_worker` has too little memory for."""
VALIDATION = {"use": True, "split": 0.25, "every": 20}
MARK = ".screenshots"
"""In a folder that is made here, and locked while it is in use."""
COLORS = 256
"""Of a screenshot: a third of the bytes, and nothing that the eye finds."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Takes the screenshots of the documents.")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--size", default="1280x800")
    parser.add_argument("--fake", action="store_true", help="train nothing: faster, less true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    width, height = (int(part) for part in options.size.split("x"))
    # A short path, since the screenshots show it.
    with (
        own_folder(Path(tempfile.gettempdir()) / "onetrainer") as folder,
        screen(width + 120, height + 200) as display,
    ):
        studio = Studio(display, folder, options.out, options.size, is_fake=options.fake)
        try:
            studio.take_all()
        finally:
            error_log = studio.finish()
    if error_log:
        raise SystemExit("\n".join(error_log))


@contextmanager
def own_folder(folder: Path) -> Iterator[Path]:
    """A new folder for a while; one that a call left when its process was killed is replaced."""
    mark = folder / MARK
    if folder.exists() and not mark.exists():
        raise SystemExit(f"{folder} is in the way, and not of these screenshots: move it.")
    folder.mkdir(exist_ok=True)
    with mark.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"{folder} is in use by another call.") from None
        try:
            for left in set(folder.iterdir()) - {mark}:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            yield folder
        finally:
            shutil.rmtree(folder)


class Studio:
    def __init__(self, display: str, folder: Path, out: Path, size: str, *, is_fake: bool) -> None:
        self.out = out
        config = folder / "config" / "onetrainer"
        config.mkdir(parents=True)
        (config / "window.json").write_text(json.dumps({"geometry": f"{size}+40+60"}))
        worker = "tests.ui.fake_worker" if is_fake else "tests.ui.gpu_worker"
        self.is_real = not is_fake
        self.folder = folder
        self.desk = Desk(
            display, folder, "--demo", str(folder / "demo"), mode="screenshot", worker=worker
        )

    def take_all(self) -> None:
        desk = self.desk
        desk.wait_state(preset="demo")
        desk.wait_state(message="")
        self.make_light_work()
        self.take_welcome()
        self.take_guide()
        desk.wait_state(message="")
        self.take_presets()
        for page in SETTINGS_PAGES:
            desk.page(page)
            self.prepare(page)
            self.shoot(page)
        self.take_search()
        self.take_preview()
        self.take_dataset()
        self.take_tools()
        self.take_queue()
        desk.key("F5")
        most = UNDER_WAY * desk.value("training.steps")
        desk.wait(lambda: desk.state["step"] >= most, "the run under way", LONG)
        with self.holding_still():
            self.take_run()
        if self.is_real:
            self.take_finished()
            self.take_trial()
            self.take_rewards()
            self.take_runs()
        self.take_memory()  # which takes longest

    @contextmanager
    def holding_still(self) -> Iterator[None]:
        """The run makes no step meanwhile, however long the screenshots take."""
        pid = RunFolder(Path(self.desk.state["folder"])).worker_pid()
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def take_run(self) -> None:
        desk = self.desk
        for page in ("run", "monitor", "samples"):
            desk.page(page)
            self.shoot(page)
        desk.ask_to_close()
        desk.wait_question("answer keep")
        self.save("closing-dark")
        desk.key("Escape")
        desk.wait_end_of_question("answer keep")

    def take_search(self) -> None:
        desk = self.desk
        desk.key("ctrl+f")
        desk.type("learn")
        self.shoot("search")
        desk.key("Escape")

    def take_dataset(self) -> None:
        desk = self.desk
        desk.key("shift+F6")
        desk.wait(lambda: desk.state["images"].get("is_read"), "the images")
        desk.key("Right", "Right")
        self.shoot("images")
        desk.key("shift+F7")
        desk.wait_state(page="captioning")
        self.shoot("captioning")

    def take_tools(self) -> None:
        desk = self.desk
        desk.key("F11")
        desk.wait_state(page="tools")
        desk.click("tool Resize")
        desk.click("tool rank")
        self.shoot("tools")

    def take_queue(self) -> None:
        """Runs that wait; removed, so that the demo trains alone."""
        desk = self.desk
        desk.key("F7")
        desk.wait_state(page="queue")
        desk.click("enqueue sweep")
        desk.wait_question("answer values")
        desk.type("2e-3, 4e-3, 8e-3")
        desk.key("Return")
        desk.wait(lambda: len(desk.state["queue"]) == len("abc"), "the runs")
        self.shoot("queue")
        place = desk.widget("queue table")
        for left in (2, 1, 0):
            desk.click_at(place["x"] + 80, place["y"] + 45)  # the first row
            desk.key("Delete")
            desk.wait(lambda left=left: len(desk.state["queue"]) == left, "one less")
        for folder in map(Path, (self.folder / "demo" / "runs").glob("*")):
            shutil.rmtree(folder)

    def take_preview(self) -> None:
        desk = self.desk
        desk.key("F6")
        desk.wait_state(page="preview")
        desk.wait(lambda: desk.state["preview"]["plan"]["buckets"], "the sizes")
        self.shoot("preview")
        desk.click("preview check")
        desk.click("check images")
        desk.wait(lambda: desk.state["preview"]["check"]["groups"], "the findings", LONG)
        self.shoot("check")
        desk.click("preview plan")

    def take_finished(self) -> None:
        desk = self.desk
        desk.page("run")
        desk.wait_state(status="finished", deadline=LONG)
        self.shoot("finished")
        desk.page("samples")
        self.shoot("samples-finished")

    def take_trial(self) -> None:
        """Images of what the run has trained."""
        desk = self.desk
        desk.key("F9")
        desk.wait_state(page="trial")
        desk.replace("trial prompt", "a yellow smiley on a green background")
        for name, text in (("width", "128"), ("height", "128"), ("count", "4")):
            desk.replace(f"trial {name}", text)
        desk.click("add run lora")
        desk.wait_question("answer run")
        desk.click("answer add")
        desk.wait_end_of_question("answer run")
        desk.click("generate")
        desk.wait(lambda: desk.state["trial"]["status"].startswith("Done"), "the images", LONG)
        self.shoot("trial")

    def take_runs(self) -> None:
        desk = self.desk
        desk.page("runs")
        desk.wait(lambda: len(desk.state["runs"]["names"]) > 1, "the runs")
        place = desk.widget("runs table")
        desk.click_at(place["x"] + 120, place["y"] + 53)  # the first row
        desk.wait(lambda: desk.state["runs"]["chosen"], "the chosen run")
        self.shoot("runs")
        desk.key("ctrl+a")
        desk.click("compare runs")
        desk.wait(lambda: desk.state["runs"]["tab"], "the comparison")
        self.shoot("compare")

    def take_rewards(self) -> None:
        """The demo of reward training: its page, and the run when it has ended."""
        desk = self.desk
        desk.ask("load", path=str(self.folder / "demo" / "demo-alignprop.json"))
        desk.page("rewards")
        self.shoot("rewards")
        desk.key("F5")
        desk.wait_state(status="running", deadline=LONG)
        desk.page("run")
        desk.wait_state(status="finished", deadline=LONG)
        self.shoot("reward-run")

    def take_memory(self) -> None:
        """A run that is too large, and what would lower it; as a person sees it after a click."""
        desk = self.desk
        config = self.folder / "too-large.json"
        config.write_text(json.dumps(TOO_LARGE))
        desk.ask("load", path=str(config))
        desk.page("hardware")
        button = "will it fit hardware"
        desk.click(button)
        desk.wait(lambda: desk.widget(button)["text"] == "Update", "the forecast", LONG)
        self.shoot("memory")

    def make_light_work(self) -> None:
        """The demo, which also measures validation images.

        One thread is fastest for its tiny model where others use the machine too.
        """
        config = self.folder / "demo" / "demo.json"
        document = json.loads(config.read_text())
        document["hardware"]["threads"] = 1
        document["validation"] = VALIDATION
        config.write_text(json.dumps(document))
        self.desk.ask("load", path=str(config))

    def take_welcome(self) -> None:
        self.desk.click("keys")
        self.desk.wait_state(page="keys")
        self.shoot("keys")
        self.desk.click("home")
        self.desk.wait_state(page="welcome")
        self.shoot("welcome")

    def take_guide(self) -> None:
        """The guided start on the demo's images; undone, so that the demo is trained."""
        desk, demo = self.desk, self.folder / "demo"
        desk.click("welcome train on my images")
        desk.wait_state(focus="start images")
        for step, answer in (("images", demo / "pictures"), ("model", demo / "base")):
            desk.type(str(answer))
            desk.wait(lambda: desk.widget("start next")["kind"] == "primary", "the answer")
            self.shoot(f"start-{step}")
            desk.click("start next")
        desk.click("start aim person")
        desk.wait_state(focus="start word")
        desk.type("mika-k")
        self.shoot("start-aim")
        desk.click("start next")
        desk.wait_state(focus="start now")
        desk.wait(lambda: desk.state["forecast"], "the forecast", LONG)
        self.shoot("start")
        desk.key("ctrl+z")
        desk.wait_state(preset="demo")

    def take_presets(self) -> None:
        desk = self.desk
        desk.key("ctrl+o")
        desk.wait_state(page="presets")
        desk.type("sd15")
        desk.wait(lambda: " s a step" in desk.state["presets"]["needs"], "the time of a step", LONG)
        self.shoot("presets")
        desk.key("Escape")

    def prepare(self, page: str) -> None:
        desk = self.desk
        if page == "training":
            desk.replace("optimizer.lr", "3e-3")
            desk.replace("training.batch_size", "none")
            desk.wait(lambda: desk.error("training.batch_size"), "the message next to the field")
        if page == "sampling":
            # The demo trains as it was made; the change was for the screenshot.
            desk.page("training")
            desk.click("reset training.batch_size")
            desk.click("reset optimizer.lr")
            desk.page("sampling")
        if page in ("model", "data"):
            desk.click({"model": "model.path", "data": "data.resolution"}[page])

    def shoot(self, page: str) -> None:
        for mode in ("dark", "light"):
            if self.desk.state["mode"] != mode:
                self.desk.key("ctrl+d")
                self.desk.wait_state(mode=mode)
            self.save(f"{page}-{mode}")
        self.desk.key("ctrl+d")
        self.desk.wait_state(mode="dark")

    def save(self, name: str) -> None:
        self.desk.park()  # no tip of what the pointer happens to be over
        self.desk.rest()
        path = self.out / f"window-{name}.png"
        self.desk.image(path)
        with Image.open(path) as image:
            image.convert("RGB").quantize(COLORS).save(path, optimize=True)

    def finish(self) -> list[str]:
        """End the window and its worker; return the defects that it met."""
        error_log = self.desk.end()
        self.desk.end_worker()
        return error_log


if __name__ == "__main__":
    main()
