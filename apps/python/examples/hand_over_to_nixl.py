#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hands a loaded model to another process by NIXL: hand_over_to_nixl.py SOURCE

One process loads the model and registers its memory: one registration for each allocation, of which
a load has one. The other reads all of it in one transfer, and has the tensors by their offsets. On
two machines the two run the same code, and send what goes through the pipe here by other means.

Needs the package nixl (or nixl-cu12), and no GPU.
"""

import multiprocessing
import sys
from multiprocessing.connection import Connection
from typing import Any

import numpy

import ringload

try:
    from nixl._api import nixl_agent, nixl_agent_config
except ImportError:
    from nixl_cu12._api import nixl_agent, nixl_agent_config


def agent(name: str) -> Any:
    return nixl_agent(name, nixl_agent_config(backends=["UCX"]))


def offer(source: str, pipe: "Connection[Any, Any]") -> None:
    """The process that has the model."""
    model = ringload.load(source)
    own = agent("offer")
    regions = [(address, size) for address, size, device in model.regions()]
    own.register_memory([(address, size, 0, "") for address, size in regions], "DRAM")
    tensors = {}
    for name, tensor in model.items():
        for region, (address, size) in enumerate(regions):
            if address <= tensor.data_ptr < address + size:
                tensors[name] = (region, tensor.data_ptr - address, tensor.nbytes)
    pipe.send((own.get_agent_metadata(), regions, tensors))
    pipe.recv()  # Until the other has it all.


def take(pipe: "Connection[Any, Any]") -> dict[str, Any]:
    """The process that wants it. Gives each tensor's bytes, in memory of its own."""
    metadata, regions, tensors = pipe.recv()
    own = agent("take")
    memory = [numpy.empty(size, numpy.uint8) for _, size in regions]
    into = [(array.ctypes.data, array.nbytes, 0) for array in memory]
    own.register_memory([(*each, "") for each in into], "DRAM")
    other = own.add_remote_agent(metadata)
    transfer = own.initialize_xfer(
        "READ",
        own.get_xfer_descs(into, "DRAM"),
        own.get_xfer_descs([(address, size, 0) for address, size in regions], "DRAM"),
        other,
    )
    state = own.transfer(transfer)
    while state == "PROC":
        state = own.check_xfer_state(transfer)
    pipe.send("done")
    if state != "DONE":
        raise RuntimeError(f"the transfer ended as {state}")
    own.release_xfer_handle(transfer)
    return {
        name: memory[region][begin : begin + size]
        for name, (region, begin, size) in tensors.items()
    }


def main() -> None:
    source = sys.argv[1]
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=offer, args=(source, theirs))
    process.start()
    taken = take(ours)
    process.join()
    same = sum(
        numpy.array_equal(taken[name], numpy.frombuffer(tensor.byte_view(), numpy.uint8))
        for name, tensor in ringload.load(source).items()
    )
    print(f"{same} of {len(taken)} tensors came as they are in the file")
    sys.exit(same != len(taken))


if __name__ == "__main__":
    main()
