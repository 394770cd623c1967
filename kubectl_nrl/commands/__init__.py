"""One file per verb: its arguments, its handler and its result. The table of verbs is in `verbs.py`."""
