"""Fixtures of the tests that need a cluster which runs RayJobs."""

from cluster.fixtures import browser, kwok_cluster, kwok_namespace, node_cluster, node_namespace

__all__ = ["browser", "kwok_cluster", "kwok_namespace", "node_cluster", "node_namespace"]
