"""Questions about very many images, which a process of their own answers."""

import os
from contextlib import suppress

from onetrainer.config.train import TrainConfig
from ui.background.background_query import Answer, Ask, CancelToken

MANY_FILES = 2000
"""Files from which on a process of its own is worth its start, which takes half a second."""


def apart(ask: Ask[Answer]) -> Ask[Answer]:
    """Return a function that answers as `ask`, apart where there are many images.

    ask: A function of a module, which the other process imports.
    """

    def ask_there(config: TrainConfig, token: CancelToken[Answer]) -> Answer:
        if not has_many_files(config):
            return ask(config, token)
        # Imported late to keep the start of the window fast.
        from ui.background.answering_process import answer_apart

        return answer_apart(ask, config, token)

    return ask_there


def has_many_files(config: TrainConfig) -> bool:
    """Return whether the image folders of a config have more than a few files; counts no more."""
    # Imported late to keep the start of the window fast.
    from onetrainer.concepts.concepts import concepts_of

    left = MANY_FILES
    waiting = [(str(each.folder), each.recursive) for each in concepts_of(config)]
    while waiting and left > 0:
        folder, is_recursive = waiting.pop()
        with suppress(OSError), os.scandir(folder) as entries:  # which the answer tells
            for entry in entries:
                left -= 1
                if left <= 0:
                    break
                if is_recursive and entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, True))
    return left <= 0
