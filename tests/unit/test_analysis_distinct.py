"""`distinct` against NumPy's own."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from quiver_fast.analysis.model.distribution import distinct


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64])
@given(data=st.data())
def test_it_is_numpys(dtype, data):
    values = data.draw(
        arrays(
            dtype,
            st.integers(0, 50),
            elements={"allow_nan": False} if dtype is np.float64 else None,
        )
    )
    result = distinct(values)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.unique(values))


def test_an_analysis_imports_no_masked_arrays(tmp_path):
    (tmp_path / "receiver-transfers.csv").write_text(
        "a,1700000001000,1700000001001\nb,1700000001000,1700000001002\nd,1700000001001,1700000001003\n"
    )
    (tmp_path / "sender-transfers.csv").write_text(
        "a,1700000001000\nb,1700000001000\nc,1700000001000\nd,1700000001001\n"
    )
    script = (
        "import atexit, sys\n"
        "from quiver_fast.cli.commands import analyze\n"
        "atexit.register(lambda: print('numpy.ma' in sys.modules))\n"
        "sys.exit(analyze())"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False"
