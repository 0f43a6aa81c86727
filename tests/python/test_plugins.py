# SPDX-License-Identifier: Apache-2.0
"""The plug-ins for vLLM and SGLang, on stand-ins that have the engines' interfaces and no more."""

import dataclasses
import enum
import sys
import types

import numpy
import pytest
from conftest import write_safetensors

torch = pytest.importorskip("torch")


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
        return iter(())


class VllmLoader(OwnLoader):
    local_expert_ids = None

    def _prepare_weights(
        self, model_name_or_path, subfolder, revision, fall_back_to_pt, allow_patterns_overrides
    ):
        assert self.load_config.load_format == "safetensors"
        return "folder", model_name_or_path, True, "index"


class SglangLoader(OwnLoader):
    def _prepare_weights(self, model_name_or_path, revision, fall_back_to_pt):
        return "folder", model_name_or_path, True


def vllm_loader(monkeypatch, extra):
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
    return registered["ringload"](LoadConfig(model_loader_extra_config=extra))


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


def test_vllm_window_that_is_held_is_told_with_its_setting(monkeypatch, large):
    loader = vllm_loader(monkeypatch, {"window": "32MiB", "device": "cpu"})
    with pytest.raises(RuntimeError, match="32MiB"):
        list(loader._get_weights_iterator(Source([large])))


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
