import subprocess
import sys

import pytest


@pytest.mark.slow
def test_wrong_input_to_every_public_function_gives_one_clear_error():
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.wrong_input"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
