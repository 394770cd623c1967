"""Fixtures of the tests that need a cluster which runs RayJobs."""

from collections.abc import Iterator

import pytest
from cluster.fixtures import browser, kwok_cluster, kwok_namespace, node_cluster, node_namespace
from command_line import end_all

__all__ = ["browser", "kwok_cluster", "kwok_namespace", "node_cluster", "node_namespace"]


@pytest.fixture(autouse=True)
def no_program_outlives_its_test() -> Iterator[None]:
    """One that a failed test did not wait for would be blamed on whichever test runs when it is collected."""
    yield
    end_all()
