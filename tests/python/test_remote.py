# SPDX-License-Identifier: Apache-2.0
"""Checkpoints over HTTP, where the module was built for it."""

import functools
import http.server
import pathlib
import threading

import numpy
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
        names = [name for name, _ in ringload.stream(f"{address}/sample.safetensors", remote=True)]
        assert sorted(names) == sorted(arrays)
        into = {"f32": numpy.zeros_like(arrays["f32"])}
        ringload.fill(f"{address}/sample.safetensors", into, remote={"chunk_bytes": "64KiB"})
        assert same(into["f32"], arrays["f32"])
        server.shutdown()


@pytest.mark.skipif(not _core.has_remote, reason="built without remote sources")
def test_settings_of_time_are_seconds(stalled):
    server = stalled(0)
    settings = {"silence_seconds_max": 0.05, "tries_max": 1, "retry_seconds": 0}
    with pytest.raises(ConnectionError):
        ringload.load(server.address, remote=settings)
    assert server.asked.is_set()
    for wrong in ({"silence_seconds_max": -1}, {"request_seconds_max": "long"}):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            ringload.Loader(remote=wrong)
