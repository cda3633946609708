"""The reference of every setting as Markdown, for docs/settings.md."""

import sys

from onetrainer.config.fields import Setting, sections, settings
from onetrainer.config.problems import shown
from onetrainer.config.train import TrainConfig

INTRODUCTION = """\
# Settings

Every setting of a config, by its path as `--set` takes it. A preset file holds those that differ
from the defaults. Paths are relative to the file that names them. This page is made from the
program by `make docs`.
"""


def render() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for key, section in sections(TrainConfig).items():
        words = " ".join((section.__doc__ or "").split())
        rows = [_row(setting) for setting in settings(section, f"{key}.")]
        parts.append("\n".join([f"## {key}", "", words, "", *_HEAD, *rows, ""]))
        for setting in settings(section, f"{key}."):
            if setting.item is not None:
                inner = [_row(part) for part in settings(setting.item, f"{setting.path}.0.")]
                parts.append("\n".join([f"Each of `{setting.path}`:", "", *_HEAD, *inner, ""]))
    return "\n".join(parts)


_HEAD = ("| Setting | Takes | Default | Meaning |", "|---|---|---|---|")


def _row(setting: Setting) -> str:
    default = "" if setting.default in ("", (), None) else f"`{shown(setting.default)}`"
    unit = f" {setting.ui.unit}" if setting.ui.unit and default else ""
    cells = (f"`{setting.path}`", setting.expected, default + unit, setting.help)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(render())
