# SPDX-License-Identifier: Apache-2.0
"""The stubs say what is there, and all of it."""

import ast
import pathlib

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
        assert stubbed | {"Group", "Model", "Selection", "Tensor"} == set(ringload.__all__)
    for node in definitions:
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


def test_public_names_are_documented():
    for name in ringload.__all__:
        assert getattr(ringload, name).__doc__, name
