"""Tiny models of a family of the tests' own, trained as those of the program's are."""

from tests.modules.conftest import as_tiny_tensors_are_fast

__all__ = ["as_tiny_tensors_are_fast"]
