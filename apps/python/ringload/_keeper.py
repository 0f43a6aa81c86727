# SPDX-License-Identifier: Apache-2.0
"""One copy of a model for all processes of a machine."""

from . import _core
from ._names import path_text


class Keeper:
    """Serves models to other processes of this machine, at a Unix socket.

        with ringload.Loader("shared") as loader, ringload.Keeper("/run/models") as keeper:
            keeper.publish("qwen", loader.load("Qwen/Qwen3-8B").result())
            ...

        qwen = ringload.attach("/run/models", "qwen")  # in another process, in milliseconds

    mode: of the socket; who may write to it may connect. users: the effective user ids that may
    attach; none: all of those. What is attached stays when the keeper ends.
    """

    def __init__(self, socket, *, mode=0o600, users=(), connections_max=1024):
        self._keeper = _core.Keeper(path_text(socket), mode, list(users), connections_max)

    def publish(self, name, model):
        """Gives `model`, which a Loader("shared") has loaded, to all who attach from now on.

        Its memory is sealed: writing to one of its tensors ends the process from then on, here too.
        """
        self._keeper.publish(name, model)

    def withdraw(self, name):
        """Serves no model of that name any more. False: there was none."""
        return self._keeper.withdraw(name)

    def models(self):
        """What is served: a dictionary of name, version, nbytes and attached for each."""
        return self._keeper.models()

    def close(self):
        """Removes the socket. What is attached stays so."""
        self._keeper.close()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()


def attach(socket, name, timeout=10.0):
    """The Model that a Keeper has under that name: its memory, mapped for reading, nothing copied.

    Its tensors are read-only, and nobody can change a byte of them. Raises FileNotFoundError where
    there is no such model or no socket, and OSError where the keeper is gone, lets nobody in, or
    does not answer within `timeout` seconds.
    """
    return _core.attach(path_text(socket), name, timeout)
