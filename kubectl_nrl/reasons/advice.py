"""What to do about a trouble: a line to paste or to act on, where there is one."""

from __future__ import annotations

from .model import Trouble

_BY_REASON = {
    "ImagePullBackOff": "set infra.image=REGISTRY/NAME:TAG (or image: in the infra file), and imagePullSecrets for a private registry",
    "InvalidImageName": "set infra.image=REGISTRY/NAME:TAG (or image: in the infra file)",
    "ErrImageNeverPull": "set imagePullPolicy: IfNotPresent for the container",
    "SecretNotFound": "kubectl get secrets -n {namespace}",
    "ConfigMapNotFound": "kubectl get configmaps -n {namespace}",
    "KeyNotFound": "kubectl describe secrets,configmaps -n {namespace}",
    "PersistentVolumeClaimNotFound": "kubectl get pvc -n {namespace}",
    "ClaimTemplateNotFound": "kubectl get resourceclaimtemplates -n {namespace}",
    "PriorityClassNotFound": "kubectl get priorityclasses",
    "ServiceAccountNotFound": "kubectl get serviceaccounts -n {namespace}",
    "LimitRange": "kubectl describe limitrange -n {namespace}",
    "QuotaExceeded": "kubectl describe resourcequota -n {namespace}",
    "QuotaNeedsRequests": "kubectl describe resourcequota -n {namespace}",
    "QueueDoesNotExist": "set scheduler.queue to a queue that exists",
    "NodeLost": "kubectl get nodes",
    "NotStarted": "kubectl get nodes",
    "NamespaceTerminating": 'namespace "{namespace}" is being deleted; choose another: -n NAME',
    "NotReconciled": "kubectl get pods -A -l app.kubernetes.io/name=kuberay-operator",
    "NotScheduled": "set scheduler.kind to one that this cluster has: kubectl nrl doctor",
}


def advice(trouble: Trouble, namespace: str) -> str:
    """What helps against it; the pods' own story where nothing better is known."""
    known = _BY_REASON.get(trouble.reason)
    if known is not None:
        return known.format(namespace=namespace)
    return "kubectl get events -n " + namespace + " --sort-by=.lastTimestamp"
