"""Two processes and a batch norm: what each of them stores, as the page says it."""

import pytest

from book.code import two_processes


@pytest.fixture(scope="module")
def means():
    return two_processes.main()


def test_copied_buffers_are_those_of_process_0(means):
    first, second = means[True]
    assert abs(first) < 0.1
    assert abs(second - 1) < 0.1  # 0.9 of what was copied, 0.1 of its own mean


def test_buffers_kept_apart_have_the_mean_of_the_data_together(means):
    first, second = means[False]
    assert abs(first) < 0.1 and abs(second - 10) < 0.1
    assert abs((first + second) / 2 - 5) < 0.1
