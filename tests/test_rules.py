"""The rules R1 to R6 of ARCHITECTURE.md, checked on the project as it is."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain

import pytest

from onetrainer import ROOT
from tests import rules
from tests.line_ends import line_violations
from tests.opening_rules import opening_violations
from tests.tolerances import tolerance_violations

# Processor time to load all of the contract, in multiples of what its libraries take in the same
# process. About 3.5 on each machine tried; a forgotten import of torch makes it 20.
MOST_IMPORT_RATIO = 6.0
DATA_SUFFIXES = {".json", ".txt", ".safetensors"}
DATA_NAMES = {"LICENSE", "NOTICE"}


@pytest.fixture(scope="module")
def sources() -> list[rules.Source]:
    return rules.read_sources(ROOT, rules.WINGS)


@pytest.fixture(scope="module")
def everything(sources: list[rules.Source]) -> list[rules.Source]:
    script = ROOT / "start-ui.py"
    own = rules.parse(script.name, script.read_text("utf-8"))
    return [*sources, *rules.read_sources(ROOT, ["tests"]), own]


def test_r1_libraries_stay_in_their_wing(sources):
    assert _listed(rules.library_violations(sources)) == ""


def test_r1_contract_loads_fast_and_without_torch_or_tkinter(sources):
    names = [source.module for source in sources if source.module.startswith("onetrainer")]
    code = (
        "import importlib, sys, time\n"
        "import numpy, PIL.Image\n"
        "from pydantic import BaseModel, Field, TypeAdapter\n"
        "libraries = time.process_time()\n"
        f"for name in {[name for name in names if not name.endswith('__main__')]!r}:\n"
        "    importlib.import_module(name)\n"
        "print(time.process_time() / libraries, *sys.modules)"
    )
    # The first one may have to compile.
    for _ in range(3):
        ratio, *loaded = _output_of(code).split()
        assert set(loaded) & rules.HOMES.keys() == set()
        if float(ratio) < MOST_IMPORT_RATIO:
            break
    else:
        pytest.fail(f"loads in {ratio} times what its libraries take")


def test_r1_window_loads_without_torch(sources):
    names = [source.module for source in sources if source.module.startswith("ui")]
    code = (
        "import importlib, sys\n"
        f"for name in {[name for name in names if not name.endswith('__main__')]!r}:\n"
        "    importlib.import_module(name)\n"
        "print(*sys.modules)"
    )
    heavy = {name for name, home in rules.HOMES.items() if home == "modules"}
    assert set(_output_of(code).split()) & heavy == set()


def test_r2_wings_meet_in_the_contract_only(sources):
    assert _listed(rules.wing_violations(sources)) == ""


def test_r3_folders_import_lower_ranks_only(sources):
    assert _listed(rules.rank_violations(sources)) == ""


def test_r3_nothing_imports_in_a_circle(sources):
    assert rules.circles(sources) == []


def test_r3_few_files_stand_at_the_top_of_a_wing(sources):
    assert _listed(rules.top_violations(sources)) == ""


def test_r3_a_folder_loads_none_of_its_files(sources):
    assert _listed(rules.package_violations(sources)) == ""


def test_r4_only_assembly_sees_the_whole_config(sources):
    assert _listed(rules.config_violations(sources)) == ""


def test_families_are_named_where_they_are_described(sources):
    assert _listed(rules.family_violations(sources)) == ""


def test_files_of_run_folders_are_opened_in_one_place(sources):
    assert _listed(opening_violations(sources)) == ""


def test_r5_files_and_functions_are_small(everything):
    assert _listed(chain.from_iterable(map(rules.size_violations, everything))) == ""


def test_r6_configs_hold_data_only():
    other = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "configs").rglob("*")
        if path.is_file() and path.suffix not in DATA_SUFFIXES and path.name not in DATA_NAMES
    ]
    assert other == []


def test_r6_every_json_in_configs_can_be_read():
    files = list((ROOT / "configs").rglob("*.json"))
    assert files
    for file in files:
        json.loads(file.read_text("utf-8"))


def test_silenced_checks_say_why_and_files_say_what_they_are_about(sources):
    assert _listed(chain.from_iterable(map(rules.manner_violations, sources))) == ""


def test_matches_over_our_classes_name_each_of_them(sources):
    assert _listed(chain.from_iterable(map(rules.match_violations, sources))) == ""


def test_no_tolerance_of_a_test_is_a_bare_small_number():
    sources = rules.read_sources(ROOT, ["tests"])
    assert _listed(chain.from_iterable(map(tolerance_violations, sources))) == ""


def test_texts_are_cut_into_lines_by_one_function(sources):
    assert _listed(chain.from_iterable(map(line_violations, sources))) == ""


def test_top_of_the_project_holds_what_was_agreed():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    allowed = {
        *("onetrainer", "modules", "ui", "configs", "tests", "docs", "pyproject.toml"),
        "constraints.txt",
        *("start-ui.py", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"),
        *("LICENSE", "Makefile", ".ci", ".gitignore", ".gitattributes"),
    }
    assert {line.split("/")[0] for line in listed.stdout.splitlines()} - allowed == set()


def _listed(violations: Iterator[str]) -> str:
    return "\n".join(violations)


def _output_of(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
