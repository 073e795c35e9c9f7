"""The two replicas of all tests that are called in the process with two CPU devices."""

import functools

import tensorflow as tf


@functools.cache
def two_replicas():
    """Returns one strategy for all tests: those of a process would take each other's sums for their own."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
