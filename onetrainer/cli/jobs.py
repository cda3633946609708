"""The commands that make images and files of models, and what is shown of every job."""

import argparse
import sys
from collections.abc import Callable

from onetrainer.cli.effects import ask_for_base_model
from onetrainer.cli.screen import Screen, on_interrupt, phase_text
from onetrainer.config.base.section import Section
from onetrainer.errors import EXIT_PROGRAM, UserError, problem_json, sentence
from onetrainer.jobs.convert_request import ConvertRequest, examine, source_run
from onetrainer.jobs.job import Job, JobName
from onetrainer.jobs.lora_requests import (
    ExtractRequest,
    MergeRequest,
    ResizeRequest,
    examine_extract,
    examine_merge,
    merge_of_resize,
)
from onetrainer.jobs.options import naming_options, request_values, validate_request
from onetrainer.jobs.sample_options import request_of, sampled_lora
from onetrainer.jobs.sample_request import SampleRequest
from onetrainer.run.events import (
    Failed,
    Finished,
    Forecast,
    Phase,
    Sample,
    Stopped,
    Warned,
    exit_code_for,
)


def sample(options: argparse.Namespace) -> int:
    """Generate images."""
    try:
        request = request_of(options)
    except UserError as error:
        raise UserError(naming_options(str(error), SampleRequest)) from error
    return run_job("sample", request)


def convert(options: argparse.Namespace) -> int:
    """Convert a model, LoRA or embedding, or write the file of a run's checkpoint."""
    try:
        request = validate_request(ConvertRequest, request_values(options, ConvertRequest))
        if (run := source_run(request)) is None:  # in this process, since it needs no engine
            examine(request)
        else:
            ask_for_base_model(run, request.step, is_meant=options.yes)
    except UserError as error:
        raise UserError(naming_options(str(error), ConvertRequest)) from error
    return run_job("convert", request)


def merge(options: argparse.Namespace) -> int:
    """Merge LoRAs into a base model, or into one LoRA."""
    values = request_values(options, MergeRequest)
    values["loras"] = [sampled_lora(text) for text in options.loras or ()]
    return _run_merge(validate_request(MergeRequest, values))


def resize(options: argparse.Namespace) -> int:
    """Change a LoRA's rank."""
    request = validate_request(ResizeRequest, request_values(options, ResizeRequest))
    return _run_merge(merge_of_resize(request))


def _run_merge(request: MergeRequest) -> int:
    examine_merge(request)
    return run_job("merge", request)


def extract(options: argparse.Namespace) -> int:
    """Extract the difference of two models as a LoRA."""
    request = validate_request(ExtractRequest, request_values(options, ExtractRequest))
    examine_extract(request)
    return run_job("extract", request)


def run_job(
    name: JobName,
    request: Section,
    *,
    is_json: bool = False,
    lines_of: Callable[[Forecast], list[str]] = lambda _: [],
) -> int:
    """Run a job, show its progress and return its exit code.

    Ctrl+C stops it, a second one kills it. Errors go to standard error. is_json: Standard output
    gets no progress, and errors also there, as JSON. lines_of: The lines to print for a forecast.
    """
    screen = Screen(sys.stderr if is_json else sys.stdout)
    started: list[Job] = []
    early: list[None] = []  # interrupts while it starts
    code = EXIT_PROGRAM
    with on_interrupt(lambda _: started[0].stop() if started else early.append(None)):
        job = Job(name, request)
        started.append(job)
        for _ in early:
            job.stop()
        listed: set[str] = set()
        for event in job.events():
            lines: list[str] = []
            match event:
                case Forecast():
                    lines = lines_of(event)
                case Phase():
                    # Details of "loading" are complete sentences.
                    is_sentence = event.name == "loading" and event.detail
                    screen.update_status(event.detail if is_sentence else phase_text(event))
                case Sample():
                    listed.add(event.path)
                    lines = [event.path]
                case Warned():
                    lines = [f"warning: {event.text}"]
                case Finished():
                    lines = [*event.summary, *(p for p in event.outputs if p not in listed)]
                case Stopped():
                    lines = ["Stopped."]
                case Failed():
                    screen.clear()
                    _report_failure(event, type(request), is_json=is_json)
            for line in lines:
                screen.write_line(line)
            ending = exit_code_for(event)
            code = code if ending is None else ending
    screen.clear()
    return code


def _report_failure(event: Failed, request: type[Section], *, is_json: bool) -> None:
    parts = filter(None, (event.what, event.expected, event.remedy))
    # A part of several lines ends with a log, which stays unchanged.
    message = " ".join(part if "\n" in part else sentence(part) for part in parts)
    message = naming_options(message, request)
    sys.stderr.write(f"{message}\n")
    if is_json:
        sys.stdout.write(f"{problem_json(message)}\n")
