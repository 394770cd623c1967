"""Lies here so that pytest puts tests/ on sys.path: test files can then say `from cluster.fixtures import Cluster`.

Hypothesis must not judge how fast a busy machine is: no test depends on time. It tries the same examples on every run, since a build
must not fail by luck; with FUZZ_EXAMPLES it looks at new ones.
"""

import os
import signal

from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed",
    deadline=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")

# What starts the tests in the background (`&` in a script, nohup) leaves them these signals ignored, and that is inherited: programs
# that tests interrupt would never notice.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
