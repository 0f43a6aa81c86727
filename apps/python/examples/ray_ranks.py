# SPDX-License-Identifier: Apache-2.0
"""Actors of Ray that load one checkpoint together, each a part, and that show what an error is.

The actors form a process group of torch.distributed, as Ray Train does for its workers. Each reads
a part of the bytes once.

python ray_ranks.py model.safetensors
"""

import datetime
import os
import socket
import sys
from typing import Any

import ray
import ringload
import ringload.torch
from torch import distributed


class Worker:
    def address(self) -> str:
        """Where the ranks meet: a free port of the machine of rank 0."""
        node_address: Any = ray.util.get_node_ip_address
        with socket.socket() as free:
            free.bind(("", 0))
            return f"tcp://{node_address()}:{free.getsockname()[1]}"

    def join(self, address: str, rank: int, ranks: int) -> None:
        distributed.init_process_group(
            "gloo", init_method=address, rank=rank, world_size=ranks,
            timeout=datetime.timedelta(seconds=60),
        )  # fmt: skip

    def load(self, source: str) -> int:
        """Loads this rank's part: of each tensor a range of rows. Gives the bytes of the part."""
        self.part = ringload.torch.load(
            source, process_group=distributed.group.WORLD, timeout=60.0,
            plan=lambda info: 0 if info.shape else None,
        )  # fmt: skip
        return sum(tensor.numel() * tensor.element_size() for tensor in self.part.values())

    def tensor(self, name: str) -> Any:
        """A tensor of the part. Ray copies it to the caller, which a Tensor of ringload forbids."""
        return self.part[name]


def main(source: str, ranks: int = 2) -> None:
    actor: Any = ray.remote(num_cpus=0.5)(Worker)
    workers = [actor.remote() for _ in range(ranks)]
    address = ray.get(workers[0].address.remote())
    ray.get([worker.join.remote(address, rank, ranks) for rank, worker in enumerate(workers)])
    parts = ray.get([worker.load.remote(source) for worker in workers])
    print(f"{ranks} actors have {', '.join(str(nbytes) for nbytes in parts)} bytes")
    try:
        ray.get([worker.load.remote(source + ".absent") for worker in workers])
    except ringload.SourceNotFoundError as failure:  # Exceptions keep their classes.
        cause: Any = getattr(failure, "cause", failure)
        print(f"expected: {type(failure).__name__}: kind {cause.kind}")
    for worker in workers:
        ray.kill(worker)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python ray_ranks.py model.safetensors")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    main(os.path.abspath(sys.argv[1]))
    ray.shutdown()
