# SPDX-License-Identifier: Apache-2.0
"""AutoLoader: a ParallelLoader with settings from a file."""

from collections.abc import Iterator
from typing import Any

from .config import LoaderConfig, load_config
from .loader import SafeTensorsFileLoader
from .parallel_loader import ParallelLoader

_loaders = {"base": SafeTensorsFileLoader}


class AutoLoader:
    """Yields (name, tensor) pairs of many files, with the settings of load_config()."""

    def __init__(self, pg: Any, hf_weights_files: list[str], device: str = "cpu") -> None:
        self._config = load_config()
        name = self._config.loader
        if name == "3fs":
            raise ValueError("Loader type '3fs': ringload reads no 3FS. Available: ['base']")
        if name not in _loaders:
            raise ValueError(f"Unknown loader type: {name!r}. Available: {list(_loaders)}")
        extension = _loaders[name].process_extension_config(
            self._config.get_extension_config(name), hf_weights_files=hf_weights_files
        )
        self._loader = ParallelLoader(
            pg,
            hf_weights_files,
            device=device,
            framework=self._config.framework,
            **{**extension, **self._config.create_parallel_kwargs()},
        )

    @property
    def config(self) -> LoaderConfig:
        return self._config

    def iterate_weights(self) -> Iterator[tuple[str, Any]]:
        return self._loader.iterate_weights()

    def close(self) -> None:
        self._loader.close()
