# SPDX-License-Identifier: Apache-2.0
"""The programs of apps/python/examples do what they say."""

import asyncio
import importlib.util
import pathlib
import subprocess
import sys

examples = pathlib.Path(__file__).parents[2] / "apps/python/examples"


def test_hand_over(sample):
    ran = subprocess.run(
        [sys.executable, examples / "hand_over.py", sample], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    # JAX copies what does not begin at a multiple of 64 bytes.
    lines = [line for line in ran.stdout.splitlines() if " at 0x" in line and "JAX" not in line]
    assert len({line.split()[-1] for line in lines}) == 1 < len(lines), ran.stdout


def test_follow_training(tmp_path):
    ran = subprocess.run(
        [sys.executable, examples / "follow_training.py", tmp_path / "run", "3"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "equal to the trainer's weights"
    assert "version 3: " in ran.stdout


def test_what_is_measured_of_python_can_be(sample):
    for how in (["import"], ["await", sample]):
        command = [sys.executable, examples.parents[2] / "bench/python.py", *how, "--runs", "1"]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        assert len([line for line in ran.stdout.splitlines() if line.startswith("| `")]) == 2


def test_swap_models_answers_and_swaps(sample, large, tmp_path):
    spec = importlib.util.spec_from_file_location("swap_models", examples / "swap_models.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    async def talk():
        import ringload

        async with ringload.Loader(cached_bytes="1GiB") as loader:
            server = module.Server(loader, await loader.load(sample))
            listening = await asyncio.start_server(server.answer, "127.0.0.1", 0)
            port = listening.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)

            async def ask(line):
                writer.write(f"{line}\n".encode())
                return (await reader.readline()).decode()

            assert "'f32' f32" in await ask("f32")
            assert "64 tensors" in await ask(f"swap {large}")
            assert "no.safetensors" in await ask(f"swap {tmp_path}/no.safetensors")
            assert "'t00' u8" in await ask("t00")
            writer.close()
            await writer.wait_closed()
            listening.close()

    asyncio.run(asyncio.wait_for(talk(), 60))
