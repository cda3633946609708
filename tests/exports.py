"""Writes a method's one file, for tests that read it."""

from modules.interfaces import ExportOptions


def export(method, path, *, dtype, metadata, **options):
    """Writes a method's only file to exactly this path."""
    stem = path.with_name(path.name.removesuffix(".safetensors"))
    (written,) = method.export(stem, ExportOptions(dtype=dtype, metadata=metadata, **options))
    assert written == path
