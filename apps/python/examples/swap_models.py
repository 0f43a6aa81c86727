# SPDX-License-Identifier: Apache-2.0
"""An asyncio server that swaps its model while it answers.

    python swap_models.py MODEL        and then: nc 127.0.0.1 8377

A line "swap PATH" loads another model, and any other line is answered by the one that is there.
Memory of the model that went is kept for the next (cached_bytes), so a swap waits for bytes alone.
"""

import asyncio
import sys

import ringload


class Server:
    def __init__(self, loader: ringload.Loader, model: ringload.Model) -> None:
        self.loader = loader
        self.model = model
        self.loading = asyncio.Lock()

    async def swap(self, path: str) -> str:
        async with self.loading:
            self.model = await self.loader.load(path)
            return f"{len(self.model)} tensors, {self.model.stats['seconds']:.3f} s"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := (await reader.readline()).decode().strip():
            command, _, argument = line.partition(" ")
            try:
                if command == "swap":
                    text = await self.swap(argument)
                else:
                    text = repr(self.model.get(line, self.model))
            except ringload.Error as failure:  # The model that was there is there still.
                text = str(failure)
            writer.write(f"{text}\n".encode())
            await writer.drain()
        writer.close()


async def main(path: str, port: int = 8377) -> None:
    async with ringload.Loader(cached_bytes="16GiB") as loader:
        server = Server(loader, await loader.load(path))
        listening = await asyncio.start_server(server.answer, "127.0.0.1", port)
        async with listening:
            await listening.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1]))
    except KeyboardInterrupt:
        pass
