# SPDX-License-Identifier: Apache-2.0
"""AutoLoader: a ParallelLoader that is told by a file of settings."""

from .config import load_config
from .loader import ParallelLoader


class AutoLoader:
    """(name, tensor) pairs of many files, by the settings that load_config() finds."""

    def __init__(self, pg, hf_weights_files, device="cpu"):
        self._config = load_config()
        if self._config.loader != "base":
            raise ValueError(f"Unknown loader type: {self._config.loader!r}. Available: ['base']")
        self._loader = ParallelLoader(
            pg,
            hf_weights_files,
            device=device,
            framework=self._config.framework,
            **self._config.create_parallel_kwargs(),
        )

    @property
    def config(self):
        return self._config

    def iterate_weights(self):
        return self._loader.iterate_weights()

    def close(self):
        self._loader.close()
