# SPDX-License-Identifier: Apache-2.0
"""The stubs say what is there, and all of it."""

import ast
import pathlib
import subprocess
import sys

import pytest

import ringload
from ringload import _core

package = pathlib.Path(ringload.__file__).parent


def public(names):
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize(("file", "module"), [("__init__.pyi", ringload), ("_core.pyi", _core)])
def test_stub_has_the_names_of_its_module_and_classes(file, module):
    tree = ast.parse((package / file).read_text())
    assert (package / "py.typed").exists()
    definitions = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    stubbed = {node.name for node in definitions}
    if module is ringload:
        from_core = {"Group", "KeptVersion", "Model", "Selection", "Tensor"}
        assert public(stubbed) | from_core == set(ringload.__all__)
    for node in definitions:
        if node.name.startswith("_"):
            continue
        assert hasattr(module, node.name), node.name
        if not isinstance(node, ast.ClassDef) or issubclass(getattr(module, node.name), Exception):
            continue
        inside = {part.name for part in node.body if hasattr(part, "name")}
        there = getattr(module, node.name)
        assert all(hasattr(there, name) or name == "__buffer__" for name in inside), node.name
        fields = {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)}
        own = public(vars(there)) - {"count", "index"}
        inherited = {"get", "items", "keys", "values"} if node.name == "Checkpoint" else set()
        assert own <= inside | fields | inherited, node.name


typed = """
import ringload
import ringload.torch
from ringload.options import LoaderOptions, LoadOptions, RemoteOptions, StartOptions

model = ringload.load("x", route="direct", progress=True)
found: ringload.Tensor | None = model.get("a")
other: ringload.Tensor | int = model.get("a", 3)
ringload.load("x", rout="direct")  # wrong
ringload.load("x", route="scenic")  # wrong
ringload.fill("x", {}, misssing="error")  # wrong
ringload.save("x", model, shard_byte=3)  # wrong
ringload.save("x", model, shard_bytes="3GB", metadata={"a": "b"})
needed: ringload.Tensor = model.get("a")  # wrong
ringload.open("x", independent_files=True)
with ringload.Loader(slot_bytes="4MiB") as loader:
    loader.stream("x", window="2GiB", allocation="per_tensor")
    loader.start("x", windw="2GiB")  # wrong
    loader.start("x", window="2GiB")  # wrong
    loader.load("x", memory="mapped", verify="require")
ringload.features()["remote"]
ringload.torch.load("x", process_group=None, plan={"a": "colwise"}, window="1GiB")
ringload.torch.load("x")  # wrong
ringload.torch.stream("x", process_group=None, transport="pigeon")  # wrong
for name, tensor in ringload.torch.stream("x", process_group=None, plan=0):
    print(name.upper(), tensor)
ringload.torch.load_shards("x", saved={"a": 0}, plan="colwise", rank=1, ranks=2, dtype="bf16")
ringload.torch.load_shards("x", save=0)  # wrong
remote: RemoteOptions = {"token": lambda: "x", "tries_max": 3, "chunk_bytes": "1MiB"}
options: LoadOptions = {"route": "buffered", "verify": "require"}
start_options: StartOptions = {"window": "1GiB"}  # wrong
limits: LoaderOptions = {"slots": 3, "engine": "ring"}
ringload.load("owner/model", remote=remote, offline=True, **options)
ringload.Loader(remote=remote, **limits)
ringload.load("x", remote={"tokn": "x"})  # wrong
newer: ringload.Model = model.apply("d.zt", check_unchanged=False)
ringload.update({}, "d.zt", check=False)  # wrong
bytes_changed: int = ringload.update({}, "d.zt").bytes_changed
ringload.save_delta("d.zt", "x", "y", zstd_level=3, window="1GiB")
ringload.save_delta("d.zt", "x", "y", window_bytes=3)  # wrong
ringload.load_into(3, "x")  # wrong

from ringload.compat import ztensor
from ringload.compat.safetensors import safe_open
from ringload.compat.safetensors.numpy import load_file, save_file

with safe_open("x", framework="np") as opened:
    names: list[str] = list(opened.keys())
save_file(load_file("x"), "y")
load_file(3)  # wrong

from ringload.compat.runai_model_streamer import SafetensorsStreamer, list_safetensors

paths: list[str] = list_safetensors("x")
with SafetensorsStreamer() as streamer:
    streamer.stream_files(paths, tensor_names=["a"])
    streamer.stream_files(paths, tensor_name=["a"])  # wrong
    described: int = streamer.files_to_tensors_metadata[0][0].get_bytesize()
    for name, tensor in streamer.get_tensors():
        name.upper()
list_safetensors(3)  # wrong
"""


def mypy(folder, *arguments):
    pytest.importorskip("mypy", reason="no mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache")]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


def test_options_are_typed(folder):
    (folder / "program.py").write_text(typed)
    told = mypy(folder, "program.py")
    wrong = {
        int(line.split(":")[1]) for line in told.stdout.splitlines() if "program.py:" in line
        and "error:" in line
    }
    lines = typed.splitlines()
    assert wrong == {n for n, line in enumerate(lines, 1) if "# wrong" in line}, told.stdout


def test_examples_are_typed(folder):
    absent = "".join(f"[mypy-{name}.*]\nignore_missing_imports = True\n" for name in
                     ("nixl", "nixl_cu12", "torch", "jax", "ray"))  # fmt: skip
    (folder / "mypy.ini").write_text("[mypy]\n" + absent)
    examples = sorted((pathlib.Path(__file__).parents[2] / "apps/python/examples").glob("*.py"))
    told = mypy(folder, "--config-file", "mypy.ini", *map(str, examples))
    assert told.returncode == 0, told.stdout


def keys_of(options):
    return set(options.__annotations__)


def test_the_page_and_the_library_know_each_option(sample, tmp_path):
    """Each key of a type is on the page. The library refuses keys by name, so it knows these."""
    from ringload import options

    page = (pathlib.Path(__file__).parents[2] / "apps/python/OPTIONS.md").read_text()
    kinds = (options.LoaderOptions, options.RemoteOptions, options.OpenOptions,
             options.LoadOptions, options.StartOptions, options.FillOptions,
             options.SaveFunctionOptions)  # fmt: skip
    for kind in kinds:
        for key in keys_of(kind):
            assert f"`{key}`" in page, f"{kind.__name__}: {key}"
    ringload.Loader(**dict.fromkeys(keys_of(options.LoaderOptions))).close()
    if _core.has_remote:
        ringload.Loader(remote=dict.fromkeys(keys_of(options.RemoteOptions))).close()
    ringload.open(sample, **dict.fromkeys(keys_of(options.OpenOptions))).close()
    model = ringload.load(sample, **dict.fromkeys(keys_of(options.LoadOptions)))
    ringload.fill(sample, {}, **dict.fromkeys(keys_of(options.FillOptions)))
    ringload.save(tmp_path / "x.safetensors", {"scalar": model["scalar"]},
                  **dict.fromkeys(keys_of(options.SaveFunctionOptions) - {"zstd_level"}))  # fmt: skip
    with pytest.raises(ValueError, match="no option colour"):
        ringload.load(sample, colour="red")


def test_public_names_are_documented():
    for name in ringload.__all__:
        assert getattr(ringload, name).__doc__, name
