"""Fixtures of the tests that need an API server."""

from cluster.fixtures import api_cluster, api_namespace

__all__ = ["api_cluster", "api_namespace"]
