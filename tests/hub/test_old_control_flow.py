"""The switch to the control flow of TensorFlow 1: one thread has it at a time, and others do not notice."""

import threading

import pytest
import tensorflow as tf

from keras_transfer.hub.tf1_module import _old_control_flow

TIMEOUT = 60  # Seconds. A thread that waits longer has failed.
enabled = tf.compat.v1.control_flow_v2_enabled


def test_one_thread_at_a_time_has_it_and_functions_of_other_threads_are_those_of_tensorflow_2():
    entered, done, seen = threading.Event(), threading.Event(), []

    def first():
        with _old_control_flow():
            entered.set()
            done.wait(TIMEOUT)
            seen.append(enabled())

    def second():
        entered.wait(TIMEOUT)
        with _old_control_flow():
            seen.append(enabled())

    @tf.function
    def loop(count):
        return tf.while_loop(lambda i: i < count, lambda i: [i + 1], [0])

    threads = [threading.Thread(target=target, daemon=True) for target in (first, second)]
    for thread in threads:
        thread.start()
    try:
        assert entered.wait(TIMEOUT)
        assert not enabled() and loop(tf.constant(3))[0] == 3
        graph = loop.get_concrete_function(tf.constant(3)).graph
        assert {"While", "StatelessWhile"} & {op.type for op in graph.get_operations()}
        assert seen == []
    finally:
        done.set()
        for thread in threads:
            thread.join(TIMEOUT)
    assert seen == [False, False] and enabled()


def test_it_is_set_back_after_an_error():
    with pytest.raises(KeyError), _old_control_flow():
        raise KeyError
    assert enabled()
