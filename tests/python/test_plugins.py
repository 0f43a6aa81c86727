# SPDX-License-Identifier: Apache-2.0
"""The plug-ins for vLLM and SGLang, on stand-ins that have the engines' interfaces and no more."""

import concurrent.futures
import dataclasses
import enum
import functools
import http.server
import os
import sys
import threading
import time
import types

import numpy
import pytest
from conftest import write_safetensors

torch = pytest.importorskip("torch")

from ringload import _core  # noqa: E402
from ringload.plugins import _weights  # noqa: E402


def modules(monkeypatch, **contents):
    """Modules by their dotted names with underscores for dots, and their parents."""
    for name, names in contents.items():
        parts = name.split("__")
        for end in range(1, len(parts) + 1):
            path = ".".join(parts[:end])
            if path not in sys.modules:
                monkeypatch.setitem(sys.modules, path, types.ModuleType(path))
                if end > 1:
                    setattr(
                        sys.modules[".".join(parts[: end - 1])], parts[end - 1], sys.modules[path]
                    )
        for key, value in names.items():
            setattr(sys.modules[".".join(parts)], key, value)


@dataclasses.dataclass
class LoadConfig:
    load_format: str = "ringload"
    model_loader_extra_config: object = dataclasses.field(default_factory=dict)
    draft_model_idx: object = None
    use_tqdm_on_load: bool = False
    safetensors_load_strategy: object = None


@dataclasses.dataclass
class Source:
    model_or_path: object
    revision: object = None
    prefix: str = ""
    fall_back_to_pt: bool = True
    is_unused_weight: object = None


@pytest.fixture
def files(tmp_path):
    layer = {f"l.experts.{n}.w": numpy.full((3, 4), n, numpy.float32) for n in range(4)}
    return [
        write_safetensors(tmp_path / "a.safetensors", layer),
        write_safetensors(tmp_path / "b.safetensors", {"norm": numpy.ones(5, numpy.float16)}),
    ]


class OwnLoader:
    """As the engines' own: it refuses keys and formats that it does not know."""

    counter_before_loading_weights = 0.0

    def __init__(self, load_config):
        self.load_config = load_config
        if set(load_config.model_loader_extra_config) - {"num_threads"}:
            raise ValueError("unexpected extra config keys")

    def _get_weights_iterator(self, source):
        return iter([("own", source.model_or_path)])


class VllmLoader(OwnLoader):
    local_expert_ids = None

    def _prepare_weights(
        self, model_name_or_path, subfolder, revision, fall_back_to_pt, allow_patterns_overrides
    ):
        assert self.load_config.load_format == "hf"
        is_safetensors = model_name_or_path[0].endswith(".safetensors")
        return "folder", model_name_or_path, is_safetensors, "index"


class SglangLoader(OwnLoader):
    def _prepare_weights(self, model_name_or_path, revision, fall_back_to_pt):
        return "folder", model_name_or_path, model_name_or_path[0].endswith(".safetensors")


def vllm_loader(monkeypatch, extra, **settings):
    registered = {}

    def register_model_loader(name):
        return lambda made: registered.setdefault(name, made)

    modules(
        monkeypatch,
        vllm__model_executor__model_loader={"register_model_loader": register_model_loader},
        vllm__model_executor__model_loader__default_loader={"DefaultModelLoader": VllmLoader},
    )
    from ringload.plugins import vllm

    vllm.register()
    return registered["ringload"](LoadConfig(model_loader_extra_config=extra, **settings))


def test_vllm_iterates_through_a_window(monkeypatch, files):
    loader = vllm_loader(monkeypatch, {"window": "64MiB", "device": "cpu", "num_threads": 2})
    found = {}
    for name, tensor in loader._get_weights_iterator(Source(files, prefix="m.")):
        found[name] = tensor.clone()
        del tensor
    assert set(found) == {"m.norm", *(f"m.l.experts.{n}.w" for n in range(4))}
    assert torch.equal(found["m.l.experts.2.w"], torch.full((3, 4), 2.0))
    assert loader.counter_before_loading_weights > 0


def test_vllm_reads_local_experts_and_used_weights_only(monkeypatch, files):
    loader = vllm_loader(monkeypatch, {"device": "cpu"})
    loader.local_expert_ids = {1, 3}
    source = Source(files, is_unused_weight=lambda name: name == "norm")
    names = [name for name, _ in loader._get_weights_iterator(source)]
    assert names == ["l.experts.1.w", "l.experts.3.w"]


@pytest.fixture
def impatient(monkeypatch):
    """A full window is not waited for."""
    monkeypatch.setattr(_weights, "patience_seconds", 0.0)


def numbered(path, count, mebibytes):
    """A file of tensors that hold their own number."""
    size = mebibytes << 20
    return write_safetensors(
        path, {f"t{i:02}": numpy.full(size, i, numpy.uint8) for i in range(count)}
    )


def test_a_list_of_all_weights_needs_no_room_in_the_window(monkeypatch, impatient, tmp_path):
    path = numbered(tmp_path / "a.safetensors", 12, 8)
    loader = vllm_loader(monkeypatch, {"window": "48MiB", "device": "cpu"})
    with pytest.warns(RuntimeWarning, match="is full: release tensors.*larger 'window'"):
        weights = list(loader._get_weights_iterator(Source([path])))
    assert sorted(name for name, _ in weights) == [f"t{i:02}" for i in range(12)]
    assert all(int(tensor[0]) == int(tensor[-1]) == int(name[1:]) for name, tensor in weights)


def test_a_file_that_is_replaced_during_a_load_is_read_as_it_was_opened(
    monkeypatch, impatient, tmp_path
):
    path = numbered(tmp_path / "a.safetensors", 12, 8)
    other = {f"t{i:02}": numpy.full(8 << 20, 100, numpy.uint8) for i in range(12)}
    other = write_safetensors(tmp_path / "b.safetensors", other)
    loader = vllm_loader(monkeypatch, {"window": "48MiB", "device": "cpu"})
    weights = []
    with pytest.warns(RuntimeWarning, match="is full"):
        for name, tensor in loader._get_weights_iterator(Source([path])):
            if not weights:
                os.replace(other, path)
            weights.append((name, tensor))
    assert {name: int(tensor[-1]) for name, tensor in weights} == {
        f"t{i:02}": i for i in range(12)
    }


def test_layers_that_are_kept_until_they_are_whole_are_loaded(monkeypatch, impatient, tmp_path):
    path = numbered(tmp_path / "a.safetensors", 24, 8)
    loader = vllm_loader(monkeypatch, {"window": "48MiB", "device": "cpu"})
    layer, sums = [], []
    with pytest.warns(RuntimeWarning):
        for _, tensor in loader._get_weights_iterator(Source([path])):
            layer.append(tensor)
            if len(layer) == 8:  # 64 MiB.
                sums.append(sum(int(each[0]) for each in layer))
                layer.clear()
    assert sums == [sum(range(first, first + 8)) for first in (0, 8, 16)]


def test_a_pool_of_threads_is_waited_for(monkeypatch, tmp_path, recwarn):
    path = numbered(tmp_path / "a.safetensors", 16, 8)
    monkeypatch.setattr(_weights, "patience_seconds", 600.0)
    loader = vllm_loader(monkeypatch, {"window": "48MiB", "device": "cpu"})
    window_is_full = threading.Event()
    sleep = _weights.time.sleep

    def wait(seconds):
        window_is_full.set()
        sleep(seconds)

    monkeypatch.setattr(
        _weights, "time", types.SimpleNamespace(sleep=wait, monotonic=time.monotonic)
    )
    found = []

    def copy(name, tensor):
        assert window_is_full.wait(60)  # Else the pool would be faster than the window is small.
        found.append((name, int(tensor[-1])))

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for name, tensor in loader._get_weights_iterator(Source([path])):
            pool.submit(copy, name, tensor)
            del tensor
    assert sorted(found) == [(f"t{i:02}", i) for i in range(16)]
    assert not [each for each in recwarn if each.category is RuntimeWarning]


def test_tensors_larger_than_the_window_are_mapped(monkeypatch, tmp_path, recwarn):
    sizes = {"embedding": 40, "a": 8, "b": 8, "head": 40}
    content = {name: numpy.full(n << 20, n, numpy.uint8) for name, n in sizes.items()}
    path = write_safetensors(tmp_path / "a.safetensors", content)
    loader = vllm_loader(monkeypatch, {"window": "32MiB", "device": "cpu"})
    found = {}
    for name, tensor in loader._get_weights_iterator(Source([path])):
        found[name] = (tensor.numel(), int(tensor[-1]))
    assert found == {name: (n << 20, n) for name, n in sizes.items()}
    # Tensors that begin at a wrong address for their type cannot be mapped: these are copied.
    odd = {"a": numpy.zeros(3, numpy.uint8), "embedding": numpy.arange(10 << 20, dtype="f4")}
    odd_path = write_safetensors(tmp_path / "odd.safetensors", odd)
    weights = dict(loader._get_weights_iterator(Source([odd_path])))
    assert torch.equal(weights["embedding"], torch.from_numpy(odd["embedding"]))
    # A window that is smaller than any piece of memory which the library reserves.
    loader = vllm_loader(monkeypatch, {"window": 4096, "device": "cpu"})
    assert {name for name, _ in loader._get_weights_iterator(Source([path]))} == set(sizes)
    assert not [each for each in recwarn if each.category is RuntimeWarning]


@pytest.mark.parametrize("wanted", [True, False])
def test_progress_is_shown_when_the_engine_asks_for_it(monkeypatch, files, wanted):
    bars = []

    class Bar:
        def __init__(self, total, **_):
            self.left = total
            bars.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.is_closed = True

        def update(self, nbytes):
            self.left -= nbytes

    modules(monkeypatch, tqdm__auto={"tqdm": Bar})
    loader = vllm_loader(monkeypatch, {"device": "cpu"}, use_tqdm_on_load=wanted)
    assert len(list(loader._get_weights_iterator(Source(files)))) == 5
    assert [(bar.left, bar.is_closed) for bar in bars] == ([(0, True)] if wanted else [])


def test_files_of_pytorch_are_read_and_those_of_other_objects_are_left_to_the_engine(
    monkeypatch, tmp_path
):
    plain, other = str(tmp_path / "pytorch_model.bin"), str(tmp_path / "other.bin")
    torch.save({"w": torch.arange(5)}, plain)
    torch.save({"w": torch.arange(5), "object": Source([])}, other)
    loader = vllm_loader(monkeypatch, {"device": "cpu"})
    found = dict(loader._get_weights_iterator(Source([plain], prefix="m.")))
    assert found.keys() == {"m.w"} and torch.equal(found["m.w"], torch.arange(5))
    assert list(loader._get_weights_iterator(Source([other]))) == [("own", [other])]
    assert list(loader._get_weights_iterator(Source(["gone.bin"]))) == [("own", ["gone.bin"])]


def test_a_strategy_that_only_the_engine_has_is_left_to_it(monkeypatch, files):
    loader = vllm_loader(monkeypatch, {"device": "cpu"}, safetensors_load_strategy="torchao")
    assert list(loader._get_weights_iterator(Source(files))) == [("own", files)]
    for strategy in ("lazy", "eager", "prefetch", None):
        loader = vllm_loader(monkeypatch, {"device": "cpu"}, safetensors_load_strategy=strategy)
        assert len(list(loader._get_weights_iterator(Source(files)))) == 5


@pytest.mark.skipif(not _core.has_remote, reason="built without remote sources")
def test_an_address_is_read_without_a_download(monkeypatch, files, tmp_path):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/b.safetensors"
        loader = vllm_loader(monkeypatch, {"device": "cpu"})
        assert loader._prepare_weights(address, None, None, True, None)[1] == [address]
        found = dict(loader._get_weights_iterator(Source(address)))
        server.shutdown()
    assert torch.equal(found["norm"], torch.ones(5, dtype=torch.float16))


def test_the_revision_of_the_engine_is_that_of_the_address():
    def address(model, revision=None, **settings):
        return _weights.address_of(
            types.SimpleNamespace(model_or_path=model, revision=revision, **settings)
        )

    assert address("hf://o/m") == "hf://o/m"
    assert address("hf://o/m", "v1") == "hf://o/m@v1"
    assert address("hf://o/m/", "refs/pr/1") == "hf://o/m@refs%2Fpr%2F1"
    assert address("hf://o/m@v1", "v1") == "hf://o/m@v1"
    assert address("s3://b/m") == "s3://b/m"
    for model in ("s3://b/m", "hf://o/m@v2", "hf://o/m/file.gguf", "https://h/m.gguf"):
        with pytest.raises(ValueError, match="revision 'v1'"):
            address(model, "v1")
    for name in ("subfolder", "allow_patterns_overrides"):
        with pytest.raises(ValueError, match=name):
            address("hf://o/m", **{name: ["x"]})


def test_the_engine_passes_its_revision_on(monkeypatch):
    given = []
    monkeypatch.setattr(
        _weights, "weights_of", lambda *arguments: given.append(arguments[3]) or iter(())
    )
    loader = vllm_loader(monkeypatch, {"device": "cpu"})
    list(loader._get_weights_iterator(Source("hf://o/m", revision="v1")))
    assert given == ["hf://o/m@v1"]


def test_switches_of_the_engines_are_booleans(monkeypatch, files):
    loader = vllm_loader(monkeypatch, {"device": "cpu", "distributed": "false"})
    with pytest.raises(TypeError, match="distributed"):
        list(loader._get_weights_iterator(Source(files)))
    from ringload.plugins import sglang

    with pytest.raises(TypeError, match="ringload must be"):
        sglang.choose_loader(None, LoadConfig(model_loader_extra_config={"ringload": "false"}))


def test_sglang_is_chosen_by_its_key_alone(monkeypatch, files):
    hooks = {}

    class HookType(enum.Enum):
        AROUND = "around"

    class HookRegistry:
        @staticmethod
        def register(target, hook, kind):
            hooks[target] = (hook, kind)

    modules(
        monkeypatch,
        sglang__srt__plugins__hook_registry={"HookRegistry": HookRegistry, "HookType": HookType},
        sglang__srt__model_loader__loader={"DefaultModelLoader": SglangLoader},
    )
    from ringload.plugins import sglang

    sglang.register()
    hook, kind = hooks["sglang.srt.model_loader.loader.get_model_loader"]
    assert kind is HookType.AROUND
    assert hook(lambda config: "theirs", LoadConfig()) == "theirs"
    extra = '{"ringload": true, "device": "cpu", "window": "64MiB"}'
    loader = hook(lambda config: "theirs", LoadConfig(model_loader_extra_config=extra))
    names = [name for name, _ in loader._get_weights_iterator(Source(files, prefix="x."))]
    assert sorted(names) == ["x.l.experts.0.w", "x.l.experts.1.w", "x.l.experts.2.w",
                             "x.l.experts.3.w", "x.norm"]  # fmt: skip
    own = loader._get_weights_iterator(Source(["model.pt"]))
    assert list(own) == [("own", ["model.pt"])]
    loader = hook(lambda config: "theirs", LoadConfig(model_loader_extra_config=extra,
                                                      safetensors_load_strategy="torchao"))  # fmt: skip
    assert list(loader._get_weights_iterator(Source(files))) == [("own", files)]
