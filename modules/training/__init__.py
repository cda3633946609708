"""What the training loop works with: engine, checkpoints, commands, progress, tasks."""
