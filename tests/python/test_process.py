# SPDX-License-Identifier: Apache-2.0
"""What a process sees: imports, forks, signals, its end. Each test has a process of its own."""

import os
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


def test_small_files_leave_no_thread_to_a_fork(sample):
    """They are loaded by a loader that is kept. From 3.12 on Python warns of a fork with threads."""
    python(
        "import os, sys, threading, ringload\n"
        "def load(): return ringload.load(sys.argv[1])['i32'].tolist()\n"
        "expected = load()\n"
        "assert len(os.listdir('/proc/self/task')) > 1\n"
        "assert load() == expected\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    assert len(os.listdir('/proc/self/task')) == 1\n"
        "    assert load() == expected\n"
        "    os._exit(0)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "assert load() == expected\n",
        sample,
        flags=("-W", "error"),
    )


def test_a_fork_during_a_load_of_a_small_file_ends_no_load(sample):
    python(
        "import os, sys, threading, ringload\n"
        "failures = []\n"
        "def load():\n"
        "    try:\n"
        "        for _ in range(300): ringload.load(sys.argv[1])\n"
        "    except BaseException as failure: failures.append(failure)\n"
        "threads = [threading.Thread(target=load) for _ in range(3)]\n"
        "for thread in threads: thread.start()\n"
        "for _ in range(20):\n"
        "    child = os.fork()\n"
        "    if child == 0: os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "for thread in threads: thread.join()\n"
        "assert not failures, failures\n",
        sample,
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
    # Ranks that wait for another.
    "joined": "ringload.join_group(socket, 0, 2)",
    "joined by a follower": "ringload.join_group(socket, 1, 2)",
    "joined awaited": "asyncio.run(awaited(lambda _: ringload.join_group_async(socket, 0, 2)))",
    "joined future": "ringload.join_group_async(socket, 0, 2).future().result()",
    "group load": "ranks = ringload.make_thread_ranks(2)\n"
    "    ringload.Loader().group_load(ranks[0], sample).result()",
    "group load awaited": "ranks = ringload.make_thread_ranks(2)\n"
    "    asyncio.run(awaited(lambda loader: loader.group_load(ranks[0], sample)))",
    "group call": "load_of_two()[0].tensor('scalar').result()",
    "group call awaited": "loads = load_of_two()\n"
    "    asyncio.run(awaited(lambda _: loads[0].tensor('scalar')))",
    "group call future": "load_of_two()[0].shard('f32', 0).future().result()",
}


of_a_server = ("opening", "load", "progress", "stream", "fill", "tensor", "awaited", "future")


@pytest.mark.parametrize("phase", phases)
def test_interrupt_ends_the_waiting(sample, request, phase):
    server = None
    if phase in of_a_server:
        server = request.getfixturevalue("stalled")(0 if phase == "opening" else 1)
    program = (
        "import asyncio, os, signal, sys, ringload\n"
        # A shell that starts the tests in the background ignores the signal for all of them.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def bytearray_of(size):\n"
        "    import numpy\n"
        "    return numpy.zeros(size, numpy.uint8)\n"
        "async def awaited(begin=lambda loader: loader.load(source)):\n"
        "    async with ringload.Loader(remote=ringload._core.has_remote) as loader:\n"
        "        await begin(loader)\n"
        "def load_of_two():\n"
        "    loader = ringload.Loader()\n"
        "    begun = [loader.group_load(one, sample) for one in ringload.make_thread_ranks(2)]\n"
        "    return [one.result() for one in begun]\n"
        "def threads(): return len(os.listdir('/proc/self/task'))\n"
        "source, sample = sys.argv[1:]\n"
        "socket = sample + '.socket'\n"
        "before = threads()\n"
        "try:\n"
        "    print('begun', flush=True)\n"
        f"    {phases[phase]}\n"
        "except KeyboardInterrupt: print('interrupted', flush=True)\n"
        "else: sys.exit('it ended before it was interrupted')\n"
        # Who has a future cancels it or not. A thread that has ended is in the list for a moment.
        f"while {phase.startswith('joined') and 'future' not in phase} and threads() > before: pass\n"
        f"assert 'future' in {phase!r} or not os.path.exists(socket)\n"
        "assert len(ringload.load(sample)) > 0\n"
    )
    source = server.address if server else sample
    with started(program, source, sample, flags=["-X", "dev"]) as child:
        assert child.stdout.readline() == "begun\n"
        if server:
            assert server.asked.wait(60), "it asked for nothing"
        for attempt in range(5):
            child.send_signal(signal.SIGINT)
            try:
                printed, errors = child.communicate(timeout=12)
                break
            except subprocess.TimeoutExpired:
                # Python drops what a signal's handler raises in a weak reference's callback.
                assert attempt < 4 and not server, "it waits on"
        assert printed == "interrupted\n" and child.returncode == 0, errors
    assert not os.path.exists(sample + ".socket")


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


@pytest.mark.parametrize(
    "left",
    [
        "operation = ringload.join_group_async(socket, 0, 2)",
        "future = ringload.join_group_async(socket, 1, 2).future()",
        "in_thread(lambda: ringload.join_group(socket, 0, 2))",
        "ringload.operation = ringload.join_group_async(socket, 0, 2)",
        "operation = loader.group_load(ranks[0], sample)",
        "future = loader.group_load(ranks[0], sample).future()",
        "in_thread(lambda: loader.group_load(ranks[0], sample).result())",
        "ringload.left = loader, ranks, loader.group_load(ranks[0], sample); del loader, ranks",
        "load = load_of_two()[0]; call = load.tensor('scalar')",
        "load = load_of_two()[0]; in_thread(lambda: load.tensor('scalar').result())",
        "ringload.loads = load_of_two(); ringload.call = ringload.loads[0].tensor('scalar')",
    ],
    ids=["joining", "joining future", "joining thread", "joining in a cycle", "load", "load future",
         "load thread", "load in a cycle", "call", "call thread", "call in a cycle"],
)  # fmt: skip
def test_interpreter_ends_while_ranks_wait_for_another(sample, tmp_path, left):
    python(
        "import sys, threading, ringload\n"
        "sample, socket = sys.argv[1:]\n"
        "loader = ringload.Loader()\n"
        "ranks = ringload.make_thread_ranks(2)\n"
        "def load_of_two():\n"
        "    begun = [loader.group_load(one, sample) for one in ranks]\n"
        "    return [one.result() for one in begun]\n"
        "def in_thread(work): threading.Thread(target=work, daemon=True).start()\n"
        f"{left}\n",
        sample,
        str(tmp_path / "socket"),
        flags=["-X", "dev"],
    )
    assert not os.listdir(tmp_path)


def test_interpreter_ends_while_threads_ask_for_the_gil(sample, tmp_path):
    """Each is most of the time in a function that has let go of it, and comes back from there."""
    python(
        "import sys, threading, ringload\n"
        "sample, socket = sys.argv[1:]\n"
        "def attach():\n"
        "    while True:\n"
        "        try: ringload.attach(socket, 'x')\n"
        "        except OSError: pass\n"
        "def make():\n"
        "    while True: ringload.load(sample)\n"
        "for work in [attach, make] * 4:\n"
        "    threading.Thread(target=work, daemon=True).start()\n",
        sample,
        str(tmp_path / "socket"),
    )


def test_ranks_of_the_parent_are_refused_in_a_child(sample, tmp_path):
    """Ranks wait for others when the process forks: in a load, in a call, and at a socket."""
    python(
        "import os, sys, ringload\n"
        "sample, socket = sys.argv[1:]\n"
        "loader = ringload.Loader()\n"
        "ranks, others = (ringload.make_thread_ranks(2, timeout=60) for _ in range(2))\n"
        "begun = [loader.group_load(one, sample) for one in ranks]\n"
        "loads = [one.result() for one in begun]\n"
        "call = loads[0].tensor('scalar')\n"
        "opening = loader.group_load(others[0], sample)\n"
        "joining = ringload.join_group_async(socket, 0, 2)\n"
        "while not os.path.exists(socket): pass\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    uses = (call.result, opening.result, joining.result, loads[1].infos,\n"
        "            lambda: loads[1].tensor('scalar'), lambda: others[1].rank)\n"
        "    for use in uses:\n"
        "        try: use()\n"
        "        except RuntimeError as refusal: assert 'forked' in str(refusal)\n"
        "        else: os._exit(1)\n"
        "    for one in (call, opening, joining): one.cancel()\n"
        "    del begun, loads, call, opening, joining, uses, ranks, others\n"
        "    own = ringload.make_thread_ranks(1)[0]\n"
        "    with ringload.Loader() as anew:\n"
        "        load = anew.group_load(own, sample).result()\n"
        "        assert bytes(load.tensor('scalar').result()) == b'\\7\\0\\0\\0'\n"
        "    sys.exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert os.path.exists(socket)\n"
        "assert bytes(loads[1].tensor('scalar').result()) == bytes(call.result())\n"
        "opening.cancel()\n"
        "joining.cancel()\n"
        "for one in (opening, joining):\n"
        "    assert isinstance(one.exception(), ringload.CancelledError)\n"
        "assert not os.path.exists(socket)\n",
        sample,
        str(tmp_path / "socket"),
        flags=["-W", "ignore"],
    )


def test_daemon_thread_in_a_load_ends_quietly(stalled):
    server = stalled()
    program = (
        "import sys, threading, ringload\n"
        "def work():\n"
        "    with ringload.Loader(remote=True) as loader: loader.load(sys.argv[1]).result()\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "input()\n"
    )
    with started(program, server.address) as process:
        assert server.asked.wait(60), "it asked for nothing"
        printed, errors = process.communicate("\n", timeout=60)
    assert (process.returncode, printed, errors) == (0, "", "")


# How many descriptors and threads there are, and how much memory; `once` is what is repeated.
left_after = (
    "import gc, os, sys, ringload\n"
    "sample, socket = sys.argv[1:]\n"
    "def held(): return len(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task'))\n"
    "def resident(): return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
    "loader = ringload.Loader(slots=1)\n"
    "{once}"
    "def many(times):\n"
    "    for _ in range(times): once()\n"
    "    gc.collect()\n"
    "many({first}); before = held(), resident()\n"
    "many({then})\n"
    # A thread that has ended is in the list for a moment.
    "while held()[1] > before[0][1]: pass\n"
    "assert held() == before[0], (held(), before)\n"
    # A sanitizer has memory of its own, for what is freed too.
    "sanitized = 'libclang_rt' in os.environ.get('LD_PRELOAD', '')\n"
    "assert sanitized or resident() < before[1] + (8 << 20), (resident(), before)\n"
)


def test_nothing_is_left_after_many_loads(sample, tmp_path):
    once = (
        "def once():\n"
        "    operations = [loader.load(sample) for _ in range(20)]\n"
        "    for operation in operations:\n"
        "        for tensor in operation.result().values(): tensor.numpy()\n"
    )
    program = left_after.format(once=once, first=50, then=450)
    python(program, sample, str(tmp_path / "socket"))


def test_nothing_is_left_after_many_loads_of_ranks(sample, tmp_path):
    """Some end well, some fail; and some who join are cancelled."""
    once = (
        "def once():\n"
        "    ranks = ringload.make_thread_ranks(3)\n"
        "    begun = [loader.group_load(one, sample) for one in ranks]\n"
        "    loads = [one.result() for one in begun]\n"
        "    for call in [load.shard('f32', 0) for load in loads]: call.result().numpy()\n"
        "    loads[0].tensor('scalar').cancel()\n"
        "    for load in loads[1:]:\n"
        "        assert isinstance(load.tensor('scalar').exception(), ringload.RankFailedError)\n"
        "    joining = ringload.join_group_async(socket, 0, 2)\n"
        "    joining.cancel()\n"
        "    assert isinstance(joining.exception(), ringload.CancelledError)\n"
    )
    program = left_after.format(once=once, first=50, then=250)
    python(program, sample, str(tmp_path / "socket"))
