"""What endpoints return, held to the dtype of what it belongs to; the rest is tested through the endpoints."""

import numpy as np

from fdcheck.problem.returned import checked_array


def test_checked_array_takes_python_numbers_for_any_dtype():
    notes = []
    for value in (1, 1.0):
        assert checked_array("vjp", value, (), np.dtype(np.float32), "x", "x0", notes) == 1.0
    assert notes == []
