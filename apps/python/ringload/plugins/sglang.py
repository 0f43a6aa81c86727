# SPDX-License-Identifier: Apache-2.0
"""ringload in SGLang: `--model-loader-extra-config '{"ringload": true}'`.

SGLang has no registry of load formats, so this plugin hooks the choice of the loader. With the key
"ringload", which "window" and "device" may accompany, tensors arrive through a window of bounded
memory. Tensors that are too large for the window are mapped from the files, and so are all
remaining tensors if SGLang holds a full window. With "distributed": true, the ranks of the
tensor-parallel group read each byte once. A model may be an address (`s3://`, `hf://`), which is
read without a download and whose settings are in "remote". SGLang's own loader reads PyTorch files
that contain more than tensors.
"""

import copy
import functools
import json
import time

from .._names import optional_bool
from . import _weights

_hooked = "sglang.srt.model_loader.loader.get_model_loader"


def register():
    """The function of the entry point sglang.srt.plugins."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(_hooked, choose_loader, HookType.AROUND)


def choose_loader(original, load_config, *arguments, **named):
    """Replaces get_model_loader: returns our loader if the configuration requests it."""
    extra = load_config.model_loader_extra_config
    if isinstance(extra, str):
        extra = json.loads(extra) if extra else {}
    if not optional_bool((extra or {}).get("ringload"), "ringload"):
        return original(load_config, *arguments, **named)
    return _loader_class()(load_config, extra)


def _loader_class():
    from sglang.srt.model_loader import loader as engine

    class RingloadModelLoader(engine.DefaultModelLoader):
        def __init__(self, load_config, extra):
            self._ours, left = _weights.split_config(extra)
            own = copy.copy(load_config)
            own.model_loader_extra_config = left
            super().__init__(own)

        def _get_weights_iterator(self, source):
            if getattr(self.load_config, "draft_model_idx", None) is not None:
                return super()._get_weights_iterator(source)
            if _weights.is_address(source.model_or_path):
                files = _weights.address_of(source)
            else:
                if _weights.own_loader_reads(self.load_config):
                    return super()._get_weights_iterator(source)
                folder, files, is_safetensors, *_ = _weights.files_of(self, source)
                if not is_safetensors and not _weights.is_readable(files):
                    return super()._get_weights_iterator(source)
                if is_safetensors:
                    files = self._with_mtp(files, folder, source)
            if self.counter_before_loading_weights == 0.0:
                self.counter_before_loading_weights = time.perf_counter()
            found = _weights.weights_of(
                self, self._ours, "sglang.srt.distributed", files
            )
            return ((source.prefix + name, tensor) for name, tensor in found)

        def _with_mtp(self, files, folder, source):
            add = getattr(engine, "maybe_add_mtp_safetensors", None)
            config = getattr(source, "model_config", None)
            if add is None or config is None:
                return files
            return add(files, folder, "model.safetensors.index.json", config.hf_config)

        @functools.wraps(engine.DefaultModelLoader._prepare_weights)
        def _prepare_weights(self, model_name_or_path, *arguments, **named):
            if _weights.is_address(model_name_or_path):  # No file is downloaded.
                return model_name_or_path, [model_name_or_path], True
            return super()._prepare_weights(model_name_or_path, *arguments, **named)

    return RingloadModelLoader
