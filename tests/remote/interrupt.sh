#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# interrupt.sh RINGLOAD JSON_TOOL URING_BENCH: one signal ends a command that waits for a server
# that accepts connections and answers no request, or only the first requests.

bench=$3
. "$(dirname "$0")/servers.sh"
command -v python3 >/dev/null || skip "no python3"

# silent_server.py ANSWERED: serves a file of 64 MiB. ANSWERED selects the requests that get an
# answer: none; opening, which begin at byte 0; or small, which have at most 128 KiB. Prints its
# port, and a line for each request that it does not answer.
cat >"$work/silent_server.py" <<'PYTHON'
import re
import socket
import sys
import threading

answered = {
    "none": lambda begin, end: False,
    "opening": lambda begin, end: begin == 0,
    "small": lambda begin, end: end - begin <= 131072,
}[sys.argv[1]]
file_bytes = 64 << 20


def serve(connection):
    requests = connection.makefile("rb")
    head = b""
    for line in requests:
        head += line
        if line != b"\r\n":
            continue
        found = re.search(rb"(?i)\r\nrange: *bytes=(\d+)-(\d+)\r\n", head)
        begin, end = (int(found[1]), int(found[2]) + 1) if found else (0, file_bytes)
        head = b""
        if not answered(begin, end):
            print(f"unanswered {begin} {end}", flush=True)
            continue
        fields = f"""HTTP/1.1 206 Partial Content
ETag: "1"
Content-Range: bytes {begin}-{end - 1}/{file_bytes}
Content-Length: {end - begin}

"""
        connection.sendall(fields.replace("\n", "\r\n").encode() + bytes(end - begin))


listener = socket.create_server(("127.0.0.1", 0))
print("port", listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
PYTHON

# ends CODE COMMAND...: sends SIGTERM when the command waits for the server, and expects the exit
# code. The server is new for each command, and answers the requests that $answered says. The first
# request without an answer matches $unanswered.
ends() {
  wanted=$1
  shift
  : >"$work/server"
  python3 "$work/silent_server.py" $answered >"$work/server" 2>&1 &
  servers=$!
  port=$(started "the server" "$work/server" 'port \([0-9]*\)') || exit 1
  # shellcheck disable=SC2086
  "$@" "http://127.0.0.1:$port/x.safetensors" $more >"$work/out" 2>"$work/err" &
  waiting=$!
  prints 1 '^unanswered ' $waiting "$work/server"
  kill -TERM $waiting
  code=0
  wait $waiting || code=$?
  stop_servers
  grep -m 1 '^unanswered ' "$work/server" | grep -q "^unanswered $unanswered" ||
    fail "another request than '$unanswered' had no answer: $(cat "$work/server")"
  [ "$code" -eq "$wanted" ] || fail "exit code $code and not $wanted: $*: $(cat "$work/err")"
  [ ! -s "$work/out" ] || fail "prints something all the same: $*"
}

more=
answered=none
unanswered='0 '
ends 143 "$bench" net --anonymous
complains '^uring-bench: interrupted$'
# The request for the last byte, which measures the time of a small request.
answered=opening
unanswered='67108863 67108864$'
ends 143 "$bench" net --anonymous
complains '^uring-bench: interrupted$'
# The requests for the ranges, which measure the rate.
answered=small
unanswered=
ends 143 "$bench" net --anonymous --chunks 1M
complains '^uring-bench: interrupted$'
answered=none
unanswered='0 '
ends 143 "$ringload" verify --anonymous
ends 143 "$ringload" ls --anonymous
more=$work/result.safetensors
ends 143 "$ringload" convert --anonymous
# A checksum list that exists is compared with the files of the source, which reads the catalog.
echo before >"$work/sums"
ends 143 "$ringload" convert --anonymous --checksums "$work/sums"
[ "$(cat "$work/sums")" = before ] || fail "the checksum list was replaced"
[ ! -e "$more" ] || fail "convert leaves a result"
