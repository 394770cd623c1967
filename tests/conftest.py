"""Lies here so that pytest puts tests/ on sys.path: test files can then say `from cluster.fixtures import Cluster`.

Hypothesis must not judge how fast a busy machine is: no test depends on time.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
