"""Layers of any network: activations, dropout, normalization and initial weights."""
