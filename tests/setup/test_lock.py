"""The lock of all packages, constraints.txt."""

import tomllib
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from onetrainer import ROOT
from tests.lock import LOCK, needed


def test_lock_has_the_pins_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = [project["dependencies"], *project["optional-dependencies"].values()]
    found = map(Requirement, (pin for each in pins for pin in each))
    expected = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in found}
    assert expected.items() <= _locked().items()


def test_lock_has_what_locked_packages_need_on_any_system():
    locked = _locked()
    installed = {canonicalize_name(each.name): each for each in metadata.distributions()}
    for name in locked.keys() & installed.keys():
        if installed[name].version.partition("+")[0] == locked[name]:
            assert set(needed(installed[name].requires or [])) <= locked.keys(), name


def _locked() -> dict[str, str]:
    lines = LOCK.read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))
