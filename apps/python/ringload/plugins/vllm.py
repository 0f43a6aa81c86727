# SPDX-License-Identifier: Apache-2.0
"""The load format "ringload" for vLLM: `vllm serve MODEL --load-format ringload`.

Tensors arrive in a window on the GPU, and vLLM copies them into the parameters. So no second copy
of the model is needed. `--model-loader-extra-config '{"window": "4GiB"}'` makes the window larger,
and "device": "cpu" places the window in host memory. Tensors that are too large for the window are
mapped from the files, and so are all remaining tensors if vLLM holds a full window.

With `'{"distributed": true}'`, as in Run:ai's loader, the ranks of the tensor-parallel group read
each byte once, into host memory that the ranks of a machine share. A model may be an address
(`s3://`, `hf://`), which is read without a download and whose settings are in "remote". vLLM's own
loader reads models that need torchao, and PyTorch files that contain more than tensors.
"""

import copy
import functools
import time

from . import _weights


def register():
    """The entry point vllm.general_plugins, which vLLM calls in each of its processes."""
    from vllm.model_executor.model_loader import register_model_loader

    register_model_loader("ringload")(_loader_class())


def _loader_class():
    from vllm.model_executor.model_loader import default_loader

    class RingloadModelLoader(default_loader.DefaultModelLoader):
        def __init__(self, load_config):
            self._ours, left = _weights.split_config(load_config.model_loader_extra_config)
            # The engine's own loader finds and downloads files, and reads those that ringload
            # cannot read, by its format for models of the hub.
            as_its_own = copy.copy(load_config)
            as_its_own.load_format = "hf"
            as_its_own.model_loader_extra_config = left
            super().__init__(as_its_own)

        @functools.wraps(default_loader.DefaultModelLoader._prepare_weights)
        def _prepare_weights(self, model_name_or_path, *arguments, **named):
            if _weights.is_address(model_name_or_path):  # No file is downloaded.
                return model_name_or_path, [model_name_or_path], True, ""
            return super()._prepare_weights(model_name_or_path, *arguments, **named)

        def _get_weights_iterator(self, source):
            is_address = _weights.is_address(source.model_or_path)
            if not is_address and (
                getattr(self, "_encoder_only_lm_prefixes", None) is not None
                or _weights.own_loader_reads(self.load_config)
            ):
                return super()._get_weights_iterator(source)
            if is_address:
                files = _weights.address_of(source)
            else:
                _folder, files, is_safetensors, *_ = _weights.files_of(self, source)
                if not is_safetensors and not _weights.is_readable(files):
                    return super()._get_weights_iterator(source)
            keep = _weights.keeps(
                getattr(self, "local_expert_ids", None), getattr(source, "is_unused_weight", None)
            )
            found = _weights.weights_of(self, self._ours, "vllm.distributed", files, keep)
            decode = getattr(default_loader, "decode_csf_scale_streams", None)
            if decode is not None:
                found = decode(found)
            if self.counter_before_loading_weights == 0.0:
                self.counter_before_loading_weights = time.perf_counter()
            return ((source.prefix + name, tensor) for name, tensor in found)

    return RingloadModelLoader
