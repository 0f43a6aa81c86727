# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that no part of ringload wrote, and what they hold."""

import http.server
import json
import os
import struct
import threading

import ml_dtypes
import numpy
import pytest

from ringload import _core

types = {
    "BOOL": numpy.bool_, "U8": numpy.uint8, "I8": numpy.int8, "I16": numpy.int16,
    "U16": numpy.uint16, "F16": numpy.float16, "I32": numpy.int32, "U32": numpy.uint32,
    "F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64, "U64": numpy.uint64,
    "C64": numpy.complex64, "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E8M0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip


def write_with_duplicate_key(path):
    """A file of the tensor x, which only strictness="reference" reads: its header has x twice."""
    entry = '"x": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}'
    header = ("{" + entry + ", " + entry + "}").encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\x01\x02")
    return str(path)


def write_safetensors(path, arrays, metadata=None):
    names = {numpy.dtype(dtype): name for name, dtype in types.items()}
    header = {} if metadata is None else {"__metadata__": metadata}
    offset = 0
    for name, array in arrays.items():
        end = offset + array.nbytes
        header[name] = {
            "dtype": names[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(array.tobytes())
    return str(path)


@pytest.fixture(scope="session")
def arrays():
    """One tensor of each type, and the shapes that are easy to get wrong."""
    random = numpy.random.default_rng(20)
    made = {}
    for name, dtype in reversed(types.items()):
        width = numpy.dtype(dtype).itemsize
        plain = random.integers(0, 2 if name == "BOOL" else 100, (6, 5 * width), numpy.uint8)
        made[name.lower()] = plain.view(dtype)
    made["scalar"] = numpy.array(7, numpy.int32)
    made["empty"] = numpy.zeros((0, 3), numpy.float32)
    made["model.layers.0.weight"] = random.random((300, 70), numpy.float32)
    made["model.layers.1.weight"] = random.random((300, 70), numpy.float32)
    return made


@pytest.fixture(scope="session")
def sample(arrays, tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "sample.safetensors"
    return write_safetensors(path, arrays, {"made_by": "conftest"})


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """512 MiB of zeros in 64 tensors, which take no room on the drive: too much to end at once."""
    path = tmp_path_factory.mktemp("large") / "large.safetensors"
    each = 8 << 20
    header = {
        f"t{i:02}": {"dtype": "U8", "shape": [each], "data_offsets": [i * each, (i + 1) * each]}
        for i in range(64)
    }
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + 64 * each)
    return str(path)


class StalledServer(http.server.ThreadingHTTPServer):
    """Serves a file up to a request that begins at `stalls_at` or behind it, which gets no answer.

    So what waits for that is in flight for as long as the test likes: until then is `asked` set.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # Who is not let in at once tries again a second later.

    def __init__(self, path, stalls_at):
        super().__init__(("127.0.0.1", 0), _StalledAnswer)
        self.path = path
        self.stalls_at = stalls_at
        self.asked = threading.Event()
        self.over = threading.Event()
        self.address = f"http://127.0.0.1:{self.server_address[1]}/large.safetensors"


class _StalledAnswer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_GET(self):
        wanted = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")
        size = os.path.getsize(self.server.path)
        first, last = int(wanted[0]), min(int(wanted[1] or size), size - 1)
        if first >= self.server.stalls_at:
            self.server.asked.set()
            self.server.over.wait()
            self.close_connection = True
            return
        with open(self.server.path, "rb") as file:
            file.seek(first)
            content = file.read(last + 1 - first)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def stalled(large):
    """Makes StalledServers; by default the file's header is served, and no tensor."""
    if not _core.has_remote:
        pytest.skip("built without remote sources")
    made = []

    def make(stalls_at=1):
        made.append(StalledServer(large, stalls_at))
        threading.Thread(target=made[-1].serve_forever, daemon=True).start()
        return made[-1]

    yield make
    for server in made:
        server.over.set()
        server.shutdown()
        server.server_close()


def same(array, expected):
    return (
        array.dtype == expected.dtype
        and array.shape == expected.shape
        and array.tobytes() == expected.tobytes()
    )
