"""The `hf_cache` section: the Hugging Face cache, shared by all Ray pods or one per pod.

`HF_HOME` is set as well as mounted, so that a mount path other than the image's default is the cache too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Context, Patch, Section, Target
from kubectl_nrl.volumes import CLAIM_KINDS, mount, mount_claim


class HfCache(Section):
    name = "hf_cache"
    summary = "the Hugging Face cache, mounted in all Ray pods"

    def schema(self) -> dict[str, Any]:
        from nrl_schemas import load

        fragment: dict[str, Any] = load("fragments/hf_cache")
        return fragment

    def patches(self, ctx: Context) -> Iterable[Patch]:
        kind, claim = ctx.get("hf_cache.kind", "none"), ctx.get("hf_cache.pvcName")
        where = str(ctx.get("hf_cache.mountPath", "/root/.cache/huggingface"))
        if kind in CLAIM_KINDS and claim:
            yield from mount_claim(ctx, str(claim), where, "hf_cache.pvcName")
        elif kind == "emptyDir":
            yield mount("hf-cache", {"emptyDir": {}}, where, "hf_cache.kind")
        else:
            return
        env = {"container": {"ray": {"env": [{"name": "HF_HOME", "value": where}]}}}
        yield Patch(Target.pods(), env, path="hf_cache.mountPath")


@hookimpl
def nrl_sections() -> Iterator[Section]:
    yield HfCache()
