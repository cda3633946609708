"""Packages that a config needs and that are not there."""

import tomllib
from typing import get_args

import pytest

from onetrainer import ROOT, install_command
from onetrainer.checks import packages
from onetrainer.checks.packages import QUANTIZER_EXTRA, QUANTIZERS, package_problems
from onetrainer.checks.preflight import check_environment
from onetrainer.config.run.hardware import Quantization
from onetrainer.presets.presets import resolve
from tests.each import each

KINDS = [kind for kind in get_args(Quantization) if kind != "none"]


def config(**document):
    return resolve(document, source="test")


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda _: None)


def test_every_format_has_a_package_that_the_extra_installs():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = extras["optional-dependencies"][QUANTIZER_EXTRA]
    assert QUANTIZERS.keys() == set(KINDS)
    assert {pin.split("==")[0] for pin in pinned} == set(QUANTIZERS.values())


@each("kind", KINDS)
def test_what_is_there_is_no_problem(kind):
    assert package_problems(config(hardware={"quantization": kind})) == []


@pytest.mark.usefixtures("nothing_installed")
@each("kind", KINDS)
def test_a_missing_package_is_reported_before_a_start_with_its_command(kind):
    found = check_environment(config(hardware={"quantization": kind}))
    (problem,) = [one for one in found if one.path == "hardware.quantization"]
    assert QUANTIZERS[kind] in problem.what
    assert install_command("bits") in problem.remedy
    assert problem.severity == "error"
    assert problem.fix.value == "none"


@pytest.mark.usefixtures("nothing_installed")
def test_what_nobody_needs_may_be_missing():
    paths = [problem.path for problem in package_problems(config())]
    assert "hardware.quantization" not in paths
    assert "output.tensorboard" not in paths
    vae = {"method": {"kind": "vae"}, "objective": {"kind": "reconstruction"}}
    quantized = config(**vae, hardware={"quantization": "int8"})
    assert "hardware.quantization" not in [p.path for p in package_problems(quantized)]


@pytest.mark.usefixtures("nothing_installed")
def test_tensorboard_is_reported_of_where_it_is_wanted():
    found = package_problems(config(output={"tensorboard": True}))
    (problem,) = [one for one in found if one.path == "output.tensorboard"]
    assert problem.severity == "error"
    assert install_command("tensorboard") in problem.remedy
    assert problem.fix.value is False
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (pin,) = extras["optional-dependencies"]["tensorboard"]
    assert f'"{pin.split("==")[0]}"' in problem.what


@pytest.mark.usefixtures("nothing_installed")
def test_optimizers_and_losses_are_reported_of_too():
    document = {"optimizer": {"kind": "adamw8bit"}, "method": {"kind": "vae"}}
    wanted = document | {"objective": {"kind": "reconstruction", "lpips": 1.0}}
    paths = [problem.path for problem in package_problems(config(**wanted))]
    assert paths == ["optimizer.kind", "objective.lpips"]
