"""The real worker, which counts memory as if it had a GPU of 8 GB: for screenshots."""

import io
import json
import sys

from modules import worker

FREE = 7.3
"""GB of such a card that the desktop leaves free."""


def main(arguments: list[str]) -> int:
    if arguments == ["--job", "plan"]:
        asked = json.load(sys.stdin)
        text = json.dumps({**asked, "memory": FREE})
        sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    return worker.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
