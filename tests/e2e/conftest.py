"""Fixtures of the tests that need a cluster which runs RayJobs."""

from cluster.fixtures import node_cluster, node_namespace

__all__ = ["node_cluster", "node_namespace"]
