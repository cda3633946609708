"""Writes constraints.txt: one version of every package that any set-up installs, for `make lock`.

These are the versions that pip chooses here for the program with all extras. What only another
system or Python needs, such as colorama on Windows, is found in the packages' metadata and chosen
in another round. Constraints, since every pip reads them on every system: what is not needed is
ignored there, and `torch==2.13.0` fits the wheel for the CPU as well as that for CUDA.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from onetrainer import ROOT

LOCK = ROOT / "constraints.txt"
HEADER = """\
# The version of every package, for every system; `make lock` writes it from pyproject.toml.
# CUDA's own packages are left out: each build of torch pins those that it needs.
"""
OF_CUDA = ("cuda-", "nvidia-", "triton")
SYSTEMS = (
    {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
    {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix"},
    {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt"},
)
PYTHONS = ("3.11", "3.12", "3.13")


def main() -> None:
    """Write the lock."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [f".[{','.join(extras['optional-dependencies'])}]"]
    while True:
        found = choose(wanted)
        requirements = (text for _, texts in found.values() for text in texts)
        missing = {name for name in needed(requirements) if name not in found}
        if not missing:
            break
        wanted += sorted(missing)
    lines = [f"{name}=={version}\n" for name, (version, _) in sorted(found.items())]
    LOCK.write_text(HEADER + "".join(lines))


def choose(wanted: list[str]) -> dict[str, tuple[str, list[str]]]:
    """The version and the requirements of each package that pip would install for those wanted."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        options = ["-qq", "--dry-run", "--ignore-installed", "--report", str(report)]
        command = [sys.executable, "-m", "pip", "install", *options, *wanted]
        subprocess.run(command, cwd=ROOT, check=True)
        packages = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    named = {canonicalize_name(package["name"]): package for package in packages}
    return {
        name: (package["version"].partition("+")[0], package.get("requires_dist", []))
        for name, package in named.items()
        if name != "onetrainer" and not name.startswith(OF_CUDA)
    }


def needed(requirements: Iterable[str]) -> Iterator[str]:
    """The names of those requirements that apply on any system and Python, extras excepted."""
    for requirement in map(Requirement, requirements):
        environments = (
            {**system, "python_version": python, "python_full_version": f"{python}.0", "extra": ""}
            for system, python in product(SYSTEMS, PYTHONS)
        )
        marker, name = requirement.marker, canonicalize_name(requirement.name)
        applies = marker is None or any(marker.evaluate(each) for each in environments)
        if applies and not name.startswith(OF_CUDA):
            yield name


if __name__ == "__main__":
    main()
