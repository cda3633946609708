"""Takes the screenshots of the window for the documents: python -m tests.ui.screenshots.

Two of the demos are trained for it, which takes some minutes. Needs Xvfb, openbox and xdotool.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path

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


def main() -> None:
    parser = argparse.ArgumentParser(description="Takes the screenshots of the documents.")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--size", default="1280x800")
    parser.add_argument("--fake", action="store_true", help="train nothing: faster, less true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    width, height = (int(part) for part in options.size.split("x"))
    # A short path, since the screenshots show it.
    folder = Path(tempfile.gettempdir()) / "onetrainer"
    folder.mkdir()
    try:
        with screen(width + 120, height + 200) as display:
            Studio(display, folder, options.out, options.size, is_fake=options.fake).take_all()
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
        self.take_memory()
        self.make_light_work()
        self.take_welcome()
        self.take_guide()
        desk.wait_state(message="")
        self.take_presets()
        for page in SETTINGS_PAGES:
            desk.page(page)
            self.prepare(page)
            self.shoot(page)
        self.take_preview()
        desk.key("F5")
        most = UNDER_WAY * desk.value("training.steps")
        desk.wait(lambda: desk.state["step"] >= most, "the run under way", LONG)
        desk.page("run")
        self.shoot("run")
        desk.page("monitor")
        self.shoot("monitor")
        desk.page("samples")
        self.shoot("samples")
        desk.ask_to_close()
        desk.wait(lambda: desk.widget("answer keep").get("shown"), "the question")
        desk.image(self.out / "window-closing-dark.png")
        desk.key("Escape")
        desk.page("runs")
        self.shoot("runs")
        desk.page("queue")
        self.shoot("queue")
        desk.key("ctrl+f")
        desk.type("learn")
        self.shoot("search")
        desk.key("Escape")
        if self.is_real:
            self.take_finished()
            self.take_rewards()
        self.finish()

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
            desk.wait(lambda: desk.widget("start next")["enabled"], "the answer")
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
        self.desk.key("ctrl+o")
        self.desk.wait_state(page="presets")
        self.shoot("presets")
        self.desk.key("Escape")

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
            self.desk.rest()
            self.desk.image(self.out / f"window-{page}-{mode}.png")
        self.desk.key("ctrl+d")
        self.desk.wait_state(mode="dark")

    def finish(self) -> None:
        error_log = self.desk.end()
        self.desk.end_worker()
        if error_log:
            raise SystemExit("\n".join(error_log))


if __name__ == "__main__":
    main()
