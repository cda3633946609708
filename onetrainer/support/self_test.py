"""The self-test, run as a job in a process of its own."""

from typing import Any

from onetrainer.jobs.job import Job
from onetrainer.jobs.self_test_request import SelfTestRequest
from onetrainer.run.events import Failed, Finished
from onetrainer.support.findings import Finding, problem


def run_self_test(**request: Any) -> Finding:  # noqa: ANN401 # the request checks its values
    """Train five steps and return whether that works. request: Fields of `SelfTestRequest`."""
    for event in Job("self_test", SelfTestRequest(**request)).events():
        match event:
            case Finished():
                return Finding("self-test", event.summary[0])
            case Failed():
                return problem("self-test", event.what, event.remedy or "Report this failure.")
    return problem("self-test", "ended early", "Run it again.")
