# SPDX-License-Identifier: Apache-2.0
"""Tensors of GPUs, on a stand-in: tensors of PyTorch that claim to be on a GPU.

Their capsules describe host memory, so the library fills and saves them as on the host.
"""

import contextlib
import threading

import numpy
import pytest
from conftest import write_safetensors

import ringload
from ringload import _convert, _core

torch = pytest.importorskip("torch")


class GpuTensor(torch.Tensor):
    """A tensor that claims to be on the GPU `index`."""

    @staticmethod
    def of(values, index):
        plain = torch.as_tensor(values)
        tensor = plain.as_subclass(GpuTensor)
        tensor.plain = plain
        tensor.index = index
        return tensor

    @property
    def device(self):
        return torch.device("cuda", self.index)

    def detach(self):
        return self

    def __dlpack__(self, **options):
        if torch.cuda.current_device() != self.index:  # As PyTorch does.
            raise BufferError("Can't export tensors on a different CUDA device index.")
        return self.plain.__dlpack__(**options)


class Gpus:
    """The calls of the stand-in, in their order."""

    def __init__(self):
        self.current = 0
        self.calls = []

    def stream_of(self, device):
        stream = type("Stream", (), {})()
        name = f"{device} {threading.current_thread().name}"
        stream.synchronize = lambda: self.calls.append(name)
        return stream

    @contextlib.contextmanager
    def made_current(self, device):
        before, self.current = self.current, torch.device(device).index
        try:
            yield
        finally:
            self.current = before


@pytest.fixture
def gpus(monkeypatch):
    made = Gpus()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: made.current)
    monkeypatch.setattr(torch.cuda, "current_stream", made.stream_of)
    monkeypatch.setattr(torch.cuda, "device", made.made_current)
    return made


class Watched:
    """An engine that notes its calls in the list of the stand-in."""

    def __init__(self, engine, calls):
        self._engine = engine
        self._calls = calls

    def __getattr__(self, name):
        function = getattr(self._engine, name)

        def call(*arguments):
            self._calls.append(name)
            return function(*arguments)

        return call


@pytest.fixture
def loader(gpus):
    with ringload.Loader() as made:
        made._engine = Watched(made._engine, gpus.calls)
        yield made


@pytest.fixture
def tensors():
    return {
        "a": GpuTensor.of(numpy.zeros(4, numpy.float32), 1),
        "b": GpuTensor.of(numpy.zeros(4, numpy.float32), 0),
        "c": GpuTensor.of(numpy.zeros(4, numpy.float32), 1),
        "d": torch.zeros(4),
    }


@pytest.fixture
def source(tmp_path):
    made = {name: numpy.arange(4, dtype=numpy.float32) + ord(name) for name in "abcd"}
    return write_safetensors(tmp_path / "x.safetensors", made)


waits = ["cuda:0 MainThread", "cuda:1 MainThread"]


def test_a_save_waits_for_the_streams_of_pytorch(loader, gpus, tensors, tmp_path):
    for name in ("x.safetensors", "x.zt"):
        gpus.calls.clear()
        loader.save(tmp_path / name, tensors, sync=False).result()
        assert gpus.calls == [*waits, "save"]


def test_a_compressed_save_waits_for_the_streams_of_pytorch(loader, gpus, tensors, tmp_path):
    loader.save(tmp_path / "x.zt", tensors, sync=False, zstd_level=1).result()
    assert gpus.calls == waits


def test_a_fill_waits_for_the_streams_of_pytorch(loader, gpus, tensors, source):
    loader.fill(source, tensors).result()
    assert gpus.calls == ["open", *waits, "fill"]
    assert tensors["c"].plain[0] == ord("c")


def test_a_fill_waits_for_the_streams_of_its_caller(loader, gpus, tensors, source):
    filling = loader.fill(source, tensors)
    waiting = threading.Thread(target=filling.result, name="other")
    waiting.start()
    waiting.join()
    assert gpus.calls == ["open", *waits, "fill"]


def test_a_fill_waits_for_the_memory_and_the_copy_of_a_temporary_tensor(
    loader, gpus, tensors, source, monkeypatch
):
    negated, temporary = tensors["a"], tensors["c"]
    negated.is_neg = lambda: True
    monkeypatch.setattr(torch, "empty", lambda *_, **__: temporary)
    loader.fill(source, {"a": negated}).result()
    assert gpus.calls == ["open", waits[1], waits[1], "fill", waits[1]]
    assert negated.plain[0] == ord("a")


def test_an_update_waits_for_the_streams_of_pytorch(loader, gpus, tensors, source, tmp_path):
    following = {name: numpy.ones(4, numpy.float32) for name in "abcd"}
    full = write_safetensors(tmp_path / "y.safetensors", following)
    ringload.save_delta(tmp_path / "v1.delta.zt", source, full, sync=False)
    loader.fill(source, tensors).result()
    gpus.calls.clear()
    loader.update(tensors, tmp_path / "v1.delta.zt").result()
    assert gpus.calls == [*waits, "update"]
    assert tensors["a"].plain[3] == 1


def test_tensors_of_the_host_wait_for_no_stream(loader, gpus, source, tmp_path):
    made = {name: torch.zeros(4) for name in "abcd"}
    loader.fill(source, made).result()
    loader.save(tmp_path / "y.safetensors", made, sync=False).result()
    model = loader.load(source).result()
    loader.copy(model["a"]).result()
    assert gpus.calls == ["open", "fill", "save", "load", "copy"]


def test_a_tensor_of_another_gpu_than_the_current_one_is_exported(gpus, tensors):
    capsules = [_convert.exported(tensor)[0] for tensor in tensors.values()]
    assert len(capsules) == 4
    assert gpus.current == 0


def test_the_gpu_of_pytorch_is_the_one_that_cuda_means(gpus):
    gpus.current = 1
    for device in ("cuda", torch.device("cuda")):
        assert _convert.indexed(device) == "cuda:1"
    assert _convert.indexed(torch.device("cuda", 0)) == "cuda:0"
    assert _convert.indexed("cpu") == "cpu"
    assert _convert.indexed(None) == "cpu"


def test_cuda_stays_as_it_is_if_pytorch_has_no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert _convert.indexed("cuda") == "cuda"


class Stopped(Exception):
    pass


def test_load_into_uses_the_current_gpu_of_pytorch(gpus, source, monkeypatch):
    def stop(_source, _tensors, device, **_options):
        raise Stopped(device)

    gpus.current = 1
    monkeypatch.setattr(ringload, "fill", stop)
    with pytest.raises(Stopped, match="^cuda:1$"):
        ringload.load_into(torch.nn.Linear(2, 2), source, device="cuda")


def test_load_shards_uses_the_current_gpu_of_pytorch(gpus, source, monkeypatch, tmp_path):
    from ringload.torch import _shards

    def stop(device, **_options):
        raise Stopped(device)

    gpus.current = 1
    monkeypatch.setattr(_shards, "Loader", stop)
    with pytest.raises(Stopped, match="^cuda:1$"):
        _shards.load_shards(tmp_path, device="cuda")


def test_nccl_group_uses_the_current_gpu_of_pytorch(gpus, monkeypatch):
    def stop(_hosts, device, *_options):
        raise Stopped(device)

    gpus.current = 1
    monkeypatch.setattr(_core, "nccl_group", stop)
    with pytest.raises(Stopped, match="^cuda:1$"):
        ringload.nccl_group(None)


def test_plugins_use_the_current_gpu_of_pytorch(gpus, monkeypatch):
    from ringload.plugins import _weights

    gpus.current = 1
    monkeypatch.setattr(_core, "has_cuda", True)
    assert _weights.target_device({}) == "cuda:1"
    assert _weights.target_device({"device": "cuda"}) == "cuda:1"
    assert _weights.target_device({"device": "cpu"}) == "cpu"
    monkeypatch.setattr(_core, "has_cuda", False)
    assert _weights.target_device({}) == "cpu"
