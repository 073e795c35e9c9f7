"""Adapter files: the format of this library, and PEFT folders."""
