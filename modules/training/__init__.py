"""What the training loop works with: device, checkpoints, commands, progress, tasks."""
