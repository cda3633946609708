"""The commands `caption` and `mask`: describe images with a model, and write what was found."""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from onetrainer.captioning.changes import Fate, Proposal, propose
from onetrainer.captioning.kinds import KINDS
from onetrainer.captioning.messages import fate_texts, taken_back_lines, written_lines
from onetrainer.captioning.own_files import own_files
from onetrainer.captioning.results import JobFolder
from onetrainer.captioning.writing import can_take_back, take_back_last, write
from onetrainer.cli.jobs import run_job
from onetrainer.cli.screen import print_lines
from onetrainer.edits.history import EditHistory
from onetrainer.errors import EXIT_DONE, EXIT_USER, UserError
from onetrainer.files.lines import split_lines
from onetrainer.jobs.caption_request import CaptionRequest, CaptionWriting, Makes, MaskWriting
from onetrainer.jobs.options import request_values, validate_request
from onetrainer.messages.formatting import counted, table
from onetrainer.queue.forecast import seconds_of_images
from onetrainer.queue.queue import Queue
from onetrainer.queue.serve import is_served
from onetrainer.run.device_owner import Owner, owning, places_of

_MOST_SHOWN = 20


def caption(options: argparse.Namespace) -> int:
    """Describe images, and write captions if asked to."""
    return _run(options, "captions", CaptionWriting)


def mask(options: argparse.Namespace) -> int:
    """Find what is to be trained in images, and write masks if asked to."""
    return _run(options, "masks", MaskWriting)


def _run(
    options: argparse.Namespace, makes: Makes, section: type[CaptionWriting] | type[MaskWriting]
) -> int:
    if options.take_back:
        return _take_back(Path(options.images))
    if not options.model:
        examples = (spec.example for spec in KINDS.values() if spec.makes == makes)
        raise UserError("the model is missing", f"Expected one such as {', '.join(examples)}")
    values = {**request_values(options, CaptionRequest), "makes": makes}
    request = validate_request(CaptionRequest, values)
    writing = validate_request(section, request_values(options, section))
    job = JobFolder(request)
    missing = job.missing()
    if options.queue:
        return _enqueue(job, len(missing))
    if missing and (code := _describe(job.request, len(missing))) != EXIT_DONE:
        return code
    return _write(job, writing) if options.write else _show(job, writing)


def _describe(request: CaptionRequest, count: int) -> int:
    """Run the model over so many images, once no other process computes on its device."""
    owner = Owner(f"onetrainer {request.makes.removesuffix('s')}")
    places = places_of(request.device)

    def report(other: Owner) -> None:
        print_lines([f"Waiting: {other.name} uses the device."])

    with owning(places, owner, on_wait=report) as expect:
        expect(seconds_of_images(JobFolder(request), count))
        return run_job("caption", request)


def _enqueue(job: JobFolder, count: int) -> int:
    queue = Queue()
    queue.add([job.write_request()], seconds_of_images(job, count))
    lines = [f"Added to the queue: {job.path.name}, {counted(count, 'image')} to describe."]
    if not is_served(queue):
        lines.append("Nothing begins until the queue is started. To begin: queue serve")
    return print_lines([*lines, "Then give the same command again to see and write what it found."])


def _show(job: JobFolder, writing: CaptionWriting | MaskWriting) -> int:
    """Print what would be written."""
    fates, lines = Counter[Fate](), list[str]()
    for proposal in _proposals(job, writing):
        fates[proposal.fate] += 1
        if len(lines) < _MOST_SHOWN:
            lines += _difference(proposal)
    print_lines(lines)
    print_lines(_fate_lines(fates, writing))
    return print_lines(["Nothing is written yet. To write: the same command with --write"])


def _difference(proposal: Proposal) -> list[str]:
    """Return what is said of one caption: what there is, and what would take its place."""
    name, text = proposal.image.name, proposal.text
    now = " / ".join(split_lines(proposal.text_before))
    match proposal.fate:
        case "changed" if text and now:
            return [f"{name}:", f"  now: {now}", f"  new: {' / '.join(split_lines(text))}"]
        case "kept" if text:
            return [f"{name}:", f"  yours: {now}", f"  found: {text}"]
    return [f"{name}: {text}"] if text else []


def _write(job: JobFolder, writing: CaptionWriting | MaskWriting) -> int:
    images, makes = Path(job.request.images), job.request.makes
    about = f"{makes.capitalize()} by {Path(job.request.model).name}"
    written = write(_proposals(job, writing), images, about, EditHistory())
    print_lines(_fate_lines(written.fates, writing))
    print_lines(written_lines(written, makes))
    if written.files:
        command = "caption" if makes == "captions" else "mask"
        print_lines([f"To take this back: {command} --take-back {images}"])
    return EXIT_USER if written.failures else EXIT_DONE


def _take_back(images: Path) -> int:
    history = EditHistory()
    if not can_take_back(images, history):
        raise UserError(f"{images}: there is nothing to take back for this folder")
    return print_lines(taken_back_lines(take_back_last(images, history)))


def _proposals(job: JobFolder, writing: CaptionWriting | MaskWriting) -> Iterator[Proposal]:
    return propose(job, own_files(Path(job.request.images)), writing)


def _fate_lines(fates: Counter[Fate], writing: CaptionWriting | MaskWriting) -> list[str]:
    lines = table([(text, f"{count:,}") for text, count in fate_texts(fates)])
    if fates["kept"]:
        also = ", before or after" if isinstance(writing, CaptionWriting) else ""
        lines.append(f"Your own stay; to change them, too: --existing replace{also}")
    return lines
