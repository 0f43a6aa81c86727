#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shrink.py PROGRAM SEED: finds a smaller world with the same violation.

Removes one part of the world after the other: faults, servers, devices, clients, operations. Without a
part, a seed decides other events, so each try runs further seeds too. A part stays removed if a world
without it has the same violation. At the end, further seeds are tried for a world with fewer turns.
Prints the command that repeats the smallest world.
"""

import argparse
import re
import subprocess
import sys


class World:
    def __init__(self, seed, turns, violation):
        self.seed = seed
        self.turns = turns
        self.violation = violation


def kind_of(violation):
    """The text without its numbers, which differ between worlds."""
    return re.sub(r"\d+", "N", violation)


def run(program, first, seeds, removed):
    """Returns the first world of these seeds that has a violation."""
    command = [program, "--first", str(first), "--seeds", str(seeds), "--quiet"]
    for name in removed:
        command += ["--without", name]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode == 2:
        sys.exit(ended.stderr)
    found = re.search(r"violation in seed (\d+), turn (\d+): (.*)", ended.stderr)
    if ended.returncode == 0 or not found:
        return None
    return World(int(found[1]), int(found[2]), found[3])


def find(program, first, seeds, removed, kind):
    """Returns the first world of these seeds that has a violation of this kind."""
    end = first + seeds
    while first < end:
        world = run(program, first, end - first, removed)
        if not world or kind_of(world.violation) == kind:
            return world
        first = world.seed + 1
    return None


def all_parts(program):
    refused = subprocess.run([program, "--without", ""], capture_output=True, text=True)
    return re.search(r"one of these parts: (.*)", refused.stderr)[1].split()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program")
    parser.add_argument("seed", type=int)
    parser.add_argument("--without", action="append", default=[], help="a part that is removed")
    parser.add_argument("--worlds", type=int, default=1000, help="the worlds of each try")
    options = parser.parse_args()

    removed = options.without
    smallest = run(options.program, options.seed, 1, removed)
    if not smallest:
        sys.exit(f"shrink.py: seed {options.seed} has no violation")
    kind = kind_of(smallest.violation)
    print(f"seed {smallest.seed}, turn {smallest.turns}: {smallest.violation}", flush=True)
    for name in all_parts(options.program):
        if name in removed:
            continue
        without = [*removed, name]
        world = find(options.program, smallest.seed, 1, without, kind) or find(
            options.program, 1, options.worlds, without, kind
        )
        if world:
            removed, smallest = without, world
            print(f"without {name}: seed {world.seed}, turn {world.turns}", flush=True)
    first = 1
    for _ in range(10):
        world = find(options.program, first, options.worlds, removed, kind)
        if not world:
            break
        first = world.seed + 1
        if world.turns < smallest.turns:
            smallest = world
            print(f"seed {world.seed}, turn {world.turns}", flush=True)
    words = "".join(f" --without {name}" for name in removed)
    print(f"{smallest.violation}\n{options.program} --seed {smallest.seed}{words}")


if __name__ == "__main__":
    main()
