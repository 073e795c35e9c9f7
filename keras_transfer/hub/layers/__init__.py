"""Modules as Keras layers, encoders and preprocessors."""
