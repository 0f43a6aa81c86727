# SPDX-License-Identifier: Apache-2.0
"""ringload.load, ringload.open and what they refuse."""

import concurrent.futures
import copy
import errno
import hashlib
import io
import json
import multiprocessing
import os
import pathlib
import pickle
import re
import resource
import struct
import traceback
import warnings

import ml_dtypes
import numpy
import pytest
from conftest import same, write_safetensors

import ringload
from ringload import _core
from ringload.compat.safetensors import safe_open


def test_load_gives_every_tensor_as_it_is_in_the_file(sample, arrays):
    model = ringload.load(sample)
    assert len(model) == len(arrays)
    assert set(model) == set(model.keys()) == set(arrays)
    assert model.metadata == {"made_by": "conftest"}
    for name, tensor in model.items():
        assert same(tensor.numpy(), arrays[name]), name
        assert tensor.nbytes == arrays[name].nbytes
        assert tensor.device == "cpu"


def test_model_is_a_mapping(sample):
    from collections.abc import Mapping

    model = ringload.load(sample)
    assert isinstance(model, Mapping)
    assert "scalar" in model and "no" not in model and 3 not in model
    assert model.get("no") is None
    assert model.get("scalar").shape == ()
    for name in ("no", 3):
        with pytest.raises(KeyError) as missing:
            model[name]
        assert isinstance(missing.value, ringload.TensorNotFoundError)
        assert missing.value.kind == "no_such_tensor"
    assert list(reversed(model)) == list(model)[::-1]
    assert model.keys() & {"scalar", "no"} == {"scalar"}
    assert "scalar" in model.keys() and len(model.items()) == len(model)
    assert [tensor.name for tensor in model.values()] == list(model)
    assert dict(model.items()).keys() == model.keys()
    with ringload.open(sample) as checkpoint:
        assert checkpoint.keys() == model.keys()
        assert list(reversed(checkpoint)) == list(checkpoint)[::-1]
        assert [stored.name for stored in checkpoint.values()] == list(checkpoint)
        with pytest.raises(ringload.TensorNotFoundError):
            checkpoint[3]


def test_load_to_several_devices(sample, arrays):
    name = "model.layers.0.weight"
    wanted = ringload.select().replicate("i*").on("f64", 1).shard(name, dim=0)
    with ringload.Loader(["cpu", "cpu"]) as loader:
        model = loader.load(sample, select=wanted).result()
        with pytest.raises(ringload.Error) as refused:
            loader.load(sample, select=ringload.select().on("f64", 2)).result()
        assert refused.value.kind == "invalid_selection"
    for position in (2, -1):
        with pytest.raises(IndexError, match="2 devices"):
            model.on(position)
    assert len(model) == len(list(model)) == len(set(model)) == len(arrays)
    assert model["i32"].data_ptr == dict(model.items())["i32"].data_ptr
    first, second = model.on(0), model.on(1)
    assert "f64" not in first and same(second["f64"].numpy(), arrays["f64"])
    assert "scalar" in first and "scalar" not in second
    assert first["i32"].data_ptr != second["i32"].data_ptr
    assert same(first["i32"].numpy(), second["i32"].numpy())
    parts = [on[name].numpy() for on in (first, second)]
    assert same(numpy.concatenate(parts), arrays[name])
    everything = model.numpy()
    assert set(everything) == set(arrays)
    assert same(everything["i32"], arrays["i32"]) and same(everything[name], parts[0])


def test_tensors_outlive_model_and_loader(sample, arrays):
    tensor = ringload.load(sample)["model.layers.0.weight"]
    array = tensor.numpy()
    del tensor
    assert same(array, arrays["model.layers.0.weight"])


@pytest.mark.parametrize("dtype", ["bf16", "bfloat16", ml_dtypes.bfloat16])
def test_dtype_converts_floating_tensors_only(sample, arrays, dtype):
    model = ringload.load(sample, dtype=dtype)
    expected = arrays["model.layers.0.weight"].astype(ml_dtypes.bfloat16)
    assert same(model["model.layers.0.weight"].numpy(), expected)
    assert model["i32"].dtype == "i32"


@pytest.mark.parametrize(
    "select",
    [
        "model.*",
        ["model.layers.0.*", "model.layers.1.*"],
        lambda info: info.name.startswith("model"),
        ringload.Selection().matching("*weight"),
    ],
    ids=["glob", "globs", "predicate", "Selection"],
)
def test_select_chooses(sample, select):
    model = ringload.load(sample, select=select)
    assert set(model) == {"model.layers.0.weight", "model.layers.1.weight"}


def test_select_of_an_empty_list_loads_nothing(sample):
    with ringload.Loader() as loader:
        for nothing in ([], (), iter([]), lambda info: False):
            assert len(loader.load(sample, select=nothing).result()) == 0
        assert list(loader.stream(sample, select=[])) == []
        assert len(loader.open(sample).result().load([]).result()) == 0
    for wrong in (3, [3]):
        with pytest.raises(TypeError, match="select"):
            ringload.load(sample, select=wrong)


def test_selection_slices_shards_and_fuses(sample, arrays):
    names = ["model.layers.0.weight", "model.layers.1.weight"]
    part = ringload.select().names(names).shard("*", 1, 1, 2).fused("both", names, 0)
    expected = numpy.concatenate([arrays[name][:, 35:] for name in names])
    assert same(ringload.load(sample, select=part)["both"].numpy(), expected)


def test_progress_is_shown_by_tqdm(sample, tmp_path):
    tqdm = pytest.importorskip("tqdm")
    shown = io.StringIO()

    class Bar(tqdm.tqdm):
        def __init__(self, **options):
            super().__init__(**options, file=shown)

    total = ringload.load(sample).stats["bytes_total"]
    ringload.load(sample, progress=Bar)
    with tqdm.tqdm(file=shown) as bar:
        ringload.load(sample, progress=bar)
        assert (bar.n, bar.total) == (total, total)
    with tqdm.tqdm(total=3, file=shown) as bar:
        ringload.save(tmp_path / "x.safetensors", ringload.load(sample), progress=bar.update)
        assert bar.n >= total
    assert shown.getvalue().count("100%") >= 2


def test_progress_is_told_and_ends_whole(sample):
    told = []
    ringload.load(sample, progress=told.append)
    assert told[-1]["bytes"] == told[-1]["bytes_total"] == os.path.getsize(sample) - header(sample)


def header(path):
    with open(path, "rb") as file:
        return 8 + struct.unpack("<Q", file.read(8))[0]


def test_several_files_are_one_checkpoint(tmp_path):
    ones = write_safetensors(tmp_path / "a.safetensors", {"a": numpy.ones(3, numpy.int8)})
    twos = write_safetensors(tmp_path / "b.safetensors", {"b": numpy.full(3, 2, numpy.int8)})
    model = ringload.load([ones, twos])
    assert set(model) == {"a", "b"}
    files = model.stats_of_files
    assert [file["path"] for file in files] == [str(ones), str(twos)]
    assert all(file["bytes_read"] >= 3 and file["bytes_per_second"] > 0 for file in files)
    stats = model.stats
    assert sum(file["bytes_read"] for file in files) == (
        stats["bytes_direct"] + stats["bytes_buffered"])
    headers = [os.path.getsize(path) - 3 for path in (ones, twos)]
    assert [file["header_bytes"] for file in files] == headers
    assert stats["header_bytes"] == sum(headers)
    copying = sum(file["seconds_device_wait"] for file in files)
    assert stats["seconds_device_wait"] == pytest.approx(copying)
    with ringload.Loader() as loader:
        load = loader.start([ones, twos]).result()
        assert len(load.stats_of_files) == 2
        assert load.finish().result().stats_of_files == load.stats_of_files


def test_mapped_tensors_are_views_of_the_file(sample, arrays):
    model = ringload.load(sample, memory="mapped", unmappable="copy")
    tensor = model["model.layers.0.weight"]
    assert tensor.read_only
    assert not tensor.numpy().flags.writeable
    assert same(tensor.numpy(), arrays["model.layers.0.weight"])
    with pytest.raises(TypeError, match="read-only"):
        ringload.fill(sample, {"model.layers.0.weight": tensor})


def test_torch_tensors_of_read_only_memory_warn_once_for_each_place(sample):
    pytest.importorskip("torch")
    model = ringload.load(sample, memory="mapped", unmappable="copy")
    name = "model.layers.0.weight"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(2):
            model[name].torch()
            model.torch()
            model["model.layers.1.weight"].torch()
    assert len(told) == 3
    for warning in told:
        assert warning.filename == __file__ and warning.category is UserWarning
        assert 'access="copy_on_write"' in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ringload.load(sample)[name].torch()
        options = {"memory": "mapped", "access": "copy_on_write", "unmappable": "copy"}
        tensor = ringload.load(sample, **options)[name].torch()
        tensor[0] = 1
        with safe_open(sample, framework="pt") as opened:
            opened.get_tensor(name)[0] = 1
    assert tensor[0, 0] == 1 and ringload.load(sample)[name].numpy()[0, 0] != 1


# --- open


def test_open_reads_no_more_than_is_asked_for(sample, arrays):
    with ringload.open(sample) as checkpoint:
        assert list(checkpoint) == list(checkpoint.keys())
        assert checkpoint["bf16"].dtype == "bf16"
        weight = checkpoint["model.layers.0.weight"]
        expected = arrays[weight.name]
        assert same(weight[10:20].numpy(), expected[10:20])
        assert same(weight[10:20, 3:9].numpy(), expected[10:20, 3:9])
        assert same(weight[..., -5:].numpy(), expected[..., -5:])
        assert same(weight[:].numpy(), expected)
        assert same(weight[5:5].numpy(), expected[5:5])
        model = checkpoint.load("model.*").result()
        assert len(model) == 2


def test_open_refuses_what_is_no_range(sample):
    with ringload.open(sample) as checkpoint:
        weight = checkpoint["model.layers.0.weight"]
        with pytest.raises(ValueError, match="step of 1"):
            weight[::2]
        with pytest.raises(TypeError, match=r"write \[3:4\]"):
            weight[3]
        with pytest.raises(TypeError, match=r"write \[-1:\]"):
            weight[:, -1]
        for mask in (numpy.ones(300, bool), [0, 1], numpy.array(3), None):
            with pytest.raises(TypeError, match="ranges are slices"):
                weight[mask]
        with pytest.raises(IndexError):
            weight[1:2, 1:2, 1:2]
        with pytest.raises(KeyError, match="'no'"):
            checkpoint["no"]


def test_catalog_says_where_bytes_lie(sample, arrays):
    with ringload.open(sample) as checkpoint:
        (path, size, kind) = checkpoint.files[0]
        assert (path, size, kind) == (sample, os.path.getsize(sample), "safetensors")
        with open(sample, "rb") as file:
            for info in checkpoint.infos():
                file.seek(info.offset)
                assert file.read(info.nbytes) == arrays[info.name].tobytes()


# --- errors


def test_missing_source_is_a_FileNotFoundError(tmp_path):
    with pytest.raises(FileNotFoundError) as failed:
        ringload.load(tmp_path / "no.safetensors")
    assert isinstance(failed.value, ringload.Error)
    assert failed.value.kind in ("source_not_found", "errno")
    assert "no.safetensors" in str(failed.value)


def test_errors_of_the_system_have_its_number(tmp_path):
    with pytest.raises(FileNotFoundError) as failed:
        ringload.load(tmp_path / "no.safetensors")
    error = failed.value
    assert (error.errno, error.strerror) == (errno.ENOENT, os.strerror(errno.ENOENT))
    assert error.filename == str(tmp_path / "no.safetensors")
    array = numpy.ones(3, "f4")
    (tmp_path / "there.safetensors").touch()
    with pytest.raises(FileExistsError) as failed:
        ringload.save(tmp_path / "there.safetensors", {"a": array}, replace=False)
    assert failed.value.errno == errno.EEXIST and failed.value.kind == "errno"


def test_exceptions_are_pickled_whole(sample, tmp_path):
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 20)
    (tmp_path / "there.safetensors").touch()
    array = numpy.ones(3, "f4")
    failing = [
        lambda: ringload.load(tmp_path / "no.safetensors"),
        lambda: ringload.load(tmp_path / "bad.safetensors"),
        lambda: ringload.save(tmp_path / "there.safetensors", {"a": array}, replace=False),
        lambda: ringload.attach(tmp_path / "no", "x", timeout=0.1),
        lambda: ringload.load(sample, colour="red"),
        lambda: ringload.load(sample)["no"],
        lambda: ringload.fill(sample, {"f32": array}),
    ]
    for fail in failing:
        with pytest.raises(ringload.Error) as failed:
            fail()
        error = failed.value
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(again) is type(error) and str(again) == str(error)
            for name in ("kind", "place", "errno", "filename", "strerror"):
                assert getattr(again, name, None) == getattr(error, name, None), name
    made = ringload.Error("mine")
    assert str(pickle.loads(pickle.dumps(made))) == "mine"


def test_exception_of_another_process(tmp_path):
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        with pytest.raises(ringload.Error) as failed:
            pool.submit(ringload.load, "/proc/self/mem").result()
    assert str(failed.value).startswith("/proc/self/mem")


def test_asking_again_does_not_lengthen_the_traceback(tmp_path):
    def frames(error):
        return sum(1 for _ in traceback.walk_tb(error.__traceback__))

    with ringload.Loader() as loader:
        operation = loader.load(tmp_path / "no")
        lengths = set()
        for _ in range(5):
            with pytest.raises(FileNotFoundError) as failed:
                operation.result()
            lengths.add(frames(failed.value))
    assert len(lengths) == 1


def test_paths_need_not_be_utf8(sample, arrays, tmp_path):
    folder = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.mkdir(folder)
    path = folder + b"/m\xe9.safetensors"
    ringload.save(path, {"a": arrays["f32"], "b": arrays["i32"]})
    text = os.fsdecode(path)
    for way in (path, text, pathlib.Path(text), [path], folder):
        assert same(ringload.load(way)["a"].numpy(), arrays["f32"])
    with ringload.open(path) as checkpoint:
        assert checkpoint.files[0][0] == text
        assert same(checkpoint["b"][:].numpy(), arrays["i32"])
    ringload.save(folder + b"/x.zt", {"a": arrays["f32"]}, zstd_level=1)
    assert len(ringload.load(folder + b"/x.zt")) == 1
    with pytest.raises(FileNotFoundError) as failed:
        ringload.load(folder + b"/\xffno.safetensors")
    str(failed.value).encode()


def test_tensors_whose_names_are_not_utf8_are_found(tmp_path):
    name = "z\udcff"  # The tensor of a .npy file has the name of the file.
    path = tmp_path / f"{name}.npy"
    numpy.save(path, numpy.arange(3))
    model = ringload.load(path)
    assert list(model) == [name] and name in model
    assert model[name].numpy().tolist() == model.get(name).numpy().tolist() == [0, 1, 2]
    assert name in repr(model[name])
    with ringload.open(path) as checkpoint:
        assert name in checkpoint
        assert checkpoint[name][:].numpy().tolist() == [0, 1, 2]
    for other in ("z\udcfe", "z\ud800"):
        assert other not in model and model.get(other) is None
        with pytest.raises(KeyError):
            model[other]


def test_arguments_of_another_type_are_named(sample, tmp_path):
    array = numpy.ones(3, "f4")
    path = tmp_path / "x.safetensors"
    with pytest.raises(TypeError, match="metadata must be a dict of str to str|'a' must be a str"):
        ringload.save(path, {"x": array}, metadata={"a": 1})
    with pytest.raises(TypeError, match="metadata must be"):
        ringload.save(path, {"x": array}, metadata=3)
    with pytest.raises(TypeError, match="a tensor's name must be a str, not int 1"):
        ringload.save(path, {1: array})
    with pytest.raises(ValueError, match="a tensor's name must be UTF-8"):
        ringload.save(path, {"\udcff": array})
    with pytest.raises(TypeError, match="populate must be True or False, not str 'x'"):
        ringload.load(sample, populate="x")
    for option in {"populate": True}, {"access": "copy_on_write"}, {"unmappable": "copy"}:
        with pytest.raises(ringload.UsageError, match=f"{next(iter(option))}: .*mapped"):
            ringload.load(sample, **option)
        assert ringload.load(sample, memory="mapped", **{"unmappable": "copy", **option})
    assert ringload.load(sample, populate=False, access="read_only", unmappable="refuse")
    aligned = ringload.load(sample, tensor_alignment=512)
    assert all(tensor.data_ptr % 512 == 0 for tensor in aligned.values())
    with pytest.raises(ringload.UsageError, match="tensor_alignment: the value is 3"):
        ringload.load(sample, tensor_alignment=3)
    with pytest.raises(TypeError, match="replace must be True or False"):
        ringload.save(path, {"x": array}, replace="x")
    with pytest.raises(TypeError, match="slots must be an integer"):
        ringload.Loader(slots="many")
    with pytest.raises(TypeError, match="route must be a str"):
        ringload.load(sample, route=3)
    with pytest.raises(TypeError, match="slot_bytes must be"):
        ringload.Loader(slot_bytes=[])
    assert not path.exists()


def test_messages_have_pythons_words(sample, tmp_path):
    with pytest.raises(ringload.SourceNotFoundError) as failed:
        ringload.load("s3://bucket/key", remote=False)
    assert str(failed.value).startswith("s3://bucket/key: addresses cannot be read")
    assert failed.value.filename == "s3://bucket/key"
    with pytest.raises(ringload.UsageError) as failed:
        ringload.save(tmp_path / "x.bin", {"a": numpy.ones(3)})
    assert "::" not in str(failed.value)
    with pytest.raises(ringload.Error) as failed:
        next(iter(ringload.stream(sample, window=0)))
    assert str(failed.value).startswith("stream(): ")
    with pytest.raises(ringload.UsageError, match="no option window"):
        ringload.load(sample, window="1GiB")
    with pytest.raises(ringload.Error) as failed:
        ringload.load(sample, dtype="i8")
    assert str(failed.value).startswith("dtype: ")


def _of_loader(name, value):
    ringload.Loader(**{name: value}).close()


@pytest.mark.parametrize("value", [-1, 2**64, 2**70, 1.5, "text", "-1", "1e999", b"x", [], True])
def test_wrong_numbers_name_the_option(sample, tmp_path, value):
    sizes = ("slot_bytes", "bytes_in_flight", "arena_bytes_max", "cached_bytes")
    wrong = (ringload.UsageError, TypeError)
    for name in (*sizes, "slots", "copy_threads", "reader_threads"):
        with pytest.raises(wrong, match=f"^{name}"):
            _of_loader(name, value)
    with pytest.raises(wrong, match="^window"):
        next(iter(ringload.stream(sample, window=value)))
    for name in ("shard_bytes", "shard_count", "alignment", "zstd_level"):
        for path in ("x.safetensors", "x.zt"):
            with pytest.raises(wrong, match=f"{name}"):
                ringload.save(tmp_path / path, {"a": numpy.ones(3)}, **{name: value})
    assert not list(tmp_path.glob("x.*"))


@pytest.mark.parametrize("wrong", [("slot_bytes", 0), ("slot_bytes", "3MiB"), ("slots", 1025),
                                   ("copy_threads", 65), ("reader_threads", 0)])  # fmt: skip
def test_limits_of_the_loader_name_the_option(wrong):
    name, value = wrong
    with pytest.raises(ringload.UsageError, match=f"^{name}: the value is [0-9,]*, expected "):
        _of_loader(name, value)


def test_options_of_other_files_are_named(tmp_path):
    arrays = {"a": numpy.ones(3)}
    with pytest.raises(ringload.UsageError, match="^zstd_level can be used only for .* .zt"):
        ringload.save(tmp_path / "x.safetensors", arrays, zstd_level=3)
    for path in ("x.safetensors", "x.zt"):
        with pytest.raises(ringload.UsageError, match="shard_bytes and shard_count"):
            ringload.save(tmp_path / path, arrays, shard_count=2)


def test_closed_checkpoint_says_so(sample):
    with ringload.open(sample) as checkpoint:
        stored = checkpoint["scalar"]
    for use in (lambda: stored[...], checkpoint.load):
        with pytest.raises(RuntimeError, match="the Checkpoint is closed"):
            use()
    assert len(checkpoint) > 0


def test_features_are_told():
    features = ringload.features()
    assert set(features) == {"version", "remote", "cuda", "hdf5", "zstd", "deflate"}
    assert features.pop("version") == ringload.__version__
    assert all(isinstance(value, bool) for value in features.values())


def test_truncated_file_names_tensor_and_byte(sample, tmp_path):
    path = tmp_path / "short.safetensors"
    path.write_bytes(pathlib.Path(sample).read_bytes()[:-10])
    with pytest.raises(ringload.InvalidFileError, match="short.safetensors") as failed:
        ringload.load(path)
    assert failed.value.kind == "extent_outside_file"
    assert isinstance(failed.value, ValueError)


def test_selecting_what_is_not_there_is_a_KeyError(sample):
    with pytest.raises(KeyError) as failed:
        ringload.load(sample, select=ringload.select().names(["no"]))
    assert failed.value.kind == "no_such_tensor"
    assert "no" in str(failed.value)


def test_too_much_memory_is_a_MemoryError(sample):
    with ringload.Loader(arena_bytes_max="4KiB") as loader:
        with pytest.raises(MemoryError) as failed:
            loader.load(sample).result()
    assert failed.value.kind == "memory_exceeded"
    assert re.search(r"the tensors need [0-9,]+ bytes, arena_bytes_max is 4,096$", str(failed.value))


def test_unreadable_file_is_a_PermissionError(sample, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = tmp_path / "secret.safetensors"
    path.write_bytes(pathlib.Path(sample).read_bytes())
    path.chmod(0)
    with pytest.raises(PermissionError):
        ringload.load(path)


def test_wrong_options_are_ValueErrors(sample):
    with pytest.raises(ValueError, match="no option colour"):
        ringload.load(sample, colour="red")
    with pytest.raises(ValueError, match="automatic, direct, buffered"):
        ringload.load(sample, route="scenic")
    with pytest.raises(ValueError, match="no dtype 'f7'"):
        ringload.load(sample, dtype="f7")
    with pytest.raises(ValueError, match="no device"):
        ringload.load(sample, device="tpu")
    with pytest.raises(ValueError, match="not a size"):
        ringload.Loader(slot_bytes="much")
    with pytest.raises(ringload.UsageError):
        ringload.Loader(slots=5000)
    with pytest.raises(ringload.Error) as wrong:
        ringload.load(sample, colour="red")
    assert wrong.value.kind == "usage"


def test_predicate_that_raises_fails_the_load(sample):
    with pytest.raises(ZeroDivisionError):
        ringload.load(sample, select=lambda info: 1 // 0)


@pytest.mark.parametrize("digest", ["crc32c", "sha256"])
def test_checksum_list_is_compared(arrays, tmp_path, digest):
    path = tmp_path / "x.safetensors"
    array = arrays["model.layers.0.weight"]
    saved = ringload.save(path, {"a": array}, digest=digest)
    if digest == "sha256":
        assert saved.digests["a"].split()[1] == hashlib.sha256(array.tobytes()).hexdigest()
    listed = tmp_path / "x.sums"
    listed.write_text(saved.digests["a"] + "\n")
    assert ringload.load(path, verify=listed).stats["bytes_verified"] == array.nbytes
    ringload.save(path, {"a": array + 1})
    with pytest.raises(ringload.InvalidFileError) as failed:
        ringload.load(path, verify=listed)
    assert failed.value.kind == "wrong_digest"


def test_digests_of_a_save_are_what_a_load_verifies(arrays, tmp_path):
    path = tmp_path / "digests.safetensors"
    saved = ringload.save(path, {"f32": arrays["f32"], "u8": arrays["u8"]}, digest="sha256")
    assert len(ringload.load(path, verify=saved.digests)) == 2
    (tmp_path / "list").write_text(saved.checksums)
    assert len(ringload.load(path, verify=tmp_path / "list")) == 2
    other = ringload.save(path, {"f32": arrays["f32"] + 1, "u8": arrays["u8"]}, digest="crc32c")
    with pytest.raises(ringload.InvalidFileError, match="f32") as failed:
        ringload.load(path, verify=saved.digests)
    assert failed.value.kind == "wrong_digest"
    assert len(ringload.load(path, verify=other.digests)) == 2
    with pytest.raises(ringload.InvalidFileError):
        ringload.load(path, verify={"f32": "md5 00  f32"})


def test_signal_while_an_exception_is_made_is_what_is_raised(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ringload._errors.make", interrupted)
    with ringload.Loader() as loader:
        operation = loader.load(tmp_path / "no")
        with pytest.raises(KeyboardInterrupt):
            operation.result()
        monkeypatch.undo()
        with pytest.raises(FileNotFoundError):
            operation.result()


@pytest.mark.skipif(not _core.has_hdf5, reason="built without libhdf5")
def test_hdf5_is_read_by_a_process():
    path = pathlib.Path(__file__).parents[1] / "data/hdf5/chunked.h5"
    for options in ({}, {"hdf5": True}):
        ringload.load(path, verify=f"{path}.manifest", **options)
    assert "libhdf5" not in pathlib.Path("/proc/self/maps").read_text()
    with pytest.raises(ringload.Error, match="hdf5=True"):
        ringload.load(path, hdf5=False)


def test_more_shards_than_the_soft_limit_of_open_files(tmp_path):
    """A library changes no limit of its process: the program raises the soft limit, as the error says."""
    shards = 1200
    weight_map = {}
    for number in range(shards):
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        write_safetensors(tmp_path / name, {f"t{number}": numpy.full(4, number, numpy.int32)})
        weight_map[f"t{number}"] = name
    index = {"metadata": {"total_size": 16 * shards}, "weight_map": weight_map}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 3 * shards:
        pytest.skip(f"the hard limit of open files is {before[1]}")
    try:
        few = (1024, before[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, few)
        with pytest.raises(OSError, match="RLIMIT_NOFILE, ulimit -n") as refused:
            ringload.load(tmp_path)
        assert refused.value.errno == errno.EMFILE
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == few
        resource.setrlimit(resource.RLIMIT_NOFILE, (3 * shards, before[1]))
        model = ringload.load(tmp_path)
        assert all((model[f"t{n}"].numpy() == n).all() for n in range(shards))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_model_has_a_note_of_tensors_that_a_dtype_does_not_convert(sample):
    assert not any("unconverted" in note for note in ringload.load(sample).notes)
    model = ringload.load(sample, dtype="f32", select=["f16", "f8_e8m0", "i64"])
    assert model["f16"].dtype == "f32"
    unconverted = [note for note in model.notes if "unconverted" in note]
    assert len(unconverted) == 1
    assert unconverted[0].startswith("2 tensors ")


def test_a_range_of_quantised_blocks_is_refused():
    path = pathlib.Path(__file__).parent.parent / "data" / "gguf" / "blocks.gguf"
    with ringload.open(path) as checkpoint:
        stored = next(each for each in checkpoint.values() if each.info.original_shape)
        assert stored[:].nbytes == stored.nbytes
        with pytest.raises(ringload.UsageError, match="blocks cannot be read"):
            stored[0:1]


@pytest.mark.parametrize("name", ["copy.safetensors", "copy.zt"])
def test_a_save_of_quantised_blocks_is_refused(tmp_path, name):
    path = pathlib.Path(__file__).parent.parent / "data" / "gguf" / "blocks.gguf"
    copy = tmp_path / name
    with pytest.raises(ringload.UsageError, match="type q4_0: convert the file.*ringload convert"):
        ringload.save(copy, ringload.load(path, select=["q4_0"]))
    assert not copy.exists()
    ringload.save(copy, ringload.load(path, select=["q4_0"], dtype="f32"))
    assert ringload.load(copy)["q4_0"].dtype == "f32"
