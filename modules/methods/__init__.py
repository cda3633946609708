"""Training methods: which parameters are trained, and the files they become."""
