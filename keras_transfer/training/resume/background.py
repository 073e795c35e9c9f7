"""A thread that writes while training goes on."""

import concurrent.futures


class Background:
    """Calls one function at a time in a thread, which the process awaits before it exits."""

    def __init__(self):
        self._call = None

    def submit(self, function):
        """Calls a function without arguments in a thread. Call `wait` before."""
        thread = concurrent.futures.ThreadPoolExecutor(1, "training checkpoint")
        self._call = thread.submit(function)
        thread.shutdown(wait=False)

    def wait(self):
        """Waits until the function has returned, and raises its error."""
        call, self._call = self._call, None
        if call is not None:
            call.result()
