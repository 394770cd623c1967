"""Code source `image`: the code is in the container image, at `launch.codePath`."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_nrl import hookimpl
from kubectl_nrl.api import CodeSource, Context
from kubectl_nrl.written import code_path


class ImageCode(CodeSource):
    name = "image"
    summary = "code in the image, at launch.codePath"

    def working_dir(self, ctx: Context) -> str | None:
        return code_path(ctx)


@hookimpl
def nrl_code_sources() -> Iterator[CodeSource]:
    yield ImageCode()
