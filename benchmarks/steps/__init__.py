"""What a training step costs, and the way to the first one."""
