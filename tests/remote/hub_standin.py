#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the Hugging Face hub on loopback, of the standard library alone.

  hub_standin.py FOLDER [--token T] [--gated OWNER/NAME] [--private OWNER/NAME] [--fail-after BYTES]
                 [--flip OFFSET]

FOLDER/OWNER/NAME holds the files of a model's revision `main`, and FOLDER/OWNER/NAME@REV those of
another. Files of 1 KiB and more, and all of tensors, are in LFS: their address leads to a second
server with a signed address. That one refuses requests with an Authorization field, as the stores
behind the hub do, and addresses whose signature is wrong or older than a minute.

Prints "hub ADDRESS" once both servers listen; FOLDER/requests.log gets a line for each request:
server, method, path without query, range or '-', whether there was an Authorization field.
"""

import argparse
import hashlib
import hmac
import json
import os
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LFS_FROM_BYTES = 1024
LFS_SUFFIXES = (".safetensors", ".gguf", ".bin", ".pt")
SIGNING_KEY = os.urandom(16)
SIGNATURE_SECONDS = 60


class Stopped(Exception):
    """The server gives nothing any more."""


class State:
    def __init__(self, how):
        self.how = how
        self.lock = threading.Lock()
        self.sent_bytes = 0
        self.log = open(os.path.join(how.folder, "requests.log"), "w", buffering=1)
        self.digests = {}

    def note(self, server, request):
        range_ = request.headers.get("Range", "-")
        signed = "signed" if request.headers.get("Authorization") else "plain"
        path = request.path.split("?")[0]
        with self.lock:
            self.log.write(f"{server} {request.command} {path} {range_} {signed}\n")

    def count(self, count):
        """Refuses what would exceed the limit."""
        with self.lock:
            self.sent_bytes += count
            limit = self.how.fail_after
            if limit is not None and self.sent_bytes > limit:
                raise Stopped()

    def digest(self, path):
        """(sha256, git's sha1, bytes) of a file."""
        status = os.stat(path)
        key = (path, status.st_mtime_ns, status.st_size)
        if key not in self.digests:
            sha256 = hashlib.sha256()
            sha1 = hashlib.sha1(b"blob %d\0" % status.st_size)
            with open(path, "rb") as file:
                while block := file.read(1 << 20):
                    sha256.update(block)
                    sha1.update(block)
            self.digests[key] = (sha256.hexdigest(), sha1.hexdigest(), status.st_size)
        return self.digests[key]


class Revision:
    """The files of one revision of a model."""

    def __init__(self, state, repository, revision):
        self.root = None
        base = os.path.join(state.how.folder, repository)
        names = {name: base + ("" if name == "main" else "@" + name) for name in ["main", revision]}
        if os.path.isdir(base):
            parent, stem = os.path.split(base)
            for each in os.listdir(parent):
                if each.startswith(stem + "@"):
                    names[each[len(stem) + 1 :]] = os.path.join(parent, each)
        for name, root in names.items():
            if not os.path.isdir(root):
                continue
            files = {}
            for folder, _, found in os.walk(root):
                for file in found:
                    path = os.path.join(folder, file)
                    files[os.path.relpath(path, root)] = state.digest(path)
            listing = json.dumps(sorted(files.items())) + name
            commit = hashlib.sha1(listing.encode()).hexdigest()
            if revision in (name, commit):
                self.root, self.files, self.commit = root, files, commit
                return

    @staticmethod
    def in_lfs(name, bytes_):
        return bytes_ >= LFS_FROM_BYTES or name.endswith(LFS_SUFFIXES)


def signature(path, expires):
    return hmac.new(SIGNING_KEY, f"{path} {expires}".encode(), "sha256").hexdigest()


class Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state = None

    def log_message(self, *arguments):
        pass

    def answer(self, status, body=b"", fields=()):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        fields = [("X-Error-Code", code), ("X-Error-Message", "see the code")] if code else []
        # A body that repeats what was sent, as careless servers do: it must not be shown.
        self.answer(status, str(self.headers.get("Authorization")).encode(), fields)

    def send_file(self, path, bytes_, fields):
        begin, end, status = 0, bytes_, 200
        asked = self.headers.get("Range")
        etag = dict(fields).get("ETag")
        if self.headers.get("If-Match") not in (None, etag):
            return self.answer(412)
        if asked and asked.startswith("bytes="):
            first, _, last = asked[len("bytes=") :].partition("-")
            begin = int(first) if first else max(0, bytes_ - int(last))
            end = min(bytes_, int(last) + 1) if first and last else bytes_
            if begin >= bytes_ or begin >= end:
                return self.answer(416, fields=[("Content-Range", f"bytes */{bytes_}")])
            status = 206
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        if status == 206:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{bytes_}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(end - begin))
        self.end_headers()
        if self.command == "HEAD":
            return None
        with open(path, "rb") as file:
            file.seek(begin)
            while begin < end:
                block = file.read(min(1 << 16, end - begin))
                flipped = self.state.how.flip
                if flipped is not None and begin <= flipped < begin + len(block):
                    block = bytearray(block)
                    block[flipped - begin] ^= 0xFF
                self.state.count(len(block))
                self.wfile.write(block)
                begin += len(block)
        return None

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (Stopped, BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def do_HEAD(self):
        self.do_GET()


class Hub(Request):
    cdn = None  # "http://127.0.0.1:PORT"

    def do_GET(self):
        self.state.note("hub", self)
        path = urllib.parse.urlsplit(self.path).path
        parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
        if parts[:2] == ["api", "models"]:
            return self.api(parts[2:])
        if len(parts) > 4 and parts[2] == "resolve":
            return self.resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        return self.refuse(404, "")

    def allowed(self, repository, metadata):
        """As the hub: a gated model's listing is public; what is private is hidden."""
        had_token = self.headers.get("Authorization")
        good = had_token == f"Bearer {self.state.how.token}"
        if repository in self.state.how.private and not good:
            self.refuse(401, "RepoNotFound")
            return False
        if repository in self.state.how.gated and not good and not metadata:
            self.refuse(403 if had_token else 401, "GatedRepo")
            return False
        return True

    def revision(self, repository, name):
        if not os.path.isdir(os.path.join(self.state.how.folder, repository)):
            self.refuse(404 if self.headers.get("Authorization") else 401, "RepoNotFound")
            return None
        found = Revision(self.state, repository, name)
        if found.root is None:
            self.refuse(404, "RevisionNotFound")
            return None
        return found

    def api(self, parts):
        repository = "/".join(parts[:2])
        what = parts[2] if len(parts) > 2 else "revision"
        if not self.allowed(repository, metadata=True):
            return None
        found = self.revision(repository, parts[3] if len(parts) > 3 else "main")
        if found is None:
            return None
        files = []
        for name, (sha256, sha1, bytes_) in sorted(found.files.items()):
            lfs = {"sha256": sha256, "oid": sha256, "size": bytes_, "pointerSize": 130}
            entry = {"size": bytes_}
            entry.update(
                {"type": "file", "path": name, "oid": sha1}
                if what == "tree"
                else {"rfilename": name, "blobId": sha1}
            )
            if found.in_lfs(name, bytes_):
                entry["lfs"] = lfs
            files.append(entry)
        answer = files
        if what != "tree":
            answer = {
                "_id": "0" * 24,
                "id": repository,
                "modelId": repository,
                "private": False,
                "tags": [],
                "downloads": 0,
                "likes": 0,
                "sha": found.commit,
                "siblings": files,
            }
        return self.answer(
            200, json.dumps(answer).encode(), [("Content-Type", "application/json")]
        )

    def resolve(self, repository, revision, name):
        if not self.allowed(repository, metadata=False):
            return None
        found = self.revision(repository, revision)
        if found is None:
            return None
        if name not in found.files:
            return self.refuse(404, "EntryNotFound")
        sha256, sha1, bytes_ = found.files[name]
        fields = [("X-Repo-Commit", found.commit)]
        if not found.in_lfs(name, bytes_):
            fields.append(("ETag", f'"{sha1}"'))
            return self.send_file(os.path.join(found.root, name), bytes_, fields)
        path = os.path.relpath(os.path.join(found.root, name), self.state.how.folder)
        path = "/" + urllib.parse.quote(path)
        expires = int(time.time()) + SIGNATURE_SECONDS
        query = f"expires={expires}&signature={signature(path, expires)}"
        fields += [
            ("X-Linked-Etag", f'"{sha256}"'),
            ("X-Linked-Size", str(bytes_)),
            ("Location", f"{self.cdn}{path}?{query}"),
        ]
        return self.answer(302, b"", fields)


class Cdn(Request):
    def do_GET(self):
        self.state.note("cdn", self)
        asked = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(asked.query)
        expires = query.get("expires", ["0"])[0]
        if self.headers.get("Authorization"):
            return self.answer(400, b"only one way to authorise is allowed")
        if not hmac.compare_digest(
            signature(asked.path, expires), query.get("signature", [""])[0]
        ) or int(expires) < time.time():
            return self.answer(403, b"the signature is wrong")
        path = os.path.join(self.state.how.folder, urllib.parse.unquote(asked.path[1:]))
        sha256, _, bytes_ = self.state.digest(path)
        return self.send_file(path, bytes_, [("ETag", f'"{sha256}"')])


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder")
    arguments.add_argument("--token", default="hf_goodtoken")
    arguments.add_argument("--gated", action="append", default=[])
    arguments.add_argument("--private", action="append", default=[])
    arguments.add_argument("--fail-after", type=int)
    arguments.add_argument("--flip", type=int, help="gives another byte there, in every file")
    how = arguments.parse_args()
    state = State(how)
    servers = []
    for kind in (Cdn, Hub):
        handler = type(kind.__name__, (kind,), {"state": state})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        servers.append(server)
    # The second host has another name and another port.
    servers[1].RequestHandlerClass.cdn = f"http://localhost:{servers[0].server_address[1]}"
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"hub http://127.0.0.1:{servers[1].server_address[1]}", flush=True)
    sys.stdin.read()  # Ends when whoever started this does.


if __name__ == "__main__":
    main()
