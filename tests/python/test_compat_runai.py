# SPDX-License-Identifier: Apache-2.0
"""ringload.compat.runai_model_streamer, beside the package itself where it is installed."""

import ast
import http.server
import importlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import threading
import types as module_types
import urllib.parse

import numpy
import pytest
from conftest import types, write_safetensors, write_with_duplicate_key

torch = pytest.importorskip("torch")

import ringload  # noqa: E402
from ringload import _core  # noqa: E402
from ringload.compat import runai_model_streamer as ours  # noqa: E402

packages = [pytest.param("ringload.compat.runai_model_streamer", id="ringload"),
            pytest.param("runai_model_streamer", id="package")]  # fmt: skip


@pytest.fixture(params=packages)
def package(request):
    """This module, and the package: what a test says holds for both."""
    return pytest.importorskip(request.param, reason="the package is not installed")


@pytest.fixture
def folder(tmp_path):
    """Two shards of all types that both know, an empty tensor, and offsets of odd numbers."""
    small = {
        "flag": numpy.array([True, False, True]),
        "bytes": numpy.arange(5, dtype=numpy.uint8),
        "half": numpy.arange(6, dtype=numpy.float16).reshape(2, 3),
        "brain": numpy.arange(8, dtype=types["BF16"]),
        "f8": numpy.arange(7, dtype=types["F8_E4M3"]),
        "wide": numpy.arange(4, dtype=numpy.float64),
        "complex": numpy.arange(4, dtype=numpy.complex64),
        "u16": numpy.arange(4, dtype=numpy.uint16),
        "empty": numpy.zeros((0, 3), numpy.float32),
        "scalar": numpy.array(7, numpy.int32),
    }
    layers = {f"layer.{n}": numpy.full((64, 33), n, numpy.float32) for n in range(30)}
    write_safetensors(tmp_path / "a.safetensors", small)
    write_safetensors(tmp_path / "b.safetensors", layers, {"format": "pt"})
    (tmp_path / "sub").mkdir()
    write_safetensors(tmp_path / "sub" / "c.safetensors", {"x": numpy.ones(3)})
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def expected(folder):
    from safetensors.torch import load_file

    return {**load_file(folder / "a.safetensors"), **load_file(folder / "b.safetensors")}


def files_of(folder):
    return [str(folder / "a.safetensors"), str(folder / "b.safetensors")]


def same(tensor, other):
    return (
        tensor.dtype == other.dtype
        and tensor.shape == other.shape
        and torch.equal(
            tensor.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8)
        )
    )


def test_list_safetensors_is_not_recursive(package, folder):
    assert sorted(package.list_safetensors(str(folder))) == files_of(folder)
    assert package.list_safetensors(str(folder / "nosuch")) == []


def test_stream_files_gives_all_tensors_and_their_descriptions(package, folder):
    pytest.importorskip("safetensors")
    with package.SafetensorsStreamer() as streamer:
        streamer.stream_files(files_of(folder))
        found = list(streamer.get_tensors())  # All are kept, beyond the end.
        described = streamer.files_to_tensors_metadata
        assert list(streamer.get_tensors()) == []
    wanted = expected(folder)
    assert len(found) == len(wanted)
    assert all(same(tensor, wanted[name]) for name, tensor in found)
    assert [len(described[number]) for number in (0, 1)] == [10, 30]
    assert streamer.total_size == sum(t.numel() * t.element_size() for t in wanted.values())


def test_descriptions_are_those_of_the_package(folder):
    package = pytest.importorskip("runai_model_streamer", reason="the package is not installed")

    def described(module):
        with module.SafetensorsStreamer() as streamer:
            streamer.stream_files(files_of(folder))
            tensors = streamer.files_to_tensors_metadata
            dict(streamer.get_tensors())
        return [
            [(t.name, t.shape, t.dtype, t.offsets.start, t.offsets.end, t.get_torch_dtype(),
              t.get_bytesize(), t.get_item_count(), t.get_element_size()) for t in tensors[number]]
            for number in sorted(tensors)
        ]  # fmt: skip

    assert described(ours) == described(package)


def test_stream_file_takes_names(package, folder):
    with package.SafetensorsStreamer() as streamer:
        streamer.stream_file(files_of(folder)[1], tensor_names={"layer.3", "layer.29"})
        assert {name for name, _ in streamer.get_tensors()} == {"layer.3", "layer.29"}
        streamer.stream_files(files_of(folder), tensor_names=["empty", "layer.0"])
        found = dict(streamer.get_tensors())
        assert found["empty"].shape == (0, 3)
        assert len(found) == 2


def test_files_may_have_tensors_of_one_name(package, folder):
    twice = [files_of(folder)[1]] * 2
    with package.SafetensorsStreamer() as streamer:
        streamer.stream_files(twice)
        assert len(list(streamer.get_tensors())) == 60
        with pytest.raises(ValueError, match="more than one file"):
            streamer.stream_files(twice, tensor_names=["layer.1"])


@pytest.mark.parametrize(
    ("names", "text"),
    [("layer.1", "single str"), ([], "not be empty"), (["nosuch"], "not found.*nosuch")],
)
def test_wrong_names(package, folder, names, text):
    with package.SafetensorsStreamer() as streamer:
        with pytest.raises(ValueError, match=text):
            streamer.stream_files(files_of(folder), tensor_names=names)


def broken(folder, kind):
    path = folder / "broken.safetensors"
    content = (folder / "b.safetensors").read_bytes()
    if kind == "truncated":
        content = content[:-5]
    elif kind == "longer":
        content += b"more"
    elif kind == "short":
        content = b"abc"
    elif kind == "huge header":
        content = struct.pack("<Q", 1 << 40) + content[8:]
    elif kind == "json":
        content = content[:8] + b"]" + content[9:]
    elif kind == "dtype":
        content = content.replace(b'"F32"', b'"F33"')
    elif kind == "gap":
        header = json.dumps({"x": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}}).encode()
        content = struct.pack("<Q", len(header)) + header + b"abcd"
    if kind != "missing":
        path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    "kind",
    ["truncated", "longer", "short", "huge header", "json", "dtype", "gap", "missing"],
)
def test_a_file_that_is_wrong_is_a_value_error_before_any_tensor(package, folder, kind):
    paths = [files_of(folder)[0], broken(folder, kind)]
    with package.SafetensorsStreamer() as streamer:
        with pytest.raises(ValueError):
            streamer.stream_files(paths)
        # The streamer can be used again.
        streamer.stream_file(paths[0], tensor_names=["flag"])
        assert [name for name, _ in streamer.get_tensors()] == ["flag"]


def test_paths_of_several_kinds_and_unknown_devices_are_refused(package, folder):
    with package.SafetensorsStreamer() as streamer:
        with pytest.raises(Exception) as failed:
            streamer.stream_files([files_of(folder)[0], "s3://bucket/x.safetensors"])
        assert type(failed.value).__name__ == "RunaiStreamerInvalidInputException"
        with pytest.raises(Exception) as failed:
            streamer.stream_files(files_of(folder), device="abacus")
        assert type(failed.value).__name__ == "RunaiStreamerInvalidInputException"


def test_a_stream_must_end_before_the_next_begins(package, folder):
    with package.SafetensorsStreamer() as streamer:
        streamer.stream_files(files_of(folder))
        pairs = streamer.get_tensors()
        next(pairs)
        with pytest.raises(ValueError, match="cannot start a new stream"):
            streamer.stream_files(files_of(folder))
        pairs.close()
        streamer.stream_files(files_of(folder))
        assert len(list(streamer.get_tensors())) == 40


@pytest.mark.parametrize("limit", ["-1", "0", "20000", "40000000000"])
def test_memory_limits(package, folder, monkeypatch, limit):
    monkeypatch.setenv("RUNAI_STREAMER_MEMORY_LIMIT", limit)
    with package.SafetensorsStreamer() as streamer:
        streamer.stream_files(files_of(folder))
        assert len(list(streamer.get_tensors())) == 40


def test_a_limit_below_the_largest_tensor_is_refused(package, folder, monkeypatch):
    monkeypatch.setenv("RUNAI_STREAMER_MEMORY_LIMIT", "3000")
    with package.SafetensorsStreamer() as streamer:
        with pytest.raises(Exception, match="(?i)memory.?limit") as failed:
            streamer.stream_files(files_of(folder))
        assert type(failed.value).__name__ == "RunaiStreamerMemoryLimitException"


def test_a_limit_bounds_what_is_read_ahead(folder, monkeypatch):
    """Of 30 tensors of 8,448 bytes, two buffers of one tensor each are in flight."""
    monkeypatch.setenv("RUNAI_STREAMER_MEMORY_LIMIT", "17000")
    monkeypatch.setenv("RUNAI_STREAMER_RING_BUFFERS", "2")
    began, start = [], ringload.Loader.start
    with ours.SafetensorsStreamer() as streamer:

        def counted(self, *arguments, **named):
            began.append(1)
            return start(self, *arguments, **named)

        monkeypatch.setattr(ringload.Loader, "start", counted)
        streamer.stream_file(files_of(folder)[1])
        pairs = streamer.get_tensors()
        ahead = [(next(pairs), len(began))[1] for _ in range(30)]
    assert ahead == [2, *range(3, 31), 30]


@pytest.mark.parametrize("value", ["0", "-3", "x"])
def test_settings_that_are_wrong_are_refused(folder, monkeypatch, value):
    monkeypatch.setenv("RUNAI_STREAMER_CONCURRENCY", value)
    with ours.SafetensorsStreamer() as streamer:
        with pytest.raises(ValueError):
            streamer.stream_files(files_of(folder))


def test_settings_reach_the_loader(folder, monkeypatch):
    made, init = [], ringload.Loader.__init__

    def recorded(self, device, **options):
        made.append(options)
        init(self, device, **options)

    monkeypatch.setattr(ringload.Loader, "__init__", recorded)
    monkeypatch.setenv("RUNAI_STREAMER_CONCURRENCY", "3")
    monkeypatch.setenv("RUNAI_STREAMER_CHUNK_BYTESIZE", "5000000")
    with ours.SafetensorsStreamer() as streamer:
        streamer.stream_files(files_of(folder))
        assert len(list(streamer.get_tensors())) == 40
    assert (made[0]["slots"], made[0]["slot_bytes"]) == (3, 4 << 20)


def test_file_streamer_reads_ranges_of_any_file(package, tmp_path):
    path = tmp_path / "any"
    content = os.urandom(100_000)
    path.write_bytes(content)
    other = tmp_path / "other"
    other.write_bytes(content[::-1])
    wanted = [
        package.FileChunks(7, str(path), [99_000, 3, 500], [1000, 0, 70_000]),
        package.FileChunks.contiguous(9, str(other), 10, [5, 6, 7]),
    ]
    with package.FileStreamer() as streamer:
        streamer.stream_files(wanted)
        found = {(id, index): tensor for id, index, tensor in streamer.get_chunks()}
        assert set(found) == {(7, 0), (7, 1), (7, 2), (9, 0), (9, 1), (9, 2)}
        assert found[7, 2].shape == (1, 70_000)
        assert bytes(found[7, 0].numpy()) == content[99_000:]
        assert bytes(found[9, 1].numpy()) == content[::-1][15:21]
        with pytest.raises(ValueError):
            streamer.stream_files([package.FileChunks(0, str(path), [99_999], [2])])
            list(streamer.get_chunks())
        listed = streamer.list_files(str(tmp_path))
        assert sorted(listed) == [(str(path), 100_000), (str(other), 100_000)]
        assert streamer.list_files(str(tmp_path), allow_patterns=["*er"]) == [(str(other), 100_000)]
    with pytest.raises(ValueError, match="not initialized"):
        list(streamer.get_chunks())


def test_prepare_request_reads_headers(package, folder):
    within = ".safetensors_pytorch"
    if package is not ours:
        within = ".safetensors_streamer" + within
    module = importlib.import_module(package.__name__ + within)
    with package.DistributedStreamer() as streamer:
        found = module.prepare_request(streamer, files_of(folder), None)
    for path, (offset, tensors, sizes) in zip(files_of(folder), found):
        content = pathlib.Path(path).read_bytes()
        assert offset == 8 + struct.unpack("<Q", content[:8])[0]
        assert offset + sum(sizes) == len(content)
        assert [tensor.get_bytesize() for tensor in tensors] == sizes


def test_install_stands_in_for_the_package(folder):
    program = f"""
import sys
sys.modules.pop("runai_model_streamer", None)
from ringload.compat import runai_model_streamer as ours
ours.install()
from runai_model_streamer import DistributedStreamer, SafetensorsStreamer, list_safetensors
from runai_model_streamer.safetensors_streamer.safetensors_pytorch import prepare_request
from runai_model_streamer.file_streamer.file_streamer import FileStreamer
from runai_model_streamer.s3_utils.s3_utils import S3Credentials
import runai_model_streamer
assert runai_model_streamer is ours and SafetensorsStreamer is ours.SafetensorsStreamer
with SafetensorsStreamer() as streamer:
    streamer.stream_files(sorted(list_safetensors({str(folder)!r})))
    print(len(dict(streamer.get_tensors())))
ours.install()
sys.modules["runai_model_streamer"] = sys
try:
    ours.install()
except RuntimeError as failure:
    print(failure)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("40\nrunai_model_streamer is imported already")


@pytest.mark.parametrize(
    "statement",
    [
        "import runai_model_streamer.safetensors_streamer.safetensors_pytorch as x",
        "from runai_model_streamer.safetensors_streamer import safetensors_pytorch as x",
        "import runai_model_streamer.safetensors_streamer.safetensors_streamer as x",
        "import runai_model_streamer.file_streamer.requests_iterator as x",
        "from runai_model_streamer.s3_utils import s3_utils as x",
        "from runai_model_streamer.distributed_streamer import distributed_streamer as x",
        "from runai_model_streamer import safetensors_streamer as x",
    ],
)
def test_submodules_are_imported_as_modules_after_install(statement):
    program = f"""
from ringload.compat import runai_model_streamer as ours
ours.install()
{statement}
print(type(x).__name__)
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert found.stdout == "module\n", found.stderr


def write_raw(path, dtype, shape, nbytes):
    header = {"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, nbytes]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(range(nbytes)))
    return str(path)


@pytest.mark.parametrize("dtype", ["F8_E4M3FNUZ", "F6_E2M3"])
def test_types_that_the_package_lacks_are_refused_by_name(package, tmp_path, dtype):
    nbytes = 3 if dtype == "F6_E2M3" else 4
    path = write_raw(tmp_path / "x.safetensors", dtype, [4], nbytes)
    with package.SafetensorsStreamer() as streamer:
        with pytest.raises(ValueError, match=f"Unsupported dtype '{dtype}' in tensor 'x'"):
            streamer.stream_file(path)


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this PyTorch has no F4")
def test_shapes_of_f4_are_those_of_pytorch(package, tmp_path):
    path = write_raw(tmp_path / "x.safetensors", "F4", [4, 6], 12)
    with package.SafetensorsStreamer() as streamer:
        streamer.stream_file(path)
        found = streamer.files_to_tensors_metadata[0][0]
        assert found.shape == [4, 6] and found.get_storage_shape() == [4, 3]
        assert found.get_item_count() == 12
        assert [tuple(tensor.shape) for _, tensor in streamer.get_tensors()] == [(4, 3)]
    for shape in ([2, 3], [0, 3]):
        path = write_raw(tmp_path / "odd.safetensors", "F4", shape, shape[0] * 3 // 2)
        with package.SafetensorsStreamer() as streamer:
            with pytest.raises(ValueError, match="Corrupted Tensor 'x'"):
                streamer.stream_file(path)


def test_only_folders_that_exist_are_listed(package, tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "empty").mkdir()
    with package.FileStreamer() as streamer:
        assert streamer.list_files(str(tmp_path / "empty")) == []
        for name in ("absent", "file"):
            with pytest.raises(ValueError):
                streamer.list_files(str(tmp_path / name))


@pytest.mark.parametrize("offset, size", [(0, -5), (-1, 5)])
def test_negative_ranges_are_refused(package, tmp_path, offset, size):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    with package.FileStreamer() as streamer:
        with pytest.raises(ValueError):
            streamer.stream_files([package.FileChunks(0, str(path), [offset], [size])])


def test_prepare_request_takes_discover_ranks(folder):
    module = importlib.import_module(ours.__name__ + ".safetensors_pytorch")
    with ours.DistributedStreamer() as streamer:
        found = module.prepare_request(streamer, files_of(folder), None, discover_ranks=False)
    assert len(found) == 2


def test_other_stores_are_refused_by_name(folder, tmp_path):
    for address in ("gs://bucket/model", "az://container/model"):
        with pytest.raises(ImportError, match=re.escape(address)):
            ours.list_safetensors(address)
        with pytest.raises(ImportError, match=re.escape(address)):
            ours.pull_files(address, str(tmp_path / "x"))
        with ours.SafetensorsStreamer() as streamer:
            with pytest.raises(ImportError, match=re.escape(address)):
                streamer.stream_file(address + "/x.safetensors")


def test_pull_files_and_models_are_for_stores_only(package, folder, tmp_path):
    with pytest.raises(NotImplementedError):
        package.pull_files(str(folder), str(tmp_path / "x"))
    with pytest.raises(ValueError, match="model_path"):
        package.ObjectStorageModel(str(folder), str(tmp_path / "x"))


# --- Engines


def engine_function(path, name, **known):
    """A function of an engine's own source file, run with these names in place of its imports."""
    roots = [os.environ.get("RINGLOAD_ENGINE_SOURCES"), *sys.path]
    paths = [pathlib.Path(root, path) for root in roots if root]
    found = next((path for path in paths if path.is_file()), None)
    if found is None:
        pytest.skip(f"no {path}: install the engine, or unpack it and set RINGLOAD_ENGINE_SOURCES")
    tree = ast.parse(found.read_text())
    chosen = [part for part in tree.body if isinstance(part, ast.FunctionDef) and part.name == name]
    assert len(chosen) == 1
    module = module_types.ModuleType("engine")
    annotations = {"Generator": list, "List": list, "Tuple": tuple, "Callable": list, "Any": object}
    vars(module).update(annotations, torch=torch, os=os, json=json, **known)
    # Annotations of other types are texts.
    chosen[0].returns = None
    for argument in chosen[0].args.args:
        argument.annotation = None
    exec(compile(ast.Module(chosen, []), str(found), "exec"), vars(module))
    return getattr(module, name)


def no_bar(pairs, **shown):
    return pairs


def test_the_iterator_of_vllm_runs(folder):
    pytest.importorskip("safetensors")
    platform = module_types.SimpleNamespace(is_cuda_alike=lambda: False)
    iterate = engine_function(
        "vllm/model_executor/model_loader/weight_utils.py", "runai_safetensors_weights_iterator",
        SafetensorsStreamer=ours.SafetensorsStreamer, current_platform=platform, tqdm=no_bar,
        enable_tqdm=lambda wanted: wanted, _BAR_FORMAT="",
    )  # fmt: skip
    found, wanted = dict(iterate(files_of(folder), False)), expected(folder)
    assert found.keys() == wanted.keys()
    assert all(same(tensor, wanted[name]) for name, tensor in found.items())


def test_vllm_reads_the_names_in_headers_and_the_index_of_a_bucket(bucket, folder, monkeypatch):
    paths = ours.list_safetensors("s3://bucket/model")
    for name, module in ours._modules.items():
        monkeypatch.setitem(sys.modules, "runai_model_streamer" + name, module)
    file = "vllm/model_executor/model_loader/runai_streamer_loader.py"
    keys = engine_function(file, "_get_remote_checkpoint_keys")
    assert [len(names) for names in keys(paths)] == [10, 30]
    weight_map = {name: "a.safetensors" for name in keys(paths)[0]}
    weight_map.update({name: "b.safetensors" for name in keys(paths)[1]})
    index = bucket.folder / "model" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    choose = engine_function(
        file, "_filter_remote_weights", tempfile=importlib.import_module("tempfile"),
        posixpath=importlib.import_module("posixpath"), urlsplit=urllib.parse.urlsplit,
        SAFE_WEIGHTS_INDEX_NAME="model.safetensors.index.json", runai_pull_files=ours.pull_files,
        _get_remote_checkpoint_keys=keys, logger=module_types.SimpleNamespace(warning=pytest.fail),
    )  # fmt: skip
    chosen = choose(paths, "s3://bucket/model", lambda name: name.startswith("layer."))
    assert chosen == ["s3://bucket/model/a.safetensors"]


def test_the_iterator_of_sglang_runs(folder, monkeypatch):
    pytest.importorskip("safetensors")
    monkeypatch.setitem(sys.modules, "runai_model_streamer", ours)
    iterate = engine_function(
        "sglang/srt/model_loader/weight_utils.py", "runai_safetensors_weights_iterator",
        is_cuda_alike=lambda: False, tqdm=no_bar, BAR_FORMAT="",
        RUNAI_STREAMER_TENSOR_ATTR="_sglang_runai_streamer_tensor",
    )  # fmt: skip
    found, wanted = dict(iterate(files_of(folder))), expected(folder)
    assert found.keys() == wanted.keys()
    assert all(same(tensor, wanted[name]) for name, tensor in found.items())
    assert all(tensor._sglang_runai_streamer_tensor for tensor in found.values())


def test_sglang_pulls_what_is_no_weight(bucket, tmp_path, monkeypatch):
    """As ObjectStorageModel.download_and_get_path() of sglang/srt/utils/runai_utils.py does."""
    ignored = ["*.pt", "*.safetensors", "*.bin", "*.tensors", "*.pth"]
    model = ours.ObjectStorageModel(model_path="s3://bucket/model", dst=str(tmp_path / "cached"))
    model.pull_files(None, ignored)
    model.__exit__(None, None, None)
    assert sorted(os.listdir(tmp_path / "cached")) == [".runai_complete", "config.json"]


# --- Ranks


def streamed_by_rank(group, paths, other):
    """Checksums of all tensors, and which bytes this rank read itself."""
    os.environ["RUNAI_STREAMER_DIST"] = "1"
    os.environ["RUNAI_STREAMER_DIST_TIMEOUT"] = "60"
    with ours.SafetensorsStreamer() as streamer:
        wrong = other if torch.distributed.get_rank() == 1 else None
        streamer.stream_files(wrong or paths, is_distributed=True)
        read = streamer._pairs.stats
        found = {name: tensor.clone() for name, tensor in streamer.get_tensors()}
        sums = {name: bytes(t.reshape(-1).view(torch.uint8).tolist()) for name, t in found.items()}
        return sums, read["bytes"], streamer.total_size


def test_ranks_of_a_host_read_each_byte_once(tmp_path, folder):
    ranks = pytest.importorskip("test_torch_ranks", reason="no Gloo")
    found = ranks.on_ranks(tmp_path, 3, streamed_by_rank, files_of(folder), None)
    with ours.SafetensorsStreamer() as streamer:
        streamer.stream_files(files_of(folder))
        alone = {name: bytes(t.reshape(-1).view(torch.uint8).tolist())
                 for name, t in streamer.get_tensors()}  # fmt: skip
    assert [sums for sums, _, _ in found] == [alone] * 3
    assert sum(read for _, read, _ in found) == found[0][2]
    assert all(read > 0 for _, read, _ in found)


def test_ranks_of_a_host_take_what_the_reference_implementation_takes(tmp_path):
    ranks = pytest.importorskip("test_torch_ranks", reason="no Gloo")
    path = write_with_duplicate_key(tmp_path / "d.safetensors")
    found = ranks.on_ranks(tmp_path, 2, streamed_by_rank, [path], None)
    assert [sums for sums, _, _ in found] == [{"x": b"\x01\x02"}] * 2, found


def test_a_rank_without_a_file_is_an_error_on_all_ranks(tmp_path, folder):
    ranks = pytest.importorskip("test_torch_ranks", reason="no Gloo")
    missing = [str(folder / "nosuch.safetensors")]
    found = ranks.on_ranks(tmp_path, 3, streamed_by_rank, files_of(folder), missing)
    assert all("nosuch.safetensors" in text for text in found), found


# --- S3


class Bucket(http.server.BaseHTTPRequestHandler):
    """Lists and serves the files of a folder as objects of s3://bucket/."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def _answer(self, status, content, **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_GET(self):
        address = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(address.query))
        self.server.requests.append((self.command, self.path, dict(self.headers)))
        if "list-type" in query:
            return self._list(query)
        key = urllib.parse.unquote(address.path).removeprefix("/bucket/")
        path = self.server.folder / key
        if not path.is_file():
            return self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        content, tag = path.read_bytes(), f'"{path.stat().st_size}"'
        wanted = self.headers.get("Range")
        if wanted is None:
            return self._answer(200, content, ETag=tag)
        first, last = wanted.removeprefix("bytes=").split("-")
        first, last = int(first), min(int(last or len(content)), len(content) - 1)
        where = f"bytes {first}-{last}/{len(content)}"
        return self._answer(206, content[first : last + 1], ETag=tag, Content_Range=where)

    do_HEAD = do_GET

    def _list(self, query):
        prefix, flat = query.get("prefix", ""), "delimiter" not in query
        keys = sorted(
            path.relative_to(self.server.folder).as_posix()
            for path in self.server.folder.rglob("*") if path.is_file()
        )
        keys = [key for key in keys if key.startswith(prefix)]
        folders = {prefix + key[len(prefix) :].split("/")[0] + "/" for key in keys
                   if "/" in key[len(prefix) :]}  # fmt: skip
        objects = "".join(
            f"<Contents><Key>{key}</Key><Size>{(self.server.folder / key).stat().st_size}</Size>"
            f'<ETag>"{(self.server.folder / key).stat().st_size}"</ETag></Contents>'
            for key in keys if flat or "/" not in key[len(prefix) :]
        )
        common = "" if flat else "".join(
            f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>" for name in sorted(folders)
        )
        body = (
            '<?xml version="1.0"?><ListBucketResult>'
            f"<IsTruncated>false</IsTruncated>{objects}{common}</ListBucketResult>"
        )
        self._answer(200, body.encode(), Content_Type="application/xml")


@pytest.fixture
def bucket(folder, monkeypatch):
    """s3://bucket/model is the folder."""
    if not _core.has_remote:
        pytest.skip("built without remote sources")
    root = folder.parent / (folder.name + "-bucket")
    root.mkdir()
    shutil.copytree(folder, root / "model")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    server.folder, server.requests = root, []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in list(os.environ):
        if name.startswith(("AWS_", "RUNAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("RUNAI_STREAMER_S3_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    server.server_close()


def test_s3_lists_streams_and_pulls(bucket, folder, tmp_path):
    pytest.importorskip("safetensors")
    paths = ours.list_safetensors("s3://bucket/model")
    assert paths == ["s3://bucket/model/a.safetensors", "s3://bucket/model/b.safetensors"]
    with ours.SafetensorsStreamer() as streamer:
        streamer.stream_files(paths)
        found = dict(streamer.get_tensors())
    wanted = expected(folder)
    assert found.keys() == wanted.keys()
    assert all(same(tensor, wanted[name]) for name, tensor in found.items())

    into = tmp_path / "pulled"
    ours.pull_files("s3://bucket/model", str(into), ignore_pattern=["*b.safetensors"])
    pulled = sorted(path.relative_to(into).as_posix() for path in into.rglob("*") if path.is_file())
    assert pulled == ["a.safetensors", "config.json", "sub/c.safetensors"]
    assert (into / "a.safetensors").read_bytes() == (folder / "a.safetensors").read_bytes()

    with ours.FileStreamer() as streamer:
        streamer.stream_files([ours.FileChunks(0, "s3://bucket/model/config.json", [0], [2])])
        assert [bytes(chunk.numpy()) for _, _, chunk in streamer.get_chunks()] == [b"{}"]
        listed = streamer.list_files("s3://bucket/model", is_recursive=False)
        assert ("s3://bucket/model/config.json", 2) in listed
        assert not any("/sub/" in path for path, _ in listed)


def test_s3_credentials_and_settings(bucket, monkeypatch):
    given = ours.s3_utils.S3Credentials("other", "secret", region_name="eu-west-7")
    with ours.SafetensorsStreamer() as streamer:
        streamer.stream_file("s3://bucket/model/a.safetensors", given)
        assert len(list(streamer.get_tensors())) == 10
    signed = [fields["Authorization"] for _, _, fields in bucket.requests]
    assert all("Credential=other/" in field and "/eu-west-7/s3/" in field for field in signed)
    bucket.requests.clear()
    monkeypatch.setenv("RUNAI_STREAMER_S3_UNSIGNED", "1")
    assert len(ours.list_safetensors("s3://bucket/model")) == 2
    assert not any("Authorization" in fields for _, _, fields in bucket.requests)


def test_s3_failures_are_value_errors(bucket):
    with ours.SafetensorsStreamer() as streamer:
        with pytest.raises(ValueError, match="nosuch"):
            streamer.stream_file("s3://bucket/model/nosuch.safetensors")


def test_a_model_is_copied_once(bucket, tmp_path):
    into = tmp_path / "model"
    with ours.ObjectStorageModel("s3://bucket/model", str(into)) as model:
        model.pull_files(allow_pattern=["*.json"])
        assert model.dir == str(into)
    assert sorted(os.listdir(into)) == [".runai_complete", "config.json"]
    bucket.requests.clear()
    with ours.ObjectStorageModel("s3://bucket/model", str(into)) as model:
        model.pull_files(allow_pattern=["*.json"])
    assert bucket.requests == []

    other = tmp_path / "other"
    with pytest.raises(LookupError):
        with ours.ObjectStorageModel("s3://bucket/model", str(other)) as model:
            model.pull_files(allow_pattern=["*.json"])
            raise LookupError
    assert sorted(os.listdir(other)) == ["config.json"]
    with pytest.raises(RuntimeError, match="No files were downloaded"):
        with ours.ObjectStorageModel("s3://bucket/nosuch", str(tmp_path / "none")) as model:
            model.pull_files()


def test_names_that_leave_the_folder_are_refused(tmp_path):
    with pytest.raises(ValueError, match="outside"):
        ours.s3_utils._path_within(str(tmp_path / "x"), "../y")
