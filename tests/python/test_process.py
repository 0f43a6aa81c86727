# SPDX-License-Identifier: Apache-2.0
"""What a process sees: imports, forks, signals, its end. Each test has a process of its own."""

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


def test_import_makes_nothing():
    python(
        "import os, sys, ringload\n"
        "assert len(os.listdir('/proc/self/task')) == 1\n"
        "left_out = ['asyncio', 'numpy', 'torch', 'jax', 'concurrent.futures', 'typing']\n"
        "assert not [name for name in left_out if name in sys.modules], sys.modules.keys()\n"
    )


def test_loader_of_the_parent_is_refused_in_a_child(sample):
    printed = python(
        "import os, sys, ringload\n"
        "loader = ringload.Loader()\n"
        "load = loader.start(sys.argv[1]).result()\n"
        "model = load.finish().result()\n"
        "pending = loader.load(sys.argv[1])\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    for use in (lambda: loader.load(sys.argv[1]), load.finish, pending.result):\n"
        "        try: use()\n"
        "        except RuntimeError as refusal: assert 'forked' in str(refusal)\n"
        "        else: os._exit(1)\n"
        "    assert bytes(model['scalar']) == b'\\7\\0\\0\\0'\n"
        "    del pending, load, model\n"
        "    loader.close()\n"
        "    assert len(ringload.load(sys.argv[1])) > 0\n"
        "    print('child done', flush=True)\n"
        "    sys.exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert len(pending.result()) == len(model)\n",
        sample,
        flags=["-W", "ignore"],
    )
    assert "child done" in printed


@pytest.mark.parametrize("phase", ["load", "stream", "awaited", "progress"])
def test_interrupt_ends_the_waiting(large, phase):
    python(
        "import asyncio, signal, sys, ringload\n"
        "def interrupted(*_): raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGALRM, interrupted)\n"
        "async def awaited():\n"
        "    async with ringload.Loader() as loader:\n"
        "        await loader.load(sys.argv[1])\n"
        "def stream():\n"
        "    for _ in range(100): [1 for pair in ringload.stream(sys.argv[1], window='64MiB')]\n"
        "def progress():\n"
        "    ringload.load(sys.argv[1], progress=lambda _: signal.raise_signal(signal.SIGALRM))\n"
        "phases = {'load': lambda: ringload.load(sys.argv[1]), 'stream': stream,\n"
        "          'awaited': lambda: asyncio.run(awaited()), 'progress': progress}\n"
        "if sys.argv[2] != 'progress': signal.setitimer(signal.ITIMER_REAL, 0.01)\n"
        "try: phases[sys.argv[2]]()\n"
        "except KeyboardInterrupt: print('interrupted')\n"
        "else: sys.exit('it ended before it was interrupted')\n"
        "assert len(ringload.load(sys.argv[1], select='t00')) == 1\n",
        large,
        phase,
    )


@pytest.mark.parametrize(
    "left",
    [
        "operation = ringload.Loader().load(sys.argv[1])",
        "loader = ringload.Loader(); future = loader.load(sys.argv[1]).future()",
        "loader = ringload.Loader(); load = loader.start(sys.argv[1]).result()",
        "stream = ringload.stream(sys.argv[1]); next(stream)",
        "import threading; loader = ringload.Loader()\n"
        "threading.Thread(target=lambda: loader.load(sys.argv[1]).result()).start()",
        "model = ringload.load(sys.argv[1]); ringload.model = model",
    ],
    ids=["operation", "future", "load", "stream", "thread", "model"],
)
def test_interpreter_ends_during_a_load(large, left):
    python(f"import sys, ringload\n{left}\n", large, flags=["-X", "dev"])


def test_nothing_is_left_after_many_loads(sample):
    python(
        "import gc, os, sys, ringload\n"
        "def held(): return len(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task'))\n"
        "def resident(): return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "loader = ringload.Loader(slots=1)\n"
        "def once(count):\n"
        "    for _ in range(count):\n"
        "        for tensor in loader.load(sys.argv[1]).result().values(): tensor.numpy()\n"
        "once(600); gc.collect(); before = held(), resident()\n"
        "once(600); gc.collect()\n"
        "assert held() == before[0], (held(), before)\n"
        "assert resident() < before[1] + (8 << 20), (resident(), before)\n",
        sample,
    )
