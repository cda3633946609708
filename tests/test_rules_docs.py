"""What the documents say is so: commands, verbs, presets, dependencies, places."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata

from onetrainer import ROOT
from onetrainer.config.fields import sections, setting_at, settings
from onetrainer.config.renamed import current_path
from onetrainer.config.train import TrainConfig
from tests import rules
from tests.each import each

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")


def _text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_the_architecture_fits_on_a_few_pages():
    assert len(_text("ARCHITECTURE.md").splitlines()) <= 200


def _pins() -> dict[str, str]:
    """Every pin of pyproject.toml by its package's name, in the spelling of the index."""
    project = tomllib.loads(_text("pyproject.toml"))["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    return {_plain(pin.split("==")[0]): pin for pin in listed}


def _plain(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def test_readme_lists_the_commands_that_there_are():
    command = [sys.executable, "-m", "onetrainer", "--help"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    there_are = re.findall(r"^    ([\w-]+)(?: |$)", shown, re.MULTILINE)
    listed = re.findall(r"^\| `([\w-]+)", _text("README.md").split("| Exit code")[0], re.MULTILINE)
    assert sorted(listed) == sorted(there_are)


def test_documents_name_verbs_that_there_are():
    verbs = set(re.findall(r"^([a-z-]+):", _text("Makefile"), re.MULTILINE))
    named = {verb for name in DOCUMENTS for verb in re.findall(r"`make ([a-z-]+)`", _text(name))}
    assert named - verbs == set()


def test_every_verb_has_a_line_of_help():
    shown = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    asked = ("setup", "fmt", "lint", "type", "test", "bench", "test-gpu", "all", "screenshots")
    assert [verb for verb in asked if not re.search(rf"make {verb} +\S", shown)] == []


def test_documents_name_presets_that_there_are():
    presets = ROOT / "configs" / "presets"
    there_are = {
        path.relative_to(presets).with_suffix("").as_posix() for path in presets.rglob("*.json")
    }
    named = {found for name in DOCUMENTS for found in re.findall(r"`?(sd15/[\w-]+)", _text(name))}
    assert named - there_are == set()


@each("package", _pins())
def test_every_dependency_is_pinned_and_has_a_reason(package):
    assert re.fullmatch(r"[\w-]+==[\w.]+", _pins()[package])
    table = _text("ARCHITECTURE.md").split("## 7. Dependencies")[1].split("\n## ")[0]
    assert package in {_plain(word) for word in re.findall(r"[\w-]+", table)}


def test_imported_packages_are_pinned_or_come_with_a_pinned_one():
    """A package that only something unpinned needs could vanish with its next version."""
    required = {package for pin in _pins() for package in _requirements(pin)}
    distributions = metadata.packages_distributions()
    named = {
        found.target.split(".")[0]
        for source in rules.read_sources(ROOT, rules.WINGS)
        for found in rules.imports(source, ())
    }
    outside = named - set(sys.stdlib_module_names) - set(rules.WINGS) - {""}
    providers = {name: {_plain(each) for each in distributions.get(name, ())} for name in outside}
    loose = {name for name, found in providers.items() if not found & (required | _pins().keys())}
    assert loose == set()


def test_readme_and_architecture_name_files_that_there_are():
    named = set(
        re.findall(
            r"`((?:docs|tests|configs|onetrainer|modules|ui)/[\w/.-]+)`",
            "".join(map(_text, DOCUMENTS)),
        )
    )
    examples = {"modules/families/x.py", "configs/models/x/", "onetrainer/bundled/"}  # of wheels
    missing = {path for path in named - examples if not (ROOT / path).exists()}
    assert missing == set()


def test_documents_name_settings_that_there_are_or_were():
    """Also the settings reference, and the changelog by their former names."""
    parts = "|".join(sections(TrainConfig))
    named = {
        (page.name, path)
        for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
        for path in re.findall(rf"`((?:{parts})\.[a-z_0-9.*]+)`", page.read_text("utf-8"))
    }
    assert {place for place in named if not _is_setting(place[1])} == set()


def _is_setting(path: str) -> bool:
    """Whether it is or was the path of a setting, or of a section; `*` is any entry of a list."""
    current = current_path(path.replace("*", "0"))
    return setting_at(current) is not None or any(
        setting.path.startswith(f"{current}.") for setting in settings(TrainConfig)
    )


def _requirements(package: str) -> set[str]:
    try:
        listed = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return set()
    return {_plain(match[0]) for line in listed if (match := re.match(r"[\w.-]+", line))}
