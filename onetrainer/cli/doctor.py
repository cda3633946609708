"""The command `onetrainer doctor`. Works if packages are missing."""

import argparse
import json
import sys
from collections.abc import Iterator

from onetrainer.errors import EXIT_DONE, EXIT_USER
from onetrainer.support.doctor import INSTALL, examine
from onetrainer.support.findings import Finding, findings_document, problem


def doctor(options: argparse.Namespace) -> int:
    """Print the findings as they are made; return the exit code of a user error if one is bad."""
    findings = []
    for finding in _findings(options):
        findings.append(finding)
        if not options.json:
            sys.stdout.write(f"{finding}\n")
            sys.stdout.flush()
    if options.json:
        document = findings_document(findings)
        sys.stdout.write(f"{json.dumps(document, indent=2, ensure_ascii=False)}\n")
    return EXIT_USER if any(finding.level == "problem" for finding in findings) else EXIT_DONE


def _findings(options: argparse.Namespace) -> Iterator[Finding]:
    is_trainable = True
    for finding in examine():
        is_trainable &= (finding.area, finding.level) != ("torch", "problem")
        yield finding
    if options.quick or not is_trainable:
        return
    if sys.stderr.isatty():
        sys.stderr.write("Training five steps, which takes about ten seconds …\n")
    try:
        from onetrainer.support.self_test import run_self_test
    except ImportError as error:
        yield problem("self-test", f"could not start: {error}", INSTALL)
        return
    yield run_self_test(device=options.device, precision=options.precision)
