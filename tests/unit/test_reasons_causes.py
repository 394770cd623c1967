"""Other programs' words for a pod that waits, as they were seen live, and what they are called here."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_nrl.reasons.causes import denied, image_cause, missing, unschedulable

_RESOLVE = 'failed to pull and unpack image "reg.example/rl:typo": failed to resolve reference "reg.example/rl:typo": '


@pytest.mark.parametrize(
    ("message", "words", "heals"),
    [
        (_RESOLVE + "reg.example/rl:typo: not found", "not found", "by hand"),
        (
            _RESOLVE + "pull access denied, repository does not exist or may require authorization: server message: "
            "insufficient_scope: authorization failed",
            "does not exist, or may not be pulled without imagePullSecrets",
            "by hand",
        ),
        (
            _RESOLVE + "failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized",
            "may not be pulled (imagePullSecrets?)",
            "by hand",
        ),
        (
            _RESOLVE
            + 'failed to do request: Head "https://reg.example/v2/": dial tcp: lookup reg.example: no such host',
            "cannot be pulled, its registry's name does not resolve: no such host",
            "by hand",
        ),
        (
            _RESOLVE + 'failed to do request: Head "https://reg.example/v2/": dial tcp 10.0.0.1:443: i/o timeout',
            "cannot be pulled, its registry does not answer: i/o timeout",
            "alone",
        ),
        (
            _RESOLVE + 'Head "https://reg.example/v2/": dial tcp 10.0.0.1:443: connect: connection refused',
            "cannot be pulled, its registry does not answer: connection refused",
            "alone",
        ),
        (
            _RESOLVE + "unexpected status: 503 Service Unavailable",
            "cannot be pulled, its registry does not answer: 503",
            "alone",
        ),
        (
            _RESOLVE + "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            "cannot be pulled, its registry's certificate is refused: certificate signed by unknown authority",
            "by hand",
        ),
        (
            'failed to pull and unpack image "x": no match for platform in manifest: not found',
            "is not built for this node's kind of CPU (no match for platform)",
            "by hand",
        ),
        ("failed to extract layer: write /x: no space left on device", "does not fit on the node's disk", "alone"),
        ('Back-off pulling image "reg.example/rl:typo"', "cannot be pulled", "alone"),
        ("", "cannot be pulled", "alone"),
    ],
)
def test_what_a_registry_said_is_told_apart(message: str, words: str, heals: str) -> None:
    found = image_cause("reg.example/rl:typo", message)
    assert found.message.startswith(f'image "reg.example/rl:typo" {words}')
    assert (found.reason, found.heals) == ("ImagePullBackOff", heals)
    assert found.key == ("ImagePullBackOff", "reg.example/rl:typo")


@pytest.mark.parametrize(
    ("message", "reason", "words"),
    [
        ('secret "hf-token" not found', "SecretNotFound", 'secret "hf-token" does not exist'),
        (
            'MountVolume.SetUp failed for volume "v" : secret "tls" not found',
            "SecretNotFound",
            'secret "tls" does not exist',
        ),
        (
            'MountVolume.SetUp failed for volume "v" : configmap "c" not found',
            "ConfigMapNotFound",
            'configmap "c" does not exist',
        ),
        ('configmap "c" not found', "ConfigMapNotFound", 'configmap "c" does not exist'),
        (
            '0/4 nodes are available: persistentvolumeclaim "nope" not found. not found',
            "PersistentVolumeClaimNotFound",
            'persistentvolumeclaim "nope" does not exist',
        ),
        ("couldn't find key token in Secret rl/hf", "KeyNotFound", "couldn't find key token in Secret rl/hf"),
        (
            'MountVolume.SetUp failed for volume "v" : references non-existent secret key: k',
            "KeyNotFound",
            'MountVolume.SetUp failed for volume "v" : references non-existent secret key: k',
        ),
    ],
)
def test_what_is_missing_is_named_whoever_missed_it(message: str, reason: str, words: str) -> None:
    found = missing(message)
    assert found is not None
    assert (found.reason, found.message, found.heals) == (reason, words, "by hand")


@pytest.mark.parametrize(
    "message", ["", "0/4 nodes are available: 4 Insufficient cpu.", "mount failed: exit status 32"]
)
def test_what_is_not_missing_is_not_invented(message: str) -> None:
    assert missing(message) is None


_AFTER = (
    " no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
)


@pytest.mark.parametrize(
    ("message", "reason", "words", "heals"),
    [
        (
            "0/4 nodes are available: 4 Insufficient nvidia.com/gpu." + _AFTER,
            "Unschedulable",
            "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
            "alone",
        ),
        (
            "0/4 nodes are available: 4 node(s) had untolerated taint {gpu: true}." + _AFTER,
            "Unschedulable",
            "0/4 nodes are available: 4 node(s) had untolerated taint {gpu: true}.",
            "alone",
        ),
        (
            "0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
            "Unschedulable",
            "0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            "by hand",
        ),
        (
            "QueueDoesNotExist: Queue 'nope' does not exist.",
            "QueueDoesNotExist",
            "Queue 'nope' does not exist.",
            "by hand",
        ),
        ("OverLimit: rl is over its limit", "OverLimit", "rl is over its limit", "alone"),
    ],
)
def test_a_scheduler_is_quoted_without_its_afterwords(message: str, reason: str, words: str, heals: str) -> None:
    found = unschedulable("Unschedulable", message)
    assert (found.reason, found.message, found.heals) == (reason, words, heals)


def test_counts_that_change_make_no_other_cause() -> None:
    first = unschedulable("Unschedulable", "0/9 nodes are available: 9 Insufficient cpu." + _AFTER)
    second = unschedulable("Unschedulable", "0/12 nodes are available: 12 Insufficient cpu.")
    assert first.key == second.key


@pytest.mark.parametrize(
    ("message", "reason", "words", "heals"),
    [
        (
            'pods "q-w-worker-pf4k4" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1',
            "QuotaExceeded",
            "exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1",
            "alone",
        ),
        (
            'Failed to create worker Pod for the cluster q/q-zx2nb, pods "q-w" is forbidden: exceeded quota: q',
            "QuotaExceeded",
            "exceeded quota: q",
            "alone",
        ),
        (
            'pods "q-w" is forbidden: failed quota: q: must specify cpu',
            "QuotaNeedsRequests",
            "failed quota: q: must specify cpu",
            "by hand",
        ),
        (
            'pods "l-head-x" is forbidden: maximum cpu usage per Container is 500m, but limit is 1',
            "LimitRange",
            "maximum cpu usage per Container is 500m, but limit is 1",
            "by hand",
        ),
        (
            'admission webhook "validate.kyverno.svc-fail" denied the request: label team is required',
            "WebhookDenied",
            'admission webhook "validate.kyverno.svc-fail" denied the request: label team is required',
            "by hand",
        ),
        (
            'Internal error occurred: failed calling webhook "v.example": Post "https://x": connection refused',
            "WebhookUnavailable",
            'Internal error occurred: failed calling webhook "v.example": Post "https://x": connection refused',
            "alone",
        ),
        (
            'pods "p-w-worker-" is forbidden: no PriorityClass with name nope was found',
            "PriorityClassNotFound",
            "no PriorityClass with name nope was found",
            "by hand",
        ),
        (
            'pods "s-w-worker-" is forbidden: error looking up service account a/nope: serviceaccount "nope" not found',
            "ServiceAccountNotFound",
            'error looking up service account a/nope: serviceaccount "nope" not found',
            "by hand",
        ),
        (
            'Pod "inv-w" is invalid: spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type',
            "InvalidPod",
            "spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type",
            "never",
        ),
        (
            'pods "x" is forbidden: unable to create new content in namespace a because it is being terminated',
            "NamespaceTerminating",
            "unable to create new content in namespace a because it is being terminated",
            "never",
        ),
        (
            'pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true',
            "PodSecurity",
            'violates PodSecurity "restricted:latest": runAsNonRoot != true',
            "by hand",
        ),
        (
            'pods "x" is forbidden: status unknown for quota: q, resources: pods',
            "QuotaUnknown",
            "status unknown for quota: q, resources: pods",
            "alone",
        ),
        ("etcdserver: request timed out", "FailedCreateWorkerPod", "etcdserver: request timed out", "alone"),
    ],
)
def test_what_the_api_server_answered_to_a_pods_creation(message: str, reason: str, words: str, heals: str) -> None:
    found = denied("FailedCreateWorkerPod", message)
    assert (found.reason, found.message, found.heals) == (reason, words, heals)


def test_long_words_of_others_are_cut_and_stay_on_one_line() -> None:
    found: Any = unschedulable("Unschedulable", "a\nb " * 500)
    assert "\n" not in found.message
    assert len(found.message) == 300
