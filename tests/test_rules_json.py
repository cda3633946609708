"""JSON is read by one reader with limits; the few others are named here with the reason."""

import re

from onetrainer import ROOT

READS = re.compile(r"json\.loads?\(|JSONDecoder\(|\b\w+\.validate_json\(")
MAY = {
    "onetrainer/files/own_json.py": "the reader",
    "onetrainer/json_file.py": "configs, with the line of a mistake",
    "onetrainer/captions/caption_list_file.py": "lists of captions, with the line of a mistake",
    "onetrainer/presets/foreign.py": "files of any program, of which it names the program alone",
    "onetrainer/tensor_files/safetensors_header.py": "headers of any program, 100 MB of them",
    "onetrainer/support/doctor.py": "needs the standard library only; its own process answers",
    "onetrainer/model_files/sizes.py": "a file that comes with the program",
    "onetrainer/model_files/wholeness.py": "files that come with the program",
    "modules/formats/models/component_shapes.py": "a text that it has made itself",
    "modules/formats/models/stored_configs.py": "a text that was checked before",
    "ui/model/window_state.py": "a text that it has made itself",
}


def test_json_is_read_by_one_reader():
    readers = {
        path.relative_to(ROOT).as_posix()
        for wing in ("onetrainer", "modules", "ui")
        for path in (ROOT / wing).rglob("*.py")
        if READS.search(path.read_text(encoding="utf-8"))
    }
    assert readers == MAY.keys()
