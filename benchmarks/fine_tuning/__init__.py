"""How good fine-tuned models are, and what the whole fine-tuning costs."""
