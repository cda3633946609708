"""The real worker, which counts memory as if it had a GPU of 8 GB: for screenshots."""

import io
import json
import sys
import time

from modules import worker
from onetrainer.run.events import Finished, Forecast
from onetrainer.run.wire import encode_event

FREE = 7.3
"""GB of such a card that the desktop leaves free."""
NAME = "a GPU of 8 GB"
RATES = {"float32": 7.5e12, "bfloat16": 3e13}
SPEED = {
    "flops": {
        f"{kind} {dtype}": rate
        for kind in ("product", "convolution", "attention")
        for dtype, rate in RATES.items()
    },
    "bytes_per_second": 2.2e11,
    "call_seconds": 8e-6,
}
"""Half of what a GeForce RTX 4060 is said to reach, and most of its 272 GB/s (its data sheet)."""


def main(arguments: list[str]) -> int:
    if arguments == ["--job", "plan"]:
        asked = json.load(sys.stdin)
        if asked.get("only_speed"):
            for event in (Forecast({}, "", 0, device=NAME, speed=SPEED), Finished(0, [])):
                print(encode_event(event, time=time.time()), end="", flush=True)
            return 0
        text = json.dumps({**asked, "memory": FREE})
        sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    return worker.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
