"""The Triton kernels, in Triton's interpreter: outputs and gradients beside normkit in float64."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "book/code/rms_norm_triton.py"


def test_the_script_is_short_enough_to_be_read_line_by_line():
    assert len(SCRIPT.read_text("utf-8").splitlines()) <= 120


@pytest.fixture(scope="module")
def found():
    """What the script prints in a process that interprets from its start."""
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.needs("triton")
def test_outputs_and_gradients_are_right_in_any_width_and_dtype(found):
    assert {dtype for _shape, dtype, _errors in found} == {"float32", "bfloat16"}
    assert any(shape[-1] & (shape[-1] - 1) for shape, *_ in found)  # not a power of two
    for _shape, dtype, errors in found:
        assert max(errors) < {"float32": 1e-6, "bfloat16": 1e-2}[dtype]
