"""A real Kubernetes for the tests on one Linux machine, started and stopped by the scripts beside this file.

Modules import one another relatively, so the package works as `cluster` (scripts, pytest) and as `tests.cluster`.
"""
