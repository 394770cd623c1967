"""What a failed run died of: the last error lines of its log, the pods that died, and hints for known failures. Pure.

A log is searched, never understood: nothing here may fail or take long, whatever bytes a job has written.
"""

from __future__ import annotations

from .dead_pods import DeadPod, death_of
from .failure import Failure, triage
from .log_lines import END
from .matching import Hint

__all__ = ["END", "DeadPod", "Failure", "Hint", "death_of", "triage"]
