# SPDX-License-Identifier: Apache-2.0
"""Checkpoints over HTTP, where the module was built for it."""

import functools
import http.server
import itertools
import pathlib
import subprocess
import sys
import queue
import threading
import time

import numpy
import pytest
from conftest import same, write_safetensors

import ringload
from ringload import _core, _remote


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
def test_all_addresses_of_a_long_list_are_known():
    settings = {"tries_max": 1, "retry_seconds": 0}
    names = [f"http://127.0.0.1:1/{i}.safetensors" for i in range(5000)]
    with ringload.Loader(remote=settings) as loader, pytest.raises(ConnectionError):
        loader.open(names).result()


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


@pytest.mark.skipif(not _core.has_remote, reason="built without remote sources")
def test_a_file_of_certificates_that_cannot_be_read_is_named(tmp_path):
    file = str(tmp_path / "nosuch.pem")
    with pytest.raises(ValueError) as failed:
        ringload.Loader(remote={"ca_file": file})
    assert str(failed.value).startswith("ca_file: ")
    assert file in str(failed.value)


@pytest.fixture
def hub(tmp_path):
    """The settings for a stand-in for the hub, whose owner/model has 3 MiB, and for an empty cache."""
    model = tmp_path / "models" / "owner" / "model"
    model.mkdir(parents=True)
    large = {"first": numpy.arange(256, dtype=numpy.uint8), "last": numpy.ones(3 << 20, numpy.uint8)}
    write_safetensors(model / "model.safetensors", large)
    program = pathlib.Path(__file__).parent.parent / "remote" / "hub_standin.py"
    command = [sys.executable, str(program), str(tmp_path / "models")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as server:
        endpoint = server.stdout.readline().split()[1]
        yield {"endpoint": endpoint, "cache": "fill", "cache_folder": str(tmp_path / "cache")}
        server.stdin.close()
        server.kill()


@pytest.mark.skipif(not _core.has_remote, reason="built without remote sources")
def test_what_became_of_files_for_the_cache_is_told(hub):
    told = queue.SimpleQueue()  # A thread tells, at times after the load.
    settings = {**hub, "on_cached": told.put}
    part = ringload.load("hf://owner/model", select="first", remote=settings)
    assert part.stats["files_unverified"] == 1
    one = told.get(timeout=60)
    assert one.pop("missing_bytes") > 1 << 20
    assert one == {"name": "owner/model/model.safetensors", "whole": False, "why": ""}
    assert told.empty()

    with ringload.Loader(remote=settings) as loader:
        model = loader.load("hf://owner/model").result()
        assert model.stats["files_unverified"] == 0
    whole = {"name": "owner/model/model.safetensors", "whole": True}
    assert told.get(timeout=60) == {**whole, "missing_bytes": 0, "why": ""}
    assert model["first"].numpy().tobytes() == part["first"].numpy().tobytes()

    assert len(ringload.load("hf://owner/model", remote=settings)) == 2
    assert told.empty()  # It is there already.


@pytest.mark.skipif(not _core.has_remote, reason="built without remote sources")
def test_a_function_that_fails_is_told_of_as_a_threads_failure_is(hub, monkeypatch):
    failures = queue.SimpleQueue()
    monkeypatch.setattr(threading, "excepthook", lambda told: failures.put(told.exc_value))

    def fail(report):
        raise LookupError(report["name"])

    assert len(ringload.load("hf://owner/model", remote={**hub, "on_cached": fail})) == 2
    assert str(failures.get(timeout=60)) == "owner/model/model.safetensors"
    with pytest.raises(TypeError, match="on_cached"):
        ringload.Loader(remote={**hub, "on_cached": "print"})


def threads_of_the_network():
    """The number of threads of the library that send requests."""
    names = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text())
        except OSError:  # The thread has ended.
            pass
    return names.count("ringload-net\n")


@pytest.fixture
def served(sample):
    """The address of the sample."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words):
            pass

    handler = functools.partial(Quiet, directory=pathlib.Path(sample).parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/sample.safetensors"
        server.shutdown()


@pytest.mark.skipif(not _core.has_remote, reason="built without remote sources")
def test_changing_credentials_do_not_accumulate_threads(served, arrays):
    tokens = itertools.count()
    before = threads_of_the_network()
    loader = ringload.Loader(remote={"token": lambda: f"hf_{next(tokens)}"})
    with loader:
        checkpoint = loader.open(served).result()
        for number in range(20):
            loader.load(f"{served}?{number}").result()
        # One thread for the open checkpoint, and one for each set of settings that is kept.
        assert threads_of_the_network() - before <= 1 + _remote.remotes_max
        assert same(loader.load(checkpoint).result()["f32"].numpy(), arrays["f32"])
        copied = loader.copy(checkpoint["i32"][:]).result()
        assert same(copied.numpy(), arrays["i32"])
    checkpoint.close()
    until = time.monotonic() + 10  # A thread of the network may end by itself.
    while threads_of_the_network() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threads_of_the_network() == before
    assert loader.closed


@pytest.mark.skipif(not _core.has_remote, reason="built without remote sources")
def test_operations_with_many_credentials_run_at_the_same_time(served, arrays):
    tokens = itertools.count()
    count = 4 * _remote.remotes_max
    with ringload.Loader(remote={"token": lambda: f"hf_{next(tokens)}"}) as loader:
        loads = [loader.load([served]) for _ in range(count)]
        fills = []
        for _ in range(count):
            array = numpy.zeros_like(arrays["f32"])
            fills.append((array, loader.fill(served, {"f32": array})))
        assert all(same(load.result()["i32"].numpy(), arrays["i32"]) for load in loads)
        for array, fill in fills:
            fill.result()
            assert same(array, arrays["f32"])


def test_secrets_of_an_address_are_not_in_the_error_that_refuses_it():
    for address in (
        "https://user:SECRET@host.example/a/x.safetensors?sig=SECRET",
        "HTTPS://user:SECRET@host.example/a/x.safetensors#SECRET",
        "az://account/container/x.safetensors?sig=SECRET",
    ):
        with pytest.raises(ringload.SourceNotFoundError, match="remote") as failed:
            ringload.load(address, remote=False)
        error = failed.value
        assert error.place == error.filename and error.place.endswith("/x.safetensors")
        for text in (str(error), repr(error), error.filename):
            assert "SECRET" not in text and "user" not in text
        with pytest.raises(ringload.SourceNotFoundError) as failed:
            ringload.save(address, {"a": numpy.ones(3)}, remote=False)
        assert "SECRET" not in str(failed.value)
