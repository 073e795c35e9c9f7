"""What a method of a task does when it fails: it leaves the model usable and names wrong labels."""

import functools

import keras

from keras_transfer.training.private import keep_values


def mends_failures(method):
    """Decorates a method that trains or evaluates.

    TensorFlow creates variables only while it traces a function for the first time. If that fails, the function stays
    unusable, so Keras must make it again. On JAX, the variables get their values back.
    """

    @functools.wraps(method)
    def mended(self, *args, **kwargs):
        self.kept_error, restore = None, keep_values(self)
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            restore()
            if keras.backend.backend() == "tensorflow":
                self.train_function = self.test_function = None
            found, self.kept_error = self.kept_error, None
            if found is None or not isinstance(error, Exception):
                raise
            raise found from None

    return mended


class KeepsErrors:
    """A mixin for errors in functions that TensorFlow runs, which it reports without their types."""

    kept_error = None

    def keep_error(self, error):
        """Keeps an error for `mends_failures`, and returns it."""
        self.kept_error = error
        return error
