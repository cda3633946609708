"""Headers of tensor files; no code in a file is ever executed."""

from onetrainer.tensor_files.entries import TensorEntry, TensorTable
from onetrainer.tensor_files.table import read_table

__all__ = ["TensorEntry", "TensorTable", "read_table"]
