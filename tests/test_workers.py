"""What a module makes once for its tests is made by one worker alone."""

import os

import pytest


@pytest.fixture(scope="module")
def made_once() -> None:
    """What would be costly to make twice, or spoilt by it."""


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process runs all tests")
def test_tests_that_share_a_fixture_stay_on_one_worker(made_once, request):
    assert request.node.nodeid.endswith("@test_workers.py")
