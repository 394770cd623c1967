"""`run`, `check` and `job resume` of uploaded code, against a cluster in memory and a Ray that breaks on demand."""

from __future__ import annotations

import io
import json
import re
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeJobs
from run_files import files

from kubectl_nrl.commands import handover
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.facts import OFFLINE
from kubectl_nrl.labels import RUN, SUBMISSION
from kubectl_nrl.testing import RUN_ID, USER, Outcome, Project

JOB = "t-test"
RUN_LINE = "run recipe.yaml --infra infra.yaml -n default"
LOST = ClusterError("connection lost", reason="ConnectionLost")


class UploadJobs(FakeJobs):
    """Ray's Jobs API with packages; `trouble` maps a method to what it raises, once for each entry."""

    def __init__(self) -> None:
        super().__init__(b"step 1\n")
        self.packages: dict[str, bytes] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.did: list[str] = []
        self.trouble: dict[str, list[BaseException]] = {}
        self.on_upload: Callable[[], object] = lambda: None

    def _do(self, what: str) -> None:
        self.did.append(what)
        if self.trouble.get(what):
            raise self.trouble[what].pop(0)

    def get(self, submission_id: str) -> dict[str, Any] | None:
        return self.jobs.get(submission_id)

    def upload_package(self, name: str, body: Any, progress: Callable[[int], None]) -> int:
        self.on_upload()
        self._do("upload")
        if name in self.packages:
            return 0
        self.packages[name] = b"".join(body)
        progress(len(body))
        return len(body)

    def submit(
        self, entrypoint: str, submission_id: str, *, runtime_env: Mapping[str, Any], metadata: Mapping[str, str]
    ) -> bool:
        self._do("submit")
        assert runtime_env["working_dir"].removeprefix("gcs://") in self.packages
        self.jobs[submission_id] = {"entrypoint": entrypoint, "runtime_env": runtime_env, "metadata": dict(metadata)}
        return True

    def __enter__(self) -> UploadJobs:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def sent(self) -> dict[str, bytes]:
        """The files of the one package."""
        (data,) = self.packages.values()
        with zipfile.ZipFile(io.BytesIO(data)) as zipped:
            return {name: zipped.read(name) for name in zipped.namelist()}


class World:
    """A Project whose operator brings the Ray cluster up to `ready`, waits for spec.jobId, and plays on to `end`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.jobs, self.facts = FakeCluster(), UploadJobs(), replace(OFFLINE, source="cluster")
        self.ready, self.end = ("Waiting", ""), ("Complete", "SUCCEEDED")
        self.threads: list[threading.Thread] = []
        self.project = Project(files("bash train.sh $NRL_RECIPE", codeSource="upload"))
        self.project.write("train.sh", "echo step 1\n")
        self.cluster.after["create", "RayJob"] = lambda: self._start(self._up)
        self.cluster.after["patch", "RayJob"] = lambda: self._start(self._on)
        monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: self.cluster)
        monkeypatch.setattr("kubectl_nrl.facts.discover", lambda cluster: self.facts)
        monkeypatch.setattr("kubectl_nrl.ray_jobs.connect", lambda cluster, raycluster: self.jobs)
        monkeypatch.setattr(handover, "PAUSE", 0.0)

    def _start(self, act: Callable[[], None]) -> None:
        thread = threading.Thread(target=act, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _up(self) -> None:
        job = self.cluster.objects["RayJob", "default", JOB]
        refs = [{"uid": job["metadata"]["uid"]}]
        self.cluster.put({"kind": "RayCluster", "metadata": {"name": "t-x1", "ownerReferences": refs}})
        if self.ready:
            state, reason = self.ready
            self.cluster.set_status(
                "RayJob", JOB, jobDeploymentStatus=state, jobStatus="", rayClusterName="t-x1", reason=reason,
                startTime="2026-01-02T03:04:05Z",
            )  # fmt: skip

    def _on(self) -> None:
        if not self.job_id():
            return
        self.jobs.did.append("jobId")
        for state, status in (("Running", "RUNNING"), self.end):
            self.cluster.set_status("RayJob", JOB, jobDeploymentStatus=state, jobStatus=status, jobId=self.job_id())

    def job_id(self) -> str | None:
        return self.cluster.objects["RayJob", "default", JOB].get("spec", {}).get("jobId")

    def run(self, more: str = "", verb: str = RUN_LINE, **env: str) -> Outcome:
        return self.project.run(f"{verb} {more}", env=env)

    def settled(self) -> None:
        """Wait until the operator has played all that there is to play."""
        for thread in self.threads:
            thread.join(60)

    def created(self) -> list[str]:
        return [kind for verb, kind, _ in self.cluster.calls if verb == "create"]

    def left_undone(self, more: str = "") -> None:
        """A run whose laptop left before it submitted anything."""
        self.jobs.trouble["upload"] = [KeyboardInterrupt()]
        assert self.run(more).exit == 130
        self.jobs.did.clear()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(monkeypatch)
    yield made
    made.settled()


def test_the_cluster_comes_first_then_code_submission_and_kuberays_job_id(world: World) -> None:
    done = world.run().ok()
    assert world.jobs.did[:3] == ["upload", "submit", "jobId"]
    assert world.job_id() == RUN_ID
    assert list(world.jobs.jobs) == [RUN_ID]
    assert done.out == "step 1\n"
    assert f"rayjob/{JOB}: SUCCEEDED" in done.err


def test_what_is_sent_is_said_with_its_size_before_anything_exists(world: World) -> None:
    done = world.run().ok()
    said = done.err.index("uploading ")
    assert said < done.err.index("rayjob/t-test created")
    assert re.search(rf"uploading [\d.]+ \w+, 3 files \([\d.]+ \w+ unpacked\), of {world.project.path}\n", done.err)
    assert "  train.sh  12 B, 1 file" in done.err


def test_the_working_directory_holds_the_code_and_the_composed_recipe(world: World) -> None:
    world.project.write("data/t.jsonl", "{}")
    world.project.write(".gitignore", "*.jsonl\n")
    world.run("steps=7").ok()
    sent = world.jobs.sent()
    assert sorted(sent) == [".gitignore", "data/t.jsonl", "infra.yaml", "nrl_k8s_run.yaml", "recipe.yaml", "train.sh"]
    assert b"steps: 7" in sent["nrl_k8s_run.yaml"]


def test_the_job_names_its_run_its_person_and_the_entrypoint_they_wrote(world: World) -> None:
    world.run().ok()
    job = world.jobs.jobs[RUN_ID]
    assert job["metadata"] == {"user": USER, "entrypoint": "bash train.sh $NRL_RECIPE", RUN: RUN_ID}
    assert job["entrypoint"].startswith("sh -c ': nrl ")
    assert job["runtime_env"]["working_dir"].startswith("gcs://_ray_pkg_")


def test_repo_root_and_upload_paths_choose_what_is_sent(world: World) -> None:
    for name in ("src/a/x.py", "src/b/y.py", "src/c.py"):
        world.project.write(name, "x")
    world.run("--repo-root src 'infra.launch.rayUploadPaths=[a,c.py]'").ok()
    assert sorted(world.jobs.sent()) == ["a/x.py", "c.py", "nrl_k8s_run.yaml"]


def test_no_wait_returns_when_it_is_submitted(world: World) -> None:
    world.end = ("Running", "RUNNING")
    done = world.run("--no-wait").ok()
    assert world.job_id() == RUN_ID
    assert "the run does not need this machine any more" in done.err
    assert f"kubectl nrl job logs {RUN_ID} -f -n default" in done.err


@pytest.mark.parametrize("flag", ["", "--no-wait"])
def test_a_run_that_ends_before_it_is_ready_is_not_submitted(world: World, flag: str) -> None:
    world.ready = ("Failed", "PreRunningDeadlineExceeded")
    done = world.run(flag)
    assert done.exit == 1
    assert "FAILED (PreRunningDeadlineExceeded)" in done.err
    assert world.jobs.did == []


def test_timeout_counts_from_the_start(world: World) -> None:
    world.ready = ("Initializing", "")
    done = world.run("--timeout 1")
    assert done.exit == 4
    assert world.jobs.did == []
    assert "gave up waiting (Initializing: its Ray cluster is starting); its code is not submitted" in done.err
    assert f"upload and submit: kubectl nrl job resume {RUN_ID} --repo-root {world.project.path} -n default" in done.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda w: w.project.write("infra.yaml", files(codeSource="upload", rayUploadPaths=["nope", "no"])["infra.yaml"]),
         "launch.rayUploadPaths lists what is not in"),
        (lambda w: w.project.write(".rayignore", "!\n"), "holds a pattern that cannot be read"),
    ],
)  # fmt: skip
def test_code_that_cannot_be_sent_is_refused_before_anything_exists(
    world: World, change: Callable[[World], object], said: str
) -> None:
    change(world)
    done = world.run()
    assert done.exit == 2
    assert said in done.err
    assert world.created() == []


def test_too_large_an_upload_is_refused_before_anything_exists(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "kubectl_nrl.upload.package.pack.__kwdefaults__", {"body_max": 100, "progress": lambda done: None}
    )
    done = world.run("--replace")
    assert done.exit == 2
    assert "which is Ray's limit; largest: infra.yaml" in done.err
    assert world.created() == []


def test_without_port_forward_nothing_is_created(world: World) -> None:
    world.cluster.denied.add(("create", "pods/portforward"))
    done = world.run()
    assert done.exit == 3
    assert "needed to upload the code" in done.err
    assert world.created() == []


@pytest.mark.parametrize("status", [413, 500])
def test_what_ray_refuses_takes_the_run_back(world: World, status: int) -> None:
    world.jobs.trouble["upload"] = [ClusterError("Ray does not take it", status=status, reason="RayRefused")]
    done = world.run()
    assert done.exit == 3
    assert "Ray does not take it" in done.err
    assert ("RayJob", "default", JOB) not in world.cluster.objects


def test_what_ray_refuses_is_said_also_when_the_run_cannot_be_taken_back(world: World) -> None:
    world.jobs.trouble["upload"] = [ClusterError("Ray does not take it", status=413, reason="RayRefused")]
    world.cluster.faults["delete", "RayJob"] = ClusterError("cannot delete rayjobs", status=403, reason="Forbidden")
    done = world.run()
    assert done.exit == 3
    assert "error: Ray does not take it" in done.err
    assert f"rayjob/{JOB} may still hold what it has: cannot delete rayjobs" in done.err
    assert f"hint: kubectl nrl job stop rayjob/{JOB} -n default" in done.err


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_api_server_in_trouble_costs_no_run(world: World, status: int) -> None:
    world.jobs.trouble["upload"] = [ClusterError("etcd: request timed out", status=status, reason="InternalError")]
    world.run().ok()
    assert list(world.jobs.jobs) == [RUN_ID]


@pytest.mark.parametrize("step", ["upload", "submit"])
def test_an_outage_in_between_is_waited_out(world: World, step: str) -> None:
    world.jobs.trouble[step] = [LOST, ClusterError("no head", reason="NoHead")]
    done = world.run().ok()
    assert "not submitted yet (connection lost); trying again" in done.err
    assert list(world.jobs.jobs) == [RUN_ID]


def test_kuberay_is_told_again_when_its_answer_was_lost(world: World) -> None:
    patch, lost = world.cluster.patch, [LOST]

    def cut(api: str, kind: str, name: str, namespace: str, body: Mapping[str, Any], **words: Any) -> Any:
        if "jobId" in body.get("spec", {}) and lost:
            raise lost.pop()
        return patch(api, kind, name, namespace, body, **words)

    world.cluster.patch = cut  # type: ignore[method-assign]
    world.run().ok()
    assert world.jobs.did[:3] == ["upload", "submit", "jobId"]


def test_a_long_outage_leaves_the_run_and_says_how_to_go_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "PATIENCE", 0.0)
    world.jobs.trouble["upload"] = [LOST]
    done = world.run()
    assert done.exit == 6
    assert f"hint: kubectl nrl job resume {RUN_ID} --repo-root {world.project.path} -n default" in done.err
    assert ("RayJob", "default", JOB) in world.cluster.objects


def test_ctrl_c_before_the_submission_says_how_to_go_on(world: World) -> None:
    world.jobs.trouble["upload"] = [KeyboardInterrupt()]
    done = world.run()
    assert done.exit == 130
    assert "interrupted; its code is not submitted" in done.err
    assert f"upload and submit: kubectl nrl job resume {RUN_ID} --repo-root {world.project.path} -n default" in done.err
    assert ("RayJob", "default", JOB) in world.cluster.objects


def test_resume_goes_on_from_the_record_alone(world: World) -> None:
    world.left_undone("steps=9")
    (world.project.path / "recipe.yaml").unlink()
    (world.project.path / "infra.yaml").unlink()
    done = world.run(verb=f"job resume {RUN_ID} -n default").ok()
    assert world.jobs.did[:3] == ["upload", "submit", "jobId"]
    assert sorted(world.jobs.sent()) == ["nrl_k8s_run.yaml", "train.sh"]
    assert b"steps: 9" in world.jobs.sent()["nrl_k8s_run.yaml"]
    assert world.jobs.jobs[RUN_ID]["metadata"]["entrypoint"] == "bash train.sh $NRL_RECIPE"
    assert f"rayjob/{JOB}: SUCCEEDED" in done.err


def test_resume_sends_no_byte_that_ray_has(world: World) -> None:
    world.jobs.trouble["submit"] = [KeyboardInterrupt()]
    assert world.run().exit == 130
    done = world.run(verb=f"job resume {RUN_ID} -n default").ok()
    assert "uploaded 0 bytes: the Ray cluster has this code already" in done.err
    assert len(world.jobs.packages) == 1


def test_resume_of_a_job_that_ray_has_only_tells_kuberay(world: World) -> None:
    world.left_undone()
    world.jobs.jobs[RUN_ID] = {"metadata": {RUN: RUN_ID}}
    done = world.run(verb=f"job resume {RUN_ID} -n default").ok()
    assert f"Ray has job {RUN_ID} already" in done.err
    assert world.jobs.did == ["jobId"]


def test_resume_no_wait_and_repo_root(world: World) -> None:
    world.left_undone()
    world.project.write("other/only.py", "x")
    done = world.run(verb=f"job resume {RUN_ID} -n default --repo-root other --no-wait -o json").ok()
    assert done.result("run")["commands"]["logs"] == f"kubectl nrl job logs {RUN_ID} -f -n default"
    assert sorted(world.jobs.sent()) == ["nrl_k8s_run.yaml", "only.py"]


def test_a_run_that_ends_while_it_is_resumed_is_told_by_its_end(world: World) -> None:
    world.left_undone()
    world.jobs.trouble["upload"] = [LOST]
    over = {"jobDeploymentStatus": "Failed", "reason": "PreRunningDeadlineExceeded"}
    world.jobs.on_upload = lambda: world.cluster.set_status("RayJob", JOB, **over)
    done = world.run(verb=f"job resume {RUN_ID} -n default --no-wait")
    assert (done.exit, world.job_id(), world.jobs.did) == (1, None, ["upload"])
    assert "PreRunningDeadlineExceeded" in done.err


def test_resume_of_what_is_submitted_or_over_is_refused(world: World) -> None:
    world.end = ("Running", "RUNNING")
    world.run("--no-wait").ok()
    again = world.run(verb=f"job resume {RUN_ID} -n default")
    assert (again.exit, f"run {RUN_ID} is submitted already" in again.err) == (2, True)
    world.settled()
    world.cluster.set_status("RayJob", JOB, jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    over = world.run(verb=f"job resume {RUN_ID} -n default")
    assert (over.exit, f"run {RUN_ID} is over" in over.err) == (2, True)


def test_resume_of_a_run_that_uploads_nothing_is_refused(world: World) -> None:
    world.left_undone()
    del world.cluster.objects["RayJob", "default", JOB]["metadata"]["annotations"][SUBMISSION]
    done = world.run(verb=f"job resume {RUN_ID} -n default")
    assert (done.exit, "has nothing to upload" in done.err) == (2, True)


@pytest.mark.parametrize(
    "text", ["{", "[]", "null", "3", "{}", "[" * 3000, '{"line": "x", "codeSource": "upload", "uploadPaths": 3}']
)
def test_resume_of_a_run_whose_annotation_cannot_be_read_is_refused_in_one_line(world: World, text: str) -> None:
    world.left_undone()
    world.cluster.objects["RayJob", "default", JOB]["metadata"]["annotations"][SUBMISSION] = text
    done = world.run(verb=f"job resume {RUN_ID} -n default")
    assert (done.exit, "cannot be read (annotation kubectl-nrl/submission)" in done.err) == (2, True), done.err


def test_resume_of_a_run_whose_script_was_changed_is_refused(world: World) -> None:
    world.left_undone()
    text = json.dumps({"line": "rm -rf /", "codeSource": "upload", "uploadPaths": None})
    world.cluster.objects["RayJob", "default", JOB]["metadata"]["annotations"][SUBMISSION] = text
    done = world.run(verb=f"job resume {RUN_ID} -n default")
    assert (done.exit, "was not made by this program" in done.err) == (2, True), done.err


def test_resume_of_another_owners_run_needs_force(world: World) -> None:
    world.left_undone()
    other = {"NRL_K8S_USER": "somebody"}
    done = world.run(verb=f"job resume {RUN_ID} -n default", **other)
    assert (done.exit, 'belongs to "rl-user"' in done.err) == (2, True)
    world.run(verb=f"job resume {RUN_ID} -n default --force", **other).ok()


def test_resume_reads_a_long_script_from_its_config_map(world: World) -> None:
    import random

    noise = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=200_000))
    world.project.write("infra.yaml", files(f"bash train.sh $NRL_RECIPE # {noise}", codeSource="upload")["infra.yaml"])
    world.left_undone()
    assert "ConfigMap" in world.created()
    world.run(verb=f"job resume {RUN_ID} -n default").ok()
    assert "gzip -dc /etc/kubectl-nrl/launch.sh.gz" in world.jobs.jobs[RUN_ID]["entrypoint"]


@pytest.mark.parametrize("flags", ["--repo-root x", "--no-wait"])
def test_flags_of_resume_belong_to_it(world: World, flags: str) -> None:
    done = world.run(verb=f"job logs {RUN_ID} {flags}")
    assert (done.exit, "belongs to job resume" in done.err) == (2, True)


def test_check_shows_what_would_be_sent(world: World) -> None:
    world.project.write(".rayignore", "*.log\n")
    world.project.write("big.log", "x")
    done = world.run(verb="check recipe.yaml --infra infra.yaml").ok()
    assert "code       upload, runs in the uploaded directory" in done.out
    assert "4 files (1 excluded by .rayignore), of " in done.out
    upload = world.run(verb="check recipe.yaml --infra infra.yaml -o json").ok().result("check")["launch"]["upload"]
    assert (upload["files"], upload["excluded"], upload["paths"]) == (4, 1, ["."])


def test_check_elsewhere_warns_of_paths_that_are_not_here(world: World) -> None:
    done = world.run("'infra.launch.rayUploadPaths=[nope]'", verb="check recipe.yaml --infra infra.yaml").ok()
    assert "warning: launch.rayUploadPaths lists what is not in" in done.err


def test_check_of_code_in_the_image_looks_at_no_directory(world: World) -> None:
    done = world.run("infra.launch.codeSource=image -o json", verb="check recipe.yaml --infra infra.yaml").ok()
    assert done.result("check")["launch"]["upload"] is None


def test_check_still_warns_of_an_entrypoint_that_leaves_the_upload(world: World) -> None:
    world.project.write(
        "infra.yaml", files("cd /opt/x && bash train.sh $NRL_RECIPE", codeSource="upload")["infra.yaml"]
    )
    done = world.run(verb="check recipe.yaml --infra infra.yaml").ok()
    assert "the entrypoint changes to /opt/x: the uploaded code is then not what runs" in done.err


def test_backoff_limit_is_refused_since_kuberay_refuses_it(world: World) -> None:
    done = world.run("infra.launch.backoffLimit=1", verb="check recipe.yaml --infra infra.yaml")
    assert (done.exit, "launch.backoffLimit has no meaning for uploaded code" in done.err) == (2, True)


def test_an_older_kuberay_has_no_deadline_to_give_pods_back(world: World) -> None:
    world.facts = replace(world.facts, pre_running_deadline=False)
    done = world.run().ok()
    assert "warning: this KubeRay has no preRunningDeadlineSeconds" in done.err
    assert "preRunningDeadlineSeconds" not in world.cluster.objects["RayJob", "default", JOB]["spec"]


def test_the_record_holds_what_another_laptop_needs(world: World) -> None:
    world.run("'infra.launch.rayUploadPaths=[train.sh]'").ok()
    record = json.loads(world.cluster.objects["RayJob", "default", JOB]["metadata"]["annotations"][SUBMISSION])
    assert record == {
        "line": world.jobs.jobs[RUN_ID]["entrypoint"],
        "codeSource": "upload",
        "uploadPaths": ["train.sh"],
    }
