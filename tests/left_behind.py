"""The state of this process that tests share: what one leaves changed, the next one meets.

Which test is next depends on how many processes share the tests, and on how fast they are.
"""

import gc
import locale
import logging
import os
import signal
import socket
import sys
import tempfile
import warnings

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def shared_state() -> dict[str, object]:
    """Return what a test finds as it is; libraries that are not loaded yet have no entry.

    TF32 is left out: each run chooses it anew, for GPUs.
    """
    environment = os.environ._data.copy()  # through its methods it takes a hundred times as long
    environment.pop(os.environ.encodekey("PYTEST_CURRENT_TEST"), None)
    state: dict[str, object] = {
        "environment": environment,
        "current folder": os.getcwd(),  # noqa: PTH109  # a tenth of Path.cwd's time
        "sys.path": list(sys.path),
        "sys.excepthook": sys.excepthook,
        "handlers of signals": [signal.getsignal(number) for number in _SIGNALS],
        "handlers of logging": list(logging.root.handlers),
        "level of logging": (logging.root.level, logging.root.manager.disable),
        # Those of one message or of a library's own come with its first import.
        "filters of warnings": [
            each
            for each in warnings.filters
            if each[1] is None and each[2].__module__ == "builtins"
        ],
        "garbage collection": gc.isenabled(),
        "temporary folder": tempfile.tempdir,
        "timeout of sockets": socket.getdefaulttimeout(),
        "locale": locale.setlocale(locale.LC_ALL),
    }
    if (torch := sys.modules.get("torch")) is not None and hasattr(torch, "compile"):
        state |= {
            # Where more are asked for (tests.processors), each test is given them anew.
            "torch: threads": "TEST_THREADS" in os.environ or torch.get_num_threads(),
            "torch: dtype": torch.get_default_dtype(),
            "torch: gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
            "torch: determinism": (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
            ),
            "torch: backends": (
                torch.backends.mkldnn.enabled,
                torch.backends.cudnn.enabled,
                torch.backends.cudnn.benchmark,
                torch.backends.cudnn.deterministic,
            ),
        }
    return state
