"""Lies here so that pytest puts tests/ on sys.path: test files can then say `from cluster.fixtures import Cluster`."""
