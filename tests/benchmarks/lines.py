"""What benchmarks print: a line of JSON for each result."""

import json
import sys
from typing import Any


def say(benchmark: str, **figures: Any) -> None:
    """Print a result."""
    sys.stdout.write(json.dumps({"benchmark": benchmark, **figures}) + "\n")
    sys.stdout.flush()
