"""Fixtures of the tests that need a cluster which runs RayJobs."""

from cluster.fixtures import kwok_cluster, kwok_namespace, node_cluster, node_namespace

__all__ = ["kwok_cluster", "kwok_namespace", "node_cluster", "node_namespace"]
