"""What a worker can be asked to do: assembly from config to objects, and nothing else."""
