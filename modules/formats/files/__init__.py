"""Read and write files of tensors and component configs."""
