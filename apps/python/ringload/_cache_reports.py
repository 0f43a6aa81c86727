# SPDX-License-Identifier: Apache-2.0
"""What became of files that were to be written into the local cache, told to a function."""

import select
import sys
import threading

from . import _core


class CacheReports:
    """Calls `tell` with a dictionary for each file, until no loader reports to `to` any more."""

    def __init__(self, tell):
        if not callable(tell):
            raise TypeError("on_cached is a function of a dictionary")
        self.to = _core.CacheReports()
        self._tell = tell
        self._lock = threading.RLock()  # `tell` may close the loader.
        threading.Thread(target=self._run, name="ringload cache", daemon=True).start()

    def deliver(self):
        """Tells what has come. Whether nothing more can."""
        with self._lock:
            files, over = self.to.drain()
            for one in files:
                try:
                    self._tell(one)
                except Exception:  # As of any thread: the others are told all the same.
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
