# SPDX-License-Identifier: Apache-2.0
"""A trainer publishes versions of its model, and an inference process follows them in place.

    python follow_training.py FOLDER [VERSIONS]

The trainer writes the full version 0, and then a delta for each step, which is about a hundredth of
the model. The other process holds the model in its own memory and changes it in place, whole or not
at all: between two requests it has one version.
"""

import asyncio
import multiprocessing
import os
import sys

from typing import Any

import numpy

import ringload

layers, width = 4, 512


def weights() -> dict[str, Any]:
    random = numpy.random.default_rng(0)
    shape = (width, width)
    return {f"layers.{i}.weight": random.random(shape, numpy.float32) for i in range(layers)}


def train(folder: str, versions: int) -> None:
    """Publishes each version. A file has its name when it is complete."""
    model = weights()
    random = numpy.random.default_rng(1)
    last = os.path.join(folder, "v0.safetensors")
    ringload.save(last, model)
    for number in range(1, versions + 1):
        for weight in model.values():
            weight[random.random(weight.shape) < 0.02] *= 1.001
        full = os.path.join(folder, f"trained{number}.safetensors")
        ringload.save(full, model)
        ringload.save_delta(os.path.join(folder, f"v{number}.delta.zt"), last, full)
        if number > 1:
            os.unlink(last)
        last = full


async def serve(folder: str, versions: int) -> dict[str, Any]:
    model = {name: numpy.empty_like(weight) for name, weight in weights().items()}
    async for number, _ in ringload.follow(folder, period=0.05, into=model):
        answer = sum(float(weight.sum()) for weight in model.values())
        print(f"version {number}: {answer:.6f}", flush=True)
        if number == versions:
            break
    return model


def main() -> None:
    folder = sys.argv[1]
    versions = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    os.makedirs(folder, exist_ok=True)
    # A spawned process: a loader's threads do not survive a fork.
    trainer = multiprocessing.get_context("spawn").Process(target=train, args=(folder, versions))
    trainer.start()
    model = asyncio.run(serve(folder, versions))
    trainer.join()
    trained = ringload.load(os.path.join(folder, f"trained{versions}.safetensors")).numpy()
    assert all((model[name] == weight).all() for name, weight in trained.items())
    print("equal to the trainer's weights")


if __name__ == "__main__":
    main()
