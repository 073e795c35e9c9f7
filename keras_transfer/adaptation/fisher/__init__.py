"""The Fisher information of a model's weights: its estimate from examples, and its files."""
