"""What has changed of a run's data since the checkpoint that it continues from."""

from collections.abc import Iterator

from modules.assembly.inputs import Inputs
from modules.assembly.validation_set import held_out_digest
from modules.training.checkpoint_record import CheckpointRecord
from onetrainer.messages.formatting import counted, some


def data_warnings(last: CheckpointRecord, inputs: Inputs) -> Iterator[str]:
    """Yield what has changed of images, captions, prompts and validation images.

    Settings that change how they are used are reported with the settings.
    """
    before, now = last.data, inputs.digests
    changed = [name for name in now if name in before and before[name] != now[name]]
    if changed:
        yield (
            f"the {' and the '.join(changed)} have changed since the checkpoint; the run continues"
            " with the new ones"
        )
    elif not before and last.data_digest != inputs.digest:
        yield (
            "the data, or how they are encoded, have changed since the checkpoint; the run"
            " continues with the new ones"
        )
    validation = inputs.validation
    if validation is None:
        return
    if last.validation_files is None:
        is_same = held_out_digest(last) in (validation.digest, validation.former_digest)
        new = [] if is_same else list(validation.names)
    else:
        known = {*last.validation_files}
        files = zip(validation.names, validation.files, strict=True)
        new = [name for name, file in files if file not in known]
    if new:
        verb = "was" if len(new) == 1 else "were"
        yield (
            f"{counted(len(new), 'validation image')} ({some(new, len(new))}) {verb} not set aside"
            " at the checkpoint: what was in the folders then has been trained on, and its loss is"
            " lower than that of images the model has never seen"
        )
