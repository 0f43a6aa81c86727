# SPDX-License-Identifier: Apache-2.0
"""Checkpoints over HTTP, where the module was built for it."""

import functools
import http.server
import pathlib
import threading

import pytest
from conftest import same

import ringload
from ringload import _core


def test_remote_is_refused_where_it_is_not_built(sample):
    if _core.has_remote:
        pytest.skip("it is")
    with pytest.raises(ValueError, match="without remote"):
        ringload.Loader(remote=True)


@pytest.mark.skipif(not _core.has_remote, reason="built without remote sources")
def test_load_over_http(sample, arrays):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words):
            pass

    folder = pathlib.Path(sample).parent
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        model = ringload.load(f"{address}/sample.safetensors", remote=True)
        assert all(same(tensor.numpy(), arrays[name]) for name, tensor in model.items())
        with pytest.raises(ringload.Error) as failed:
            ringload.load(f"{address}/no.safetensors", remote={"tries_max": 1})
        assert isinstance(failed.value, (FileNotFoundError, ConnectionError))
        with pytest.raises(ValueError, match="no option colour"):
            ringload.Loader(remote={"colour": "red"})
        server.shutdown()
