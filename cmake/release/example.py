# SPDX-License-Identifier: Apache-2.0
"""Uses an installed Python package: files, HTTP, the entry points, CUDA if the package has it, and
HDF5 if a file is named.

    example.py [FILE.h5]
"""

import http.server
import importlib.metadata
import json
import struct
import sys
import threading

import ringload

values = struct.pack("<4f", 1, 2, 3, 4)
header = json.dumps({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
with open("model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header + values)

assert all(ringload.features()[name] for name in ("remote", "zstd", "deflate", "hdf5"))
assert importlib.metadata.version("ringload") == ringload.__version__
for engine in ("vllm.general_plugins", "sglang.srt.plugins"):
    (entry,) = importlib.metadata.entry_points(group=engine, name="ringload")
    assert callable(entry.load())

model = ringload.load("model.safetensors")
assert bytes(model["x"].byte_view()) == values
try:
    ringload.load("absent.safetensors")
except FileNotFoundError as failure:
    print(failure)

if ringload.features()["cuda"]:
    try:
        assert ringload.load("model.safetensors", device="cuda:0")["x"].nbytes == len(values)
    except ringload.UsageError as failure:  # Without a GPU or a driver.
        assert "no CUDA device" in str(failure), failure
        print(failure)


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/model.safetensors"
    assert bytes(ringload.load(address)["x"].byte_view()) == values
    server.shutdown()

if len(sys.argv) > 1:
    # The package has a program that parses HDF5.
    assert ringload.load(sys.argv[1], verify=sys.argv[1] + ".manifest")
