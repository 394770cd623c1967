"""What a failed run died of: known failures in realistic logs, near misses, the quoted lines, and any bytes at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import nrl_schemas
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubectl_nrl.api import FailurePattern
from kubectl_nrl.manager import Manager
from kubectl_nrl.triage import END, DeadPod, Failure, death_of, triage
from kubectl_nrl.triage.reference import COMMAND, refreshed

LOGS = Path(__file__).parent / "failure_logs"
PATTERNS = Manager.load(env={}, path=()).failure_patterns()
IN_LOGS = [pattern.id for pattern in PATTERNS if pattern.where == "log"]


def judged(log: bytes | str = b"", **words: Any) -> Failure:
    return triage(log.encode() if isinstance(log, str) else log, patterns=PATTERNS, **words)


def ids(failure: Failure) -> list[str]:
    return [hint.id for hint in failure.hints]


def test_the_table_is_what_its_schema_says_and_names_each_failure_once() -> None:
    jsonschema.validate(nrl_schemas.load("failures/patterns"), nrl_schemas.load("failure_patterns.schema"))
    assert len({pattern.id for pattern in PATTERNS}) == len(PATTERNS)


def test_every_failure_of_a_log_has_an_example() -> None:
    assert {path.stem for path in LOGS.glob("*.log")} == {*IN_LOGS, "near-misses"}


@pytest.mark.parametrize("id", IN_LOGS)
def test_a_failure_is_recognized_as_itself_first(id: str) -> None:
    """Also where its log holds what is vaguer, as a NCCL error below an IMEX one."""
    failure = judged((LOGS / f"{id}.log").read_bytes())
    assert ids(failure)[0] == id
    assert failure.lines
    assert failure.hints[0].line in "\n".join(line for line in (LOGS / f"{id}.log").read_text().splitlines())


@pytest.mark.parametrize("line", (LOGS / "near-misses.log").read_text().splitlines())
def test_what_healthy_runs_print_is_no_failure(line: str) -> None:
    assert ids(judged(line)) == []


def test_healthy_output_as_a_whole_has_no_line_of_error() -> None:
    assert not judged((LOGS / "near-misses.log").read_bytes())


@pytest.mark.parametrize(
    ("end", "id"),
    [
        (["DeadlineExceeded", "The RayJob has passed the activeDeadlineSeconds."], "deadline"),
        (["PreRunningDeadlineExceeded", ""], "start-deadline"),
        (["SubmissionFailed", "Job submission has failed exceeding the backoffLimit"], "submission-failed"),
        (["AppFailed", "Job entrypoint command failed with exit code 137"], "killed"),
        (["", "exit status -9"], "killed"),
        (["AppFailed", "Job entrypoint command failed with exit code 143"], "terminated"),
        (["AppFailed", "Job entrypoint command failed with exit code 139"], "crashed"),
        (["AppFailed", "Job entrypoint command failed with exit code 127"], "command-not-found"),
        (["AppFailed", "Job entrypoint command failed with exit code 1"], None),
        (["AppFailed", "Job entrypoint command failed with exit code 13"], None),
    ],
)
def test_the_runs_own_end_is_recognized(end: list[str], id: str | None) -> None:
    assert ids(judged(end=end)) == ([id] if id else [])


def pod(name: str = "w-1", **status: Any) -> dict[str, Any]:
    labels = {"ray.io/node-type": "worker", "ray.io/group": "gpu"}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def ended(state: str = "state", **terminated: Any) -> dict[str, Any]:
    return pod(containerStatuses=[{"name": "ray", state: {"terminated": terminated}}])


TAKEN = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "preempting to\n x",
}


@pytest.mark.parametrize(
    ("dead", "line", "id"),
    [
        (ended(reason="OOMKilled", exitCode=137), "OOMKilled, container ray, exit 137", "pod-oom-killed"),
        (ended("lastState", reason="OOMKilled", exitCode=137), "OOMKilled, container ray, exit 137", "pod-oom-killed"),
        (pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
         "Evicted, The node was low on resource: memory.", "pod-evicted"),
        (pod(phase="Running", conditions=[TAKEN]), "PreemptionByScheduler, preempting to x", "pod-preempted"),
        (pod(phase="Failed", reason="NodeLost"), "NodeLost", "node-lost"),
        (ended(reason="Error", exitCode=1), "Error, container ray, exit 1", None),
    ],
)  # fmt: skip
def test_how_a_pod_died_is_said_and_recognized(dead: dict[str, Any], line: str, id: str | None) -> None:
    died = death_of(dead)
    assert died is not None
    assert died.line == f"pod w-1 (workers of gpu) died: {line}"
    assert ids(judged(pods=[died])) == ([id] if id else [])


def test_pods_that_live_end_well_or_are_deleted_have_not_died() -> None:
    deleted = ended(reason="Error", exitCode=137)
    deleted["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    alive = pod(phase="Running", containerStatuses=[{"name": "ray", "state": {"running": {}}}])
    assert [death_of(p) for p in (deleted, alive, ended(reason="Completed", exitCode=0))] == [None, None, None]


def test_what_is_specific_hides_its_consequences() -> None:
    log = (LOGS / "actor-died.log").read_text() + (LOGS / "nccl-timeout.log").read_text()
    assert ids(judged(log)) == ["nccl-timeout"]
    assert ids(judged(log + (LOGS / "cuda-out-of-memory.log").read_text())) == ["cuda-out-of-memory"]
    killed = DeadPod("w-1", "workers", "OOMKilled", "", "ray", 137)
    assert ids(judged(log, pods=[killed])) == ["pod-oom-killed"]


def test_plugins_come_first_and_their_pattern_may_be_a_sites_own() -> None:
    own = FailurePattern("site", "No module named 'acme", "the site's package is missing", "pip install acme")
    log = b"ModuleNotFoundError: No module named 'acme'"
    assert [hint.id for hint in triage(log, patterns=[own, *PATTERNS]).hints] == ["site", "module-not-found"]


GOLDEN = """\
last error in its log:
  Traceback (most recent call last):
    File "/opt/nemo-rl/examples/run_grpo.py", line 214, in main
      grpo_train(policy, generation, dataloader, cfg)
    File "/opt/nemo-rl/nemo_rl/models/policy/lm_policy.py", line 512, in train
      results = self.worker_group.get_all_worker_results(futures)
  ray.exceptions.RayTaskError(OutOfMemoryError): ray::MegatronPolicyWorker.train() (pid=2211, ip=10.1.0.9, actor_id=7a0c, \
repr=MegatronPolicyWorker[rank=3])
    File "/opt/nemo-rl/nemo_rl/models/policy/megatron_policy_worker.py", line 871, in train
      losses = forward_backward_func(
    File "/opt/megatron/core/pipeline_parallel/schedules.py", line 402, in forward_backward_no_pipelining
      backward_step(input_tensor, output_tensor, grad, config)
  torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 19.50 GiB. GPU 0 has a total capacity of 184.31 GiB of which 3.20 GiB \
is free. Process 81 has 181.11 GiB memory in use.
likely cause: a GPU's memory was full (cuda-out-of-memory)
hint: policy.train_micro_batch_size or policy.max_total_sequence_length lower, activation checkpointing on, or more GPUs per \
model; with vLLM on the same GPUs, policy.generation.vllm_cfg.gpu_memory_utilization lower"""


def test_the_drivers_traceback_is_shortened_to_its_end() -> None:
    """Twelve lines: where it began is less than what it died of, which a worker's traceback inside it tells."""
    assert judged((LOGS / "cuda-out-of-memory.log").read_bytes()).text() == GOLDEN


def test_a_workers_traceback_is_followed_through_its_own_lines() -> None:
    """Many processes write at once, each behind its prefix, in colours and through vLLM's logger."""
    mixed = (
        "\x1b[36m(A pid=1, ip=10.0.0.1)\x1b[0m ERROR 11-30 10:12:01 [core.py:7] Traceback (most recent call last):\n"
        "(B pid=2) step 3\rstep 4\n"
        '\x1b[36m(A pid=1, ip=10.0.0.1)\x1b[0m ERROR 11-30 10:12:01 [core.py:7]   File "x.py", line 1, in f\n'
        "(B pid=2) ValueError: of another process\n"
        "(A pid=1, ip=10.0.0.1) KeyError: 'reward' [repeated 3x across cluster] (Ray deduplicates logs)\n"
    )
    assert judged(mixed).lines == (
        "Traceback (most recent call last):",
        '  File "x.py", line 1, in f',
        "KeyError: 'reward'",
    )


def test_a_message_of_several_lines_is_quoted_whole_and_the_middle_of_a_long_traceback_left_out() -> None:
    lines = judged((LOGS / "ray-version-mismatch.log").read_bytes()).lines
    assert lines[-3:] == ("This process on node 10.1.0.2 was started with:", "    Ray: 2.49.2", "    Python: 3.12.9")
    deep = (
        "Traceback (most recent call last):\n"
        + '  File "x.py", line 1, in f\n    f()\n' * 90
        + "RecursionError: deep\n"
    )
    lines = judged(deep).lines
    assert (len(lines), lines[:2], lines[-1]) == (
        12,
        ("Traceback (most recent call last):", "  ..."),
        "RecursionError: deep",
    )


def test_the_line_that_counts_is_shown_where_the_traceback_does_not_hold_it() -> None:
    log = (LOGS / "vllm-no-kv-cache.log").read_text() + (LOGS / "actor-died.log").read_text()
    text = judged(log).text()
    assert "in its log: ValueError: No available memory for the cache blocks" in text
    assert "ActorDiedError" in text


def test_without_a_traceback_the_lines_that_speak_of_an_error_are_quoted_once() -> None:
    assert judged("fine\nbash: line 1: nope: command not found\nbye\n").lines == (
        "bash: line 1: nope: command not found",
    )
    assert judged("ERROR: a\n" * 50 + "ERROR: b\n").lines == ("ERROR: a", "ERROR: b")
    assert judged("an error-free day, no errors at all\n").lines == ()


def test_an_error_long_after_a_handled_traceback_is_the_one_that_counts() -> None:
    handled = 'Traceback (most recent call last):\n  File "x"\nOSError: retried\n'
    assert judged(handled + "step\n" * 500 + "bash: x: command not found\n").lines[-1] == "bash: x: command not found"
    assert judged(handled + "step\n" * 5).lines[-1] == "OSError: retried"


def test_only_the_end_of_a_log_is_looked_at() -> None:
    assert ids(judged(b"No CUDA GPUs are available\n" + b"step done\n" * END)) == []


@settings(max_examples=60)
@given(st.binary(max_size=400) | st.text(max_size=400).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b"\x1b[")
@example(b"Traceback (most recent call last):")
@example(b"(pid=1) Traceback (most recent call last):\n\n(pid=1) \xff\n")
def test_any_bytes_are_a_log(log: bytes) -> None:
    failure = judged(log)
    assert len(failure.lines) <= 12
    assert not any((ord(c) < 32 and c != "\t") or c == "\x7f" for line in failure.lines for c in line)


#: What is dear to search: half of a pattern again and again, on one line and on many.
_HALVES = [
    b"batch",
    b"wandb",
    b"huggingface.co",
    b"NCCL WARN ",
    b"placement group",
    b"imex ",
    b"cuMemImport",
    b"(",
    b"\x1b[",
]
_HALVES += [b"Traceback (most recent call last):", b"A.", b"Error", b"(pid=", b"sh: line 1: ", b"GCS", b"\x1b]", b"/"]


@pytest.mark.parametrize("half", _HALVES, ids=lambda half: half.decode("latin-1").strip("\x1b"))
@pytest.mark.parametrize("between", [b"", b" ", b"\n"], ids=["run", "words", "lines"])
def test_hostile_output_is_searched_to_its_end(half: bytes, between: bytes) -> None:
    """A megabyte of it: a pattern that backtracks would run for minutes, and the suite's own limit would end it."""
    judged((half + between) * (1_000_000 // (len(half) + len(between))))


def test_as_data_it_is_what_the_result_schema_says() -> None:
    died = death_of(ended(reason="OOMKilled", exitCode=137))
    assert died is not None
    failure = judged((LOGS / "module-not-found.log").read_bytes(), pods=[died])
    schema = nrl_schemas.load("results/run")["properties"]["failure"]
    jsonschema.validate(failure.data(), schema)
    assert [hint["id"] for hint in failure.data()["hints"]] == ["pod-oom-killed", "module-not-found"]


def test_the_page_of_troubleshooting_lists_every_known_failure() -> None:
    page = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert refreshed(page, PATTERNS) == page, f"refresh it with: {COMMAND}"
