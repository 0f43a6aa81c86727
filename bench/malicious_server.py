#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""malicious_server.py RINGLOAD: `ringload sum` from a web server that answers anything at any time.

Each seed is a server of its own. A part of its answers is right, and the others are lies, garbage,
endless, cut, slow or silent. The command must end within the time limit, with exit code 0 and the
right sums or with exit code 1 and one line, and must need at most 64 MiB more memory than a load
from an honest server. Prints the failures and a summary, and ends with 1 after a failure.
"""

import argparse
import collections
import http
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

memory_bytes_max = 64 << 20
stall_seconds_max = 4
# Opening and reading may each reach the limit of a stall. The rest is for a busy machine.
seconds_max = 4 * stall_seconds_max + 10
endless_bytes_max = 512 << 20


def head(status, fields, reason=None):
    lines = [f"HTTP/1.1 {status} {reason or http.HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Attack:
    """The answers of one seed."""

    def __init__(self, seed, content):
        self.random = random.Random(seed)
        self.content = content
        self.part_right = self.random.choice([0, 0.3, 0.6, 0.9, 0.97])
        kinds = [name for name in dir(self) if name.startswith("send_")]
        # Some seeds concentrate on a few kinds, so that the same attack meets each kind of request.
        self.kinds = self.random.sample(kinds, self.random.choice([1, 2, 4, len(kinds)]))
        self.lock = threading.Lock()

    def choose(self):
        with self.lock:
            if self.random.random() < self.part_right:
                return None, self.random.random()
            return self.random.choice(self.kinds), self.random.random()

    def range_of(self, request):
        found = re.search(rb"\r\n[Rr]ange: bytes=(\d+)-(\d*)", request)
        if not found:
            return None
        begin = int(found[1])
        end = min(int(found[2]) + 1 if found[2] else len(self.content), len(self.content))
        return (begin, end) if begin < end else None

    def right(self, request):
        asked = self.range_of(request)
        total = len(self.content)
        if not asked:
            return head(200, [("Content-Length", total), ("ETag", '"1"')]) + self.content
        begin, end = asked
        fields = [
            ("Content-Length", end - begin),
            ("Content-Range", f"bytes {begin}-{end - 1}/{total}"),
            ("ETag", '"1"'),
        ]
        return head(206, fields) + self.content[begin:end]

    def answer(self, connection, request):
        """Returns True if the connection is kept."""
        kind, chance = self.choose()
        if kind is None:
            connection.sendall(self.right(request))
            return True
        return getattr(self, kind)(connection, request, random.Random(chance))

    # --- what is sent

    def endless(self, connection, beginning, repeated):
        connection.sendall(beginning)
        block = repeated * max(1, 65536 // len(repeated))
        for _ in range(endless_bytes_max // len(block)):
            connection.sendall(block)
        return False

    def send_endless_part(self, connection, request, rng):
        chunked = head(rng.choice([200, 206]), [("Transfer-Encoding", "chunked")])
        beginning, repeated = rng.choice(
            [
                (b"HTTP/1.1 200 ", b"x"),
                (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
                (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
                (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
                (b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
                (chunked + b"1;", b"x"),
                (chunked + b'1;a="', b"x"),
                (chunked, b"0"),
                (chunked, b"1\r\nx\r\n"),
                (chunked + b"0\r\n", b"A: b\r\n"),
                (chunked + b"0\r\nA: ", b"x"),
                (chunked + b"ffffffffffffffff\r\n", b"x"),
                (chunked + b"7fffffffffffffff\r\n", b"x"),
                (head(200, []), b"x"),
                (head(403, []), b"x"),
                (head(302, []), b"x"),
                (head(200, [("Content-Encoding", "gzip")]), b"\x1f\x8b"),
                (b"\0", b"\0"),
                (b"\r\n", b"\r\n"),
            ]
        )
        return self.endless(connection, beginning, repeated)

    def send_garbage(self, connection, request, rng):
        connection.sendall(rng.randbytes(rng.choice([1, 100, 10000, 1 << 20])))
        return rng.random() < 0.5

    def send_damaged(self, connection, request, rng):
        answer = bytearray(self.right(request))
        end = min(len(answer), rng.choice([64, 200, 300]))
        for _ in range(rng.choice([1, 2, 8])):
            answer[rng.randrange(end)] = rng.randrange(256)
        # A damaged body is not this test's: no digest of the server says that it is wrong.
        body = self.right(request).find(b"\r\n\r\n") + 4
        answer[body:] = self.right(request)[body:]
        connection.sendall(answer)
        return rng.random() < 0.7

    def send_cut(self, connection, request, rng):
        answer = self.right(request)
        connection.sendall(answer[: rng.randrange(len(answer))])
        return False

    def send_nothing(self, connection, request, rng):
        answer = self.right(request)
        connection.sendall(answer[: rng.choice([0, 1, 20, len(answer) // 2])])
        time.sleep(3 * stall_seconds_max)
        return False

    def send_slowly(self, connection, request, rng):
        answer = self.right(request)
        for i in range(8 * stall_seconds_max):
            connection.sendall(answer[i : i + 1])
            time.sleep(0.3)
        return False

    def send_wrong_length(self, connection, request, rng):
        length = rng.choice([0, 1, -1, 1 << 20, 1 << 40, 1 << 63, 10**30, "x", "1, 2", "+5", ""])
        status = rng.choice([200, 206])
        fields = [("Content-Length", length), ("ETag", '"1"')]
        if rng.random() < 0.3:
            fields.append(("Content-Length", 7))
        connection.sendall(head(status, fields) + self.content[: rng.choice([0, 1, 100000])])
        return rng.random() < 0.5

    def send_wrong_range(self, connection, request, rng):
        begin, end = self.range_of(request) or (0, len(self.content))
        total = len(self.content)
        first, last, size = rng.choice(
            [
                (begin + 1, end, total),
                (begin, end - 2, total),
                (begin, end - 1, total + 1),
                (begin, end - 1, 1 << 62),
                (begin, 1 << 62, 1 << 63),
                (end, begin, total),
                (begin, end - 1, "*"),
                ("-1", "x", ""),
            ]
        )
        fields = [("Content-Length", end - begin), ("Content-Range", f"bytes {first}-{last}/{size}")]
        connection.sendall(head(206, fields) + self.content[begin:end])
        return True

    def send_status(self, connection, request, rng):
        status = rng.choice([100, 101, 204, 205, 304, 400, 401, 403, 404, 407, 408, 412, 416, 421,
                             429, 500, 501, 502, 503, 504])  # fmt: skip
        fields = [("Content-Length", rng.choice([0, 10, 100000]))]
        if rng.random() < 0.5:
            fields.append(("Retry-After", rng.choice([0, 1, -1, 10**9, "x" * 1000])))
        connection.sendall(head(status, fields) + b"x" * fields[0][1])
        return rng.random() < 0.8

    def send_redirect(self, connection, request, rng):
        location = rng.choice(
            ["/x.safetensors", "//[", "http://127.0.0.1:1/", "file:///etc/passwd", "\0", "",
             "http://" + "a" * 8000, "/" + "../" * 2000, "javascript:x", "http://user:pw@127.0.0.1/",
             "https://127.0.0.1:1/"]
        )  # fmt: skip
        status = rng.choice([301, 302, 303, 307, 308, 300])
        connection.sendall(head(status, [("Location", location), ("Content-Length", 0)]))
        return True

    def send_twice(self, connection, request, rng):
        connection.sendall(self.right(request) * 2)
        return True

    def send_other_identity(self, connection, request, rng):
        answer = self.right(request).replace(b'"1"', b'"%d"' % rng.randrange(100), 1)
        connection.sendall(answer)
        return True

    def send_encoded(self, connection, request, rng):
        encoding = rng.choice(["gzip", "br", "deflate", "chunked", "x"])
        connection.sendall(
            head(200, [("Content-Encoding", encoding), ("Content-Length", 1000)]) + b"\0" * 1000
        )
        return True

    def send_several_parts(self, connection, request, rng):
        body = b"--x\r\nContent-Range: bytes 0-1/2\r\n\r\nab\r\n--x--\r\n"
        kind = ("Content-Type", "multipart/byteranges; boundary=x")
        connection.sendall(head(206, [kind, ("Content-Length", len(body))]) + body)
        return True


class Server:
    def __init__(self, attack):
        self.attack = attack
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        connection.settimeout(seconds_max)
        pending = b""
        try:
            with connection:
                while True:
                    while b"\r\n\r\n" not in pending:
                        received = connection.recv(65536)
                        if not received:
                            return
                        pending += received
                    request, _, pending = pending.partition(b"\r\n\r\n")
                    if not self.attack.answer(connection, request):
                        return
        except (OSError, ValueError):
            pass

    def close(self):
        self.listener.close()


def peak_bytes(process):
    """The peak of the process. The ru_maxrss of wait4 would include this program before the exec."""
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


Outcome = collections.namedtuple("Outcome", "code out err seconds bytes")


def run(ringload, port):
    command = [ringload, "sum", f"http://127.0.0.1:{port}/x.safetensors", "--no-progress",
               "--anonymous", "--cache", "off", "--stall-max", str(stall_seconds_max)]  # fmt: skip
    begin = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        peak = 0
        while process.poll() is None:
            peak = max(peak, peak_bytes(process.pid))
            if time.monotonic() - begin > seconds_max:
                process.kill()
            time.sleep(0.005)
        seconds = time.monotonic() - begin
        out.seek(0)
        err.seek(0)
        text = (out.read(), err.read())
    return Outcome(process.returncode, *text, seconds, peak)


def complaint(outcome, honest):
    if outcome.code not in (0, 1):
        return f"exit code {outcome.code} after {outcome.seconds:.1f} s"
    if outcome.code == 0 and outcome.out != honest.out:
        return "other sums"
    if outcome.code == 1 and (outcome.out or outcome.err.count(b"\n") != 1):
        return f"not one line: {outcome.err[:500]!r}"
    if outcome.bytes > honest.bytes + memory_bytes_max:
        return f"{(outcome.bytes - honest.bytes) >> 20} MiB beyond an honest server"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ringload")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "x.safetensors")
        subprocess.run(
            [arguments.ringload, "make", path, "--bytes", "8M", "--no-progress"],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        content = path.read_bytes()
    honest_attack = Attack(0, content)
    honest_attack.part_right = 2
    honest = run(arguments.ringload, Server(honest_attack).port)
    if honest.code != 0:
        raise SystemExit(f"an honest server: {honest.err.decode()}")
    failures = 0
    codes = collections.Counter()
    seconds, peak = 0, 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        server = Server(Attack(seed, content))
        outcome = run(arguments.ringload, server.port)
        server.close()
        codes[outcome.code] += 1
        seconds, peak = max(seconds, outcome.seconds), max(peak, outcome.bytes)
        if wrong := complaint(outcome, honest):
            failures += 1
            print(f"seed {seed}: {wrong}", flush=True)
    print(
        f"{arguments.seeds} seeds: {codes[0]} loads, {codes[1]} refusals, {failures} failures; "
        f"at most {seconds:.1f} s, {max(0, peak - honest.bytes) / (1 << 20):.1f} MiB beyond an "
        f"honest server's {honest.bytes >> 20} MiB"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
