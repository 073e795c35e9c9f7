"""Recurrent encoders."""
