# SPDX-License-Identifier: Apache-2.0
"""The load format "ringload" for vLLM: `vllm serve MODEL --load-format ringload`.

Tensors come through a window, onto the GPU, from which vLLM copies them into the parameters: so no
second copy of the model is needed. `--model-loader-extra-config '{"window": "4GiB"}'` makes the
window larger, and "device": "cpu" lets tensors land in host memory. Tensors that are too large for
the window, and all that remain when vLLM holds a full window of them, are mapped from the files.
vLLM's own loader reads files of PyTorch (`.bin`, `.pt`).
"""

import copy
import time

from . import _weights


def register():
    """For the entry point vllm.general_plugins, which vLLM calls in each of its processes."""
    from vllm.model_executor.model_loader import register_model_loader

    register_model_loader("ringload")(_loader_class())


def _loader_class():
    from vllm.model_executor.model_loader import default_loader

    class RingloadModelLoader(default_loader.DefaultModelLoader):
        def __init__(self, load_config):
            self._ours, left = _weights.split_config(load_config.model_loader_extra_config)
            # The engine's own loader finds and downloads files, and reads those that are not
            # safetensors, by its format for models of the hub.
            as_its_own = copy.copy(load_config)
            as_its_own.load_format = "hf"
            as_its_own.model_loader_extra_config = left
            super().__init__(as_its_own)

        def _get_weights_iterator(self, source):
            if getattr(self, "_encoder_only_lm_prefixes", None) is not None:
                return super()._get_weights_iterator(source)
            _folder, files, is_safetensors, *_ = _weights.files_of(self, source)
            if not is_safetensors:
                return super()._get_weights_iterator(source)
            keep = _weights.keeps(
                getattr(self, "local_expert_ids", None), getattr(source, "is_unused_weight", None)
            )
            shows = _weights.shows_progress(self.load_config)
            found = _weights.pairs(files, self._ours, keep, shows)
            decode = getattr(default_loader, "decode_csf_scale_streams", None)
            if decode is not None:
                found = decode(found)
            if self.counter_before_loading_weights == 0.0:
                self.counter_before_loading_weights = time.perf_counter()
            return ((source.prefix + name, tensor) for name, tensor in found)

    return RingloadModelLoader
