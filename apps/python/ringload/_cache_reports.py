# SPDX-License-Identifier: Apache-2.0
"""Calls a function for each file that was to be written into the local cache."""

import select
import sys
import threading

from . import _core


class CacheReports:
    """Calls `tell` with a dictionary for each file, until no loader reports to `to` any more."""

    def __init__(self, tell):
        if not callable(tell):
            raise TypeError("on_cached must be a function of a dictionary")
        self.to = _core.CacheReports()
        self._tell = tell
        self._lock = threading.RLock()  # `tell` may close the loader.
        self._thread = None

    def begin(self):
        """Called when a loader begins to report to `to`."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="ringload cache", daemon=True)
            self._thread.start()

    def deliver(self):
        """Passes the new reports to `tell`. Returns True if more reports can follow."""
        with self._lock:
            files, over = self.to.drain()
            for one in files:
                try:
                    self._tell(one)
                except Exception:  # The other reports are still passed on.
                    failure = (*sys.exc_info(), threading.current_thread())
                    threading.excepthook(threading.ExceptHookArgs(failure))
        return over

    def _run(self):
        coming = select.poll()
        coming.register(self.to.fileno(), select.POLLIN)
        while True:
            coming.poll()
            if self.deliver():
                return
