"""Exports that run without TensorFlow and Keras: a model from token ids to answers, and its tokenizer."""
