"""How single layers save memory: checkpointing, offload, activation offload."""
