"""What a file of tensors holds, told from its header; nothing in it is ever executed."""

from onetrainer.tensor_files.entries import TensorEntry, TensorTable
from onetrainer.tensor_files.table import read_table

__all__ = ["TensorEntry", "TensorTable", "read_table"]
