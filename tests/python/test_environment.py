# SPDX-License-Identifier: Apache-2.0
"""Models by their names, and where settings of the network are from."""

import http.server
import os
import pathlib
import subprocess
import sys
import threading
import types

import numpy
import pytest
from conftest import write_safetensors

import ringload
from ringload import _core, _environment

needs_remote = pytest.mark.skipif(not _core.has_remote, reason="built without remote sources")
variables = (
    "HF_", "HUGGING", "TRANSFORMERS_OFFLINE", "AWS_", "SSL_CERT", "XDG_CACHE",
    "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
)  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """An environment without settings, and a home without files."""
    for name in list(os.environ):
        if name.startswith(variables) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setitem(sys.modules, "boto3", None)  # Not installed.
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A stand-in for the hub with owner/model and owner/gated, and its log of requests."""
    weight = numpy.arange(100_000, dtype=numpy.float32)
    for name in ("model", "gated"):
        folder = tmp_path / "models" / "owner" / name
        folder.mkdir(parents=True)
        write_safetensors(folder / "model.safetensors", {"weight": weight})
    program = pathlib.Path(__file__).parent.parent / "remote" / "hub_standin.py"
    command = [sys.executable, str(program), str(tmp_path / "models"), "--gated", "owner/gated"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.stdout.readline().split()[1])
        yield tmp_path / "models" / "requests.log"
        server.stdin.close()
        server.kill()


@needs_remote
def test_a_model_is_fetched_by_its_name_and_kept(hub, home):
    assert len(ringload.load("owner/model")["weight"]) == 100_000
    kept = list((home / ".cache/huggingface/hub/models--owner--model/snapshots").iterdir())
    assert [path.name for path in kept[0].iterdir()] == ["model.safetensors"]
    asked = hub.read_text()
    assert "cdn GET" in asked
    ringload.load("owner/model")
    assert hub.read_text() == asked  # Not even the hub was asked.
    with ringload.Loader(offline=True) as loader:
        assert loader.load("hf://owner/model").result()["weight"].nbytes == 400_000
    assert hub.read_text() == asked


@needs_remote
def test_offline_connects_to_nobody(hub, monkeypatch):
    for options in ({"offline": True}, {"remote": False}, {"remote": {"offline": True}}):
        with pytest.raises(FileNotFoundError):
            ringload.load("owner/model", **options)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(FileNotFoundError, match="owner/model"):
        ringload.load("owner/model")
    with pytest.raises(FileNotFoundError, match="offline"):
        ringload.load(os.environ["HF_ENDPOINT"] + "/x.safetensors")
    assert hub.read_text() == ""
    assert len(ringload.load("owner/model", offline=False)) == 1


@needs_remote
def test_the_token_is_from_the_environment_a_file_or_the_caller(hub, home, monkeypatch):
    def is_let_in(**settings):
        try:
            ringload.load("owner/gated", remote={"cache": "off", "tries_max": 1, **settings})
        except ConnectionError as refused:
            assert "gated" in str(refused)
            return False
        return True

    assert not is_let_in()
    assert is_let_in(token="hf_goodtoken")
    asked = []
    assert is_let_in(token=lambda: asked.append(1) or "hf_goodtoken")
    assert asked == [1]
    monkeypatch.setenv("HF_TOKEN", "hf_goodtoken")
    assert is_let_in()
    assert not is_let_in(token=False) and not is_let_in(anonymous=True)
    assert not is_let_in(token="hf_other")
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    assert not is_let_in()
    monkeypatch.delenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")
    monkeypatch.delenv("HF_TOKEN")
    folder = home / ".cache" / "huggingface"
    folder.mkdir(parents=True)
    (folder / "token").write_text("hf_goodtoken\n")
    assert is_let_in()
    monkeypatch.setenv("HF_HOME", str(home / "elsewhere"))
    assert not is_let_in()


@needs_remote
def test_a_local_file_needs_no_setting(sample, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "garbage://")
    monkeypatch.setenv("HF_ENDPOINT", "garbage")
    with ringload.Loader() as loader:
        assert len(loader.load(sample).result()) > 1
        with pytest.raises(ValueError, match="HF_ENDPOINT"):
            loader.load("owner/model")


class Recorder(http.server.BaseHTTPRequestHandler):
    """Answers any request for a file with that file, and records the requests."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_GET(self):
        self.server.requests.append((self.path, self.headers))
        content = self.server.content
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def recorder(sample):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        server.daemon_threads = True
        server.requests = []
        server.content = pathlib.Path(sample).read_bytes()
        server.address = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def keys_asked_for(recorder, **settings):
    """The access keys that requests were signed with, and the tokens that they had."""
    recorder.requests.clear()
    ringload.load("s3://bucket/x.safetensors", remote=settings or None)
    fields = [headers for _, headers in recorder.requests]
    credentials = {(one["Authorization"] or "").partition("Credential=")[2] for one in fields}
    return ({one.partition("/")[0] for one in credentials},
            {one["x-amz-security-token"] for one in fields})  # fmt: skip


@needs_remote
def test_keys_are_from_the_environment_files_boto3_or_the_caller(recorder, home, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", recorder.address)
    assert keys_asked_for(recorder) == ({""}, {None})
    assert recorder.requests[0][0] == "/bucket/x.safetensors"

    (home / ".aws").mkdir()
    (home / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = FILEKEY\naws_secret_access_key = s  # x\n"
        "[lab]\naws_access_key_id=LABKEY\naws_secret_access_key=s\naws_session_token=LABTOKEN\n"
    )
    assert keys_asked_for(recorder) == ({"FILEKEY"}, {None})
    assert keys_asked_for(recorder, aws_profile="lab") == ({"LABKEY"}, {"LABTOKEN"})

    class Session:
        region_name = "eu-west-7"

        def __init__(self, profile_name=None):
            self.profile = profile_name or "none"

        def get_credentials(self):
            return self

        def get_frozen_credentials(self):
            return types.SimpleNamespace(access_key=self.profile, secret_key="s", token="SSO")

    monkeypatch.setitem(sys.modules, "boto3", types.SimpleNamespace(Session=Session))
    assert keys_asked_for(recorder) == ({"none"}, {"SSO"})
    assert "/eu-west-7/s3/" in recorder.requests[0][1]["Authorization"]
    assert keys_asked_for(recorder, aws_profile="lab") == ({"lab"}, {"SSO"})
    assert keys_asked_for(recorder, boto3_session=Session("given")) == ({"given"}, {"SSO"})

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    assert keys_asked_for(recorder) == ({"ENVKEY"}, {None})
    given = {"access_key_id": "GIVEN", "secret_access_key": "s"}
    assert keys_asked_for(recorder, **given) == ({"GIVEN"}, {None})
    assert keys_asked_for(recorder, anonymous=True) == ({""}, {None})
    assert keys_asked_for(recorder, credentials=lambda: given) == ({"GIVEN"}, {None})


@needs_remote
def test_keys_that_are_not_found_are_an_error(recorder, home, monkeypatch):
    settings = {"s3_endpoint": recorder.address}
    address = "s3://bucket/x.safetensors"
    with pytest.raises(ringload.UsageError, match="aws_profile: .*'prdo'"):
        ringload.load(address, remote={**settings, "aws_profile": "prdo"})
    with pytest.raises(ringload.UsageError, match="credentials returned None"):
        ringload.load(address, remote={**settings, "credentials": lambda: None})

    class ProfileNotFound(Exception):
        pass

    def make_session(profile_name):
        raise ProfileNotFound(f"The config profile ({profile_name}) could not be found")

    monkeypatch.setitem(sys.modules, "boto3", types.SimpleNamespace(Session=make_session))
    (home / ".aws").mkdir()
    (home / ".aws/credentials").write_text("[prdo]\n")
    with pytest.raises(ringload.UsageError, match="aws_profile: .*prdo"):
        ringload.load(address, remote={**settings, "aws_profile": "prdo"})
    assert recorder.requests == []


@needs_remote
def test_credentials_are_asked_for_by_each_operation(recorder):
    keys = iter(["FIRST", "SECOND"])

    def credentials():
        return {"access_key_id": next(keys), "secret_access_key": "s"}

    settings = {"s3_endpoint": recorder.address, "credentials": credentials}
    with ringload.Loader(remote=settings) as loader:
        for key in ("FIRST", "SECOND"):
            recorder.requests.clear()
            loader.load("s3://bucket/x.safetensors").result()
            assert all(f"={key}/" in fields["Authorization"] for _, fields in recorder.requests)
        with pytest.raises(StopIteration):
            loader.load("s3://bucket/x.safetensors")
    with pytest.raises(TypeError, match="credentials"):
        ringload.Loader(remote={"credentials": "me"})
    for wrong in (lambda: 3, lambda: {"key": 1}):
        with pytest.raises((TypeError, ValueError), match="credentials"):
            ringload.load("s3://b/x.safetensors", remote={**settings, "credentials": wrong})


@needs_remote
def test_the_proxy_is_from_the_environment(recorder, monkeypatch):
    absent = "http://127.0.0.1:1/x.safetensors"
    monkeypatch.setenv("http_proxy", recorder.address)
    assert len(ringload.load(absent)) > 1
    assert {path for path, _ in recorder.requests} == {absent}
    recorder.requests.clear()
    for settings in ({"tries_max": 1}, {"tries_max": 1, "proxy": ""}):
        monkeypatch.setenv("NO_PROXY", "" if "proxy" in settings else "localhost, 127.0.0.0/8")
        with pytest.raises(ringload.Error):
            ringload.load(absent, remote=settings)
    assert recorder.requests == []
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(ValueError, match="http_proxy"):
        ringload.load(absent)


@needs_remote
def test_certificates_are_from_the_environment(recorder, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    for address in ("https://127.0.0.1:1/x.safetensors", "s3://bucket/x.safetensors"):
        with pytest.raises((ValueError, OSError), match="SSL_CERT_FILE"):
            ringload.load(address)
    assert ringload.load(recorder.address + "/x.safetensors", remote={"ca_file": ""})


@needs_remote
def test_plain_http_needs_no_certificates(recorder, tmp_path, monkeypatch):
    settings = {"s3_endpoint": recorder.address}
    for value in (tmp_path / "absent.pem", tmp_path):
        monkeypatch.setenv("SSL_CERT_FILE", str(value))
        assert ringload.load(recorder.address + "/x.safetensors")
        assert ringload.load("s3://bucket/x.safetensors", remote=settings)


@needs_remote
@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_folders_of_certificates_are_ignored(recorder, tmp_path, monkeypatch, variable):
    monkeypatch.setenv(variable, str(tmp_path))
    assert ringload.load(recorder.address + "/x.safetensors")
    with pytest.raises(ConnectionError):  # Not an error of the variable.
        ringload.load("https://127.0.0.1:1/x.safetensors", remote={"tries_max": 1})
    file = tmp_path / "absent.pem"
    monkeypatch.setenv(variable, str(file))
    assert _environment.certificate_file("https", "https://host") == (str(file), variable)


@pytest.mark.parametrize(
    ("host", "exempt", "is_in"),
    [
        ("example.com", "example.com", True),
        ("a.example.com", "example.com", True),
        ("a.example.com", ".example.com", True),
        ("a.example.com", "*.example.com", True),
        ("notexample.com", "example.com", False),
        ("example.com:443", "example.com:80", False),
        ("example.com:80", "x, example.com:80", True),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3:80", "10.0.0.0/8", False),
        ("[::1]:80", "::1", True),
        ("anything", "*", True),
        ("anything", "", False),
        ("anything", ",", False),
    ],
)
def test_hosts_without_a_proxy(host, exempt, is_in):
    assert _environment.is_exempt(host, exempt) == is_in


def test_the_profile_of_aws(home):
    (home / ".aws").mkdir()
    (home / ".aws/config").write_text(
        "[profile  lab ]\nregion = eu-north-1 # cold\nendpoint_url = http://127.0.0.1:9\n"
        "s3 =\n  addressing_style = virtual\n  other = 1\n[default]\nregion=here\n"
    )
    assert _environment.aws_file_settings("lab") == {
        "region": "eu-north-1",
        "endpoint": "http://127.0.0.1:9",
        "path_style": False,
    }
    assert _environment.aws_file_settings() == {"region": "here"}
    (home / ".aws/config").write_text("no section = 1\n")
    assert _environment.aws_file_settings() == {}
