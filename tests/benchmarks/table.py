"""The whole table family × method × objective × precision × memory: what passed, what is refused.

    python -m tests.benchmarks.table [--family sd15] [--method lora] [--memory cached] [--pairs]

Takes ten hours on two cores; the tests run a part in which every pair occurs, and so does --pairs.
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from time import monotonic

from tests import table, tiny
from tests.own_user import own_user


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=tiny.FAMILIES)
    parser.add_argument("--method", choices=tuple(table.METHODS))
    parser.add_argument("--memory", choices=tuple(table.MEMORY))
    parser.add_argument("--pairs", action="store_true", help="only the part that the tests run")
    options = parser.parse_args()
    cases = [
        case
        for case in (table.some_cases() if options.pairs else table.every_case())
        if options.family in (None, case.family)
        and options.method in (None, case.method)
        and options.memory in (None, case.memory)
    ]
    counts: Counter[str] = Counter()
    for case in cases:
        began = monotonic()
        with tempfile.TemporaryDirectory() as folder:
            project = table.write_project(Path(folder) / "p", case.family)
            reason = table.run(case, project, pretends=True)
        counts["refused" if reason else "passed"] += 1
        print(f"{case}: {reason or 'passed'} ({monotonic() - began:.1f} s)", flush=True)
    print(", ".join(f"{count} {word}" for word, count in counts.items()))


if __name__ == "__main__":
    with own_user():
        main()
