"""What is trained: which parameters, and the file they become."""
