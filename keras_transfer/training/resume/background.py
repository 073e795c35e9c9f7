"""A thread that writes files while training continues."""

import concurrent.futures
import logging

log = logging.getLogger("keras_transfer")


class Background:
    """Calls one function at a time in a thread, and the process waits for it before it exits."""

    def __init__(self):
        self._call = None

    def submit(self, function):
        """Calls a function without arguments in a thread, and logs its errors. Call `wait` first."""

        def call():
            try:
                function()
            except OSError as error:
                log.error("A training checkpoint was not written: %s", error)
                raise

        thread = concurrent.futures.ThreadPoolExecutor(1, "training checkpoint")
        self._call = thread.submit(call)
        thread.shutdown(wait=False)

    def wait(self):
        """Waits until the function has returned, and raises its error."""
        call, self._call = self._call, None
        if call is not None:
            call.result()
