"""Manifests: the merge that applies a patch, pure builders of objects, and the names objects get."""

from __future__ import annotations
