"""Functions in processes of their own: calls, errors, memory, and their end."""

import operator

import pytest

from dev.processes import Process


def test_calls_and_their_errors_come_back(capfd):
    # The memory of the process that starts it does not count.
    held = b"x" * 300_000_000
    process = Process(operator.methodcaller, "index", 7)
    del held
    assert process([5, 7]) == 1 and process([7]) == 0
    with pytest.raises(ValueError, match="7 is not in list"):
        process([5])
    assert process([3, 4, 7]) == 2
    # A Python without libraries.
    assert 5 < process.peak_megabytes < 200
    with pytest.raises(ValueError, match=r"measured methodcaller.*7.* died"):
        process(None)
    process.close()
    assert "AttributeError" in capfd.readouterr().err


def test_what_cannot_be_made_is_raised():
    with pytest.raises(ValueError, match=r"invalid literal .* 'seven'"):
        Process(int, "seven")
