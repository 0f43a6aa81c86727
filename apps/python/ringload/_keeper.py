# SPDX-License-Identifier: Apache-2.0
"""One copy of a model for all processes of a machine."""

from . import _core
from ._names import path_text
from ._operation import one_step
from ._process_bound import ProcessBound


class Keeper(ProcessBound):
    """Serves models to other processes of this machine through a Unix socket.

        with ringload.Loader("shared") as loader, ringload.Keeper("/run/models") as keeper:
            keeper.publish("qwen", loader.load("Qwen/Qwen3-8B").result())
            ...

        qwen = ringload.attach("/run/models", "qwen")  # in another process, in milliseconds

    mode: the permissions of the socket. A process that may write to the socket may connect. users:
    the effective user ids that may attach; if empty, each process that can connect may attach.
    connections_max: the limit of connections, at least 1. A process holds one connection for each
    attached model. Attached models stay valid when the keeper ends.
    """

    _instead = "send its path, to ringload.attach()"

    def __init__(self, socket, *, mode=0o600, users=(), connections_max=1024):
        self._keeper = _core.Keeper(path_text(socket), mode, list(users), connections_max)

    def publish(self, name, model):
        """Serves `model`, which a Loader("shared") has loaded, to all processes that attach later.

        The memory of the model is sealed: a later write to one of its tensors ends the process,
        also this process.
        """
        self._keeper.publish(name, model)

    def withdraw(self, name):
        """Stops serving the model of this name. Returns False if no such model is served."""
        return self._keeper.withdraw(name)

    def models(self):
        """Returns, for each served model, a dictionary of name, version, nbytes and attached."""
        return self._keeper.models()

    def metrics(self):
        """Returns the metrics of the models for Prometheus, as text."""
        return self._keeper.metrics()

    def close(self):
        """Removes the socket. Attached models stay valid."""
        self._keeper.close()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()


def attach(socket, name, timeout=10.0):
    """Returns the Model that a Keeper serves under this name. Its memory is mapped, not copied.

    The tensors are read-only, and no process can change them. Raises FileNotFoundError if the model
    or the socket does not exist, and OSError if the keeper has ended, refuses the connection, or
    does not reply within `timeout` seconds. Ctrl-C interrupts the call only after the reply or the
    timeout.
    """
    return _core.attach(path_text(socket), name, timeout)


def served_version(socket, name, timeout=10.0):
    """Returns the KeptVersion that a Keeper serves under this name, without attaching the model.

    The version of an attached model is `model.kept_version`. Raises the same exceptions as attach().
    """
    return _core.served_version(path_text(socket), name, timeout)


def attach_next(socket, name, current=None):
    """Returns an Operation that waits until a Keeper serves another version than `current`.

        model = ringload.attach("/run/models", "qwen")
        model = await ringload.attach_next("/run/models", "qwen", model)  # or .result(timeout=60)

    current: a Model or a KeptVersion. If None, the operation waits for any version. The result is
    the Model of the newest version. The operation raises OSError if the keeper ends.
    """
    if isinstance(current, _core.Model):
        current = current.kept_version
    version = _core.KeptVersion() if current is None else current
    return one_step(lambda: _core.attach_next(path_text(socket), name, version))


async def attach_versions(socket, name):
    """Yields the Model that a Keeper serves, and then the Model of each newer version.

    Only the newest version is yielded if several versions were published meanwhile. Raises OSError
    if the keeper ends.
    """
    model = None
    while True:
        model = await attach_next(socket, name, model)
        yield model
