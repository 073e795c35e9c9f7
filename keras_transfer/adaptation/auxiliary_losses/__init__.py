"""Additional losses that preserve what the encoder of a task has already learned."""
