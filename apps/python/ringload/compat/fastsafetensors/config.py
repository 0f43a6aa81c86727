# SPDX-License-Identifier: Apache-2.0
"""Settings of an AutoLoader from a JSON file."""

import dataclasses
import json
import os
from typing import Any, Optional

CONFIG_ENV_VAR = "FASTSAFETENSORS_CONFIG"
DEFAULT_CONFIG_PATH = "fastsafetensors.json"

_groups = ("parallel", "debug")  # Sections whose settings apply to the whole file.
_common = ("framework", "debug_log", "set_numa", "disable_cache")


@dataclasses.dataclass
class LoaderConfig:
    """The settings of an AutoLoader. Sections of other loaders are stored unchanged."""

    loader: str = "base"
    framework: str = "pytorch"
    debug_log: bool = False
    set_numa: bool = True
    disable_cache: bool = True
    use_pipeline: bool = False
    max_concurrent_producers: int = 1
    queue_size: int = 0
    use_tqdm_on_load: bool = True
    max_batch_bytes: Optional[int] = None
    use_chunk_budget_as_allocation_size: bool = False
    device_memory_budget: Optional[int] = None
    _extensions: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.max_concurrent_producers != 1:
            raise ValueError(
                f"max_concurrent_producers must be 1 (got {self.max_concurrent_producers})"
            )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "LoaderConfig":
        """Creates the settings from a dictionary. Unknown keys are ignored."""
        known = {one.name for one in dataclasses.fields(cls)} - {"_extensions"}
        chosen, extensions = {}, {}
        for key, value in data.items():
            if isinstance(value, dict) and key not in _groups:
                extensions[key] = dict(value)
                continue
            chosen.update(value if isinstance(value, dict) else {key: value})
        chosen = {key: value for key, value in chosen.items() if key in known}
        return cls(**chosen, _extensions=extensions)

    @classmethod
    def from_file(cls, path: str) -> "LoaderConfig":
        with open(path, encoding="utf-8") as file:
            return cls.from_dict(json.load(file))

    def get_extension_config(self, name: str) -> dict[str, Any]:
        """Returns the section of one loader, without the common settings."""
        section = self._extensions.get(name, {})
        return {key: value for key, value in section.items() if key not in _common}

    def create_parallel_kwargs(self) -> dict[str, Any]:
        """Returns the arguments for a ParallelLoader."""
        given = {
            "max_batch_bytes": self.max_batch_bytes,
            "use_chunk_budget_as_allocation_size": self.use_chunk_budget_as_allocation_size,
            "device_memory_budget": self.device_memory_budget,
        }
        if not self.use_pipeline:
            return {"queue_size": -1, **given}
        names = ("max_concurrent_producers", "queue_size", "use_tqdm_on_load")
        return {**{name: getattr(self, name) for name in names}, **given}


def load_config() -> LoaderConfig:
    """Returns the settings of $FASTSAFETENSORS_CONFIG, fastsafetensors.json, or the defaults."""
    named = os.environ.get(CONFIG_ENV_VAR)
    if named is not None and not os.path.isfile(named):
        raise FileNotFoundError(f"Config file specified by {CONFIG_ENV_VAR} not found: {named}")
    path = named or DEFAULT_CONFIG_PATH
    return LoaderConfig.from_file(path) if os.path.isfile(path) else LoaderConfig()
