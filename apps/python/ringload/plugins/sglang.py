# SPDX-License-Identifier: Apache-2.0
"""ringload in SGLang: `--model-loader-extra-config '{"ringload": true}'`.

SGLang has no registry of load formats, so its choice of a loader is hooked: with that key, which
may be beside "window" and "device", tensors come through a window of bounded memory. Tensors that
are too large for the window, and all that remain when SGLang holds a full window of them, are
mapped from the files. SGLang's own loader reads files of PyTorch (`.bin`, `.pt`).
"""

import copy
import json
import time

from . import _weights

_hooked = "sglang.srt.model_loader.loader.get_model_loader"


def register():
    """For the entry point sglang.srt.plugins."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(_hooked, choose_loader, HookType.AROUND)


def choose_loader(original, load_config, *arguments, **named):
    """What get_model_loader gives: ours, where the configuration asks for it."""
    extra = load_config.model_loader_extra_config
    if isinstance(extra, str):
        extra = json.loads(extra) if extra else {}
    if not (extra or {}).get("ringload"):
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
            folder, files, is_safetensors, *_ = _weights.files_of(self, source)
            if not is_safetensors:
                return super()._get_weights_iterator(source)
            add_mtp = getattr(engine, "maybe_add_mtp_safetensors", None)
            config = getattr(source, "model_config", None)
            if add_mtp is not None and config is not None:
                index = "model.safetensors.index.json"
                files = add_mtp(files, folder, index, config.hf_config)
            if self.counter_before_loading_weights == 0.0:
                self.counter_before_loading_weights = time.perf_counter()
            shows = _weights.shows_progress(self.load_config)
            found = _weights.pairs(files, self._ours, progress=shows)
            return ((source.prefix + name, tensor) for name, tensor in found)

    return RingloadModelLoader
