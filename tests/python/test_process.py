# SPDX-License-Identifier: Apache-2.0
"""What a process sees: imports, forks, signals, its end. Each test has a process of its own."""

import signal
import subprocess
import sys

import pytest


def python(program, *arguments, flags=()):
    ran = subprocess.run(
        [sys.executable, *flags, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


def started(program, *arguments, flags=()):
    return subprocess.Popen(
        [sys.executable, *flags, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_import_makes_nothing():
    python(
        "import os, sys, ringload\n"
        "assert len(os.listdir('/proc/self/task')) == 1\n"
        "left_out = ['asyncio', 'numpy', 'torch', 'jax', 'concurrent.futures', 'typing']\n"
        "assert not [name for name in left_out if name in sys.modules], sys.modules.keys()\n"
    )


def test_loader_of_the_parent_is_refused_in_a_child(sample, stalled):
    """A load is in flight when the process forks, and waits for a server that does not answer.

    So no thread allocates at that moment. The C library's allocator would not mind;
    AddressSanitizer's of g++ 12 leaves its locks to the child as they are.
    """
    server = stalled()
    program = (
        "import os, sys, ringload\n"
        "source, sample = sys.argv[1:]\n"
        "loader = ringload.Loader(remote=True)\n"
        "load = loader.start(sample).result()\n"
        "model = load.finish().result()\n"
        "pending = loader.load(source)\n"
        "input()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    for use in (lambda: loader.load(sample), load.finish, pending.result):\n"
        "        try: use()\n"
        "        except RuntimeError as refusal: assert 'forked' in str(refusal)\n"
        "        else: os._exit(1)\n"
        "    assert bytes(model['scalar']) == b'\\7\\0\\0\\0'\n"
        "    del pending, load, model\n"
        "    loader.close()\n"
        "    assert len(ringload.load(sample)) > 0\n"
        "    print('child done', flush=True)\n"
        "    sys.exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert len(ringload.load(sample)) == len(model)\n"
        "pending.cancel()\n"
        "try: pending.result()\n"
        "except ringload.CancelledError: print('cancelled')\n"
    )
    with started(program, server.address, sample, flags=["-W", "ignore"]) as parent:
        assert server.asked.wait(60), "it asked for nothing"
        printed, errors = parent.communicate("\n", timeout=60)
    assert printed == "child done\ncancelled\n" and parent.returncode == 0, errors


# What is interrupted waits for a server that does not answer, and the signal comes once it does.
phases = {
    "making": "while True: ringload.Loader().close()",
    "opening": "ringload.open(source, remote=True)",
    "load": "ringload.load(source, remote=True)",
    "progress": "ringload.load(source, remote=True, progress=True)",
    "stream": "for pair in ringload.stream(source, window='64MiB', remote=True): pass",
    "fill": "ringload.fill(source, {'t00': bytearray_of(8 << 20)}, remote=True)",
    "tensor": "with ringload.Loader(remote=True) as loader:\n"
    "        loader.start(source).result().tensor('t63').result()",
    "awaited": "asyncio.run(awaited())",
    "future": "ringload.Loader(remote=True).load(source).future().result()",
    "attached": "while True:\n"
    "        try: ringload.attach(source, 'x')\n"
    "        except OSError: pass",
    "joined": "ringload.join_group(sys.argv[2] + '.socket', 0, 2)",
}


at_once = ("making", "attached", "joined")  # Of no server.


@pytest.mark.parametrize("phase", phases)
def test_interrupt_ends_the_waiting(sample, stalled, phase):
    server = stalled(0 if phase == "opening" else 1)
    program = (
        "import asyncio, sys, ringload\n"
        "def bytearray_of(size):\n"
        "    import numpy\n"
        "    return numpy.zeros(size, numpy.uint8)\n"
        "async def awaited():\n"
        "    async with ringload.Loader(remote=True) as loader:\n"
        "        await loader.load(source)\n"
        "source = sys.argv[1]\n"
        "try:\n"
        "    print('begun', flush=True)\n"
        f"    {phases[phase]}\n"
        "except KeyboardInterrupt: print('interrupted', flush=True)\n"
        "else: sys.exit('it ended before it was interrupted')\n"
        "assert len(ringload.load(sys.argv[2])) > 0\n"
    )
    with started(program, server.address, sample, flags=["-X", "dev"]) as child:
        assert child.stdout.readline() == "begun\n"
        if phase not in at_once:
            assert server.asked.wait(60), "it asked for nothing"
        for attempt in range(5):
            child.send_signal(signal.SIGINT)
            try:
                printed, errors = child.communicate(timeout=12)
                break
            except subprocess.TimeoutExpired:
                # Python drops what a signal's handler raises in a weak reference's callback.
                assert attempt < 4 and phase in at_once, "it waits on"
        assert printed == "interrupted\n" and child.returncode == 0, errors


@pytest.mark.parametrize(
    "left",
    [
        "operation = loader.load(source)",
        "future = loader.load(source).future()",
        "load = loader.start(source).result()",
        # A connection for every range in flight: none that comes waits for one that stalls.
        "loader = ringload.Loader(remote={'connections': 64})\n"
        "stream = loader.stream(source); next(stream)",
        "import threading\n"
        "threading.Thread(target=lambda: loader.load(source).result(), daemon=True).start()",
        "ringload.model = loader.load(sys.argv[2]).result(); ringload.loader = loader",
        "ringload.operation = loader.load(source); ringload.loader = loader; del loader",
    ],
    ids=["operation", "future", "load", "stream", "thread", "model", "in a cycle"],
)
def test_interpreter_ends_during_a_load(large, sample, stalled, left):
    server = stalled(16 << 20)  # Its first tensor comes.
    made = "import sys, ringload\nloader = ringload.Loader(remote=True)\nsource = sys.argv[1]\n"
    program = f"{made}{left}\n"
    python(program, server.address, sample, flags=["-X", "dev"])
    python(program, large, sample, flags=["-X", "dev"])


def test_nothing_is_left_after_many_loads(sample):
    python(
        "import gc, os, sys, ringload\n"
        "def held(): return len(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task'))\n"
        "def resident(): return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "loader = ringload.Loader(slots=1)\n"
        "def once(count):\n"
        "    for _ in range(count):\n"
        "        operations = [loader.load(sys.argv[1]) for _ in range(20)]\n"
        "        for operation in operations:\n"
        "            for tensor in operation.result().values(): tensor.numpy()\n"
        "once(50); gc.collect(); before = held(), resident()\n"
        "once(450); gc.collect()\n"
        "assert held() == before[0], (held(), before)\n"
        "assert resident() < before[1] + (8 << 20), (resident(), before)\n",
        sample,
    )
