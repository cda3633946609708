"""What importing the training loop loads of this program."""

import subprocess
import sys

MOST = 16
COUNT = """
import sys, modules.trainer
print(*sorted(m for m in sys.modules if m.split(".")[0] in ("modules", "onetrainer")))
"""


def test_the_training_loop_imports_few_of_our_files():
    ran = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    loaded = ran.stdout.split()
    assert "modules.trainer" in loaded
    assert len(loaded) <= MOST, loaded
