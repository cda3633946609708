"""The commands `doctor`, which works if packages are missing, and `report`."""

import argparse
import json
import sys
from collections.abc import Iterator

from onetrainer.errors import EXIT_DONE, EXIT_USER
from onetrainer.support.doctor import INSTALL, examine
from onetrainer.support.findings import Finding, findings_document, problem

WITHOUT_PRIVATE = (
    "It holds no images, prompts, captions or weights; tokens, home folders and names of users are"
    " replaced. --with-samples adds prompts and samples."
)


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


def report(options: argparse.Namespace) -> int:
    """Write a report about a run and print what it holds."""
    from onetrainer.support.report import write_report

    written = write_report(
        options.run_folder, examine(), out=options.out, with_samples=options.with_samples
    )
    lines = [f"The report is {written.path}", *(f"  {line}" for line in written.contents)]
    private = "It holds prompts and samples." if options.with_samples else WITHOUT_PRIVATE
    sys.stdout.write("\n".join([*lines, private]) + "\n")
    return EXIT_DONE


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
