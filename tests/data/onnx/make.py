#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the ONNX models of this folder by the package onnx (1.23), and what tests expect of them.

    pip install onnx==1.23.2 numpy ml_dtypes && ./make.py [FOLDER]
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from listing import Listing

folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(13)
NAMES = {T.FLOAT: "F32", T.UINT8: "U8", T.INT8: "I8", T.UINT16: "U16", T.INT16: "I16", T.INT32: "I32",
         T.INT64: "I64", T.BOOL: "BOOL", T.FLOAT16: "F16", T.DOUBLE: "F64", T.UINT32: "U32",
         T.UINT64: "U64", T.COMPLEX64: "C64", T.COMPLEX128: "C128", T.BFLOAT16: "BF16",
         T.FLOAT8E4M3FN: "F8_E4M3", T.FLOAT8E4M3FNUZ: "F8_E4M3FNUZ", T.FLOAT8E5M2: "F8_E5M2",
         T.FLOAT8E5M2FNUZ: "F8_E5M2FNUZ", T.FLOAT8E8M0: "F8_E8M0"}
PACKED = {T.UINT4: ("u4", 2), T.INT4: ("i4", 2), T.FLOAT4E2M1: ("f4_e2m1", 2),
          T.UINT2: ("u2", 4), T.INT2: ("i2", 4)}
SIXES = {T.FLOAT6E2M3: "f6_e2m3", T.FLOAT6E3M2: "f6_e3m2"}


def expect(listing, name, tensor):
    shape = tuple(tensor.dims)
    if tensor.data_type in PACKED:
        word, each = PACKED[tensor.data_type]
        values = numpy_helper.to_array(tensor).view(np.uint8).ravel() & (2 ** (8 // each) - 1)
        values = np.concatenate([values, np.zeros(-len(values) % each, np.uint8)]).reshape(-1, each)
        data = sum(values[:, i].astype(np.uint8) << (8 // each * i) for i in range(each)).astype(np.uint8)
        listing.add(name, "U8", data.shape, data.tobytes(), word, shape)
    elif tensor.data_type in SIXES:
        values = numpy_helper.to_array(tensor).view(np.uint8).ravel()
        bits = np.unpackbits(values[:, None], axis=1, count=6, bitorder="little")
        data = np.packbits(bits.ravel(), bitorder="little")
        listing.add(name, "U8", data.shape, data.tobytes(), SIXES[tensor.data_type], shape)
    else:
        values = numpy_helper.to_array(tensor)
        listing.add(name, NAMES[tensor.data_type], shape, values.tobytes())


def values_of(type, count):
    if type in (T.BOOL,):
        return random.integers(0, 2, count).astype(bool)
    if type in (T.INT8, T.INT16, T.INT32, T.INT64):
        return random.integers(-100, 100, count)
    if type in (T.COMPLEX64, T.COMPLEX128):
        return random.normal(size=count) + 1j * random.normal(size=count)
    if type == T.INT4:
        return random.integers(-8, 8, count)
    if type == T.INT2:
        return random.integers(-2, 2, count)
    if type == T.UINT2:
        return random.integers(0, 4, count)
    if type == T.UINT4:
        return random.integers(0, 16, count)
    if type == T.FLOAT8E8M0:
        return 2.0 ** random.integers(-3, 4, count)
    if type in (T.UINT8, T.UINT16, T.UINT32, T.UINT64):
        return random.integers(0, 200, count)
    return random.normal(size=count)


def model(graph, **more):
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], **more)
    onnx.helper.set_model_props(made, {"author": "test", "kind": "all"})
    return made


def write(name, made, listing):
    with open(os.path.join(folder, name), "wb") as out:
        out.write(made.SerializeToString())
    listing.write()


def typed_and_raw():
    listing = Listing(os.path.join(folder, "types.onnx"))
    initializers = []
    for type in list(NAMES) + list(PACKED) + list(SIXES):
        word = T.DataType.Name(type).lower()
        shape = (3, 5) if type in PACKED or type in SIXES else (2, 3)
        typed = helper.make_tensor(f"{word}.typed", type, shape, values_of(type, int(np.prod(shape))))
        initializers.append(typed)
        raw = onnx.TensorProto()
        raw.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(typed), f"{word}.raw"))
        raw.data_type = type
        initializers.append(raw)
        for each in (typed, raw):
            expect(listing, each.name, each)
    for name, shape in (("scalar", ()), ("empty", (0, 3))):
        each = helper.make_tensor(name, T.FLOAT, shape, values_of(T.FLOAT, int(np.prod(shape))))
        expect(listing, name, each)
        initializers.append(each)
    initializers.append(helper.make_tensor("words", T.STRING, (2,), ["a", "b"]))
    graph = helper.make_graph([], "types", [], [], initializer=initializers)
    write("types.onnx", model(graph), listing)


def nested():
    listing = Listing(os.path.join(folder, "nested.onnx"))

    def constant(output, values, name="", **kind):
        tensor = numpy_helper.from_array(np.array(values, np.float32), name)
        return tensor, helper.make_node("Constant", [], [output], name="Const_" + output, value=tensor)

    def branch(name, start):
        tensor, node = constant("c", [start, 1])
        weight = numpy_helper.from_array(np.arange(start, start + 3, dtype=np.int64), "w")
        inner = helper.make_graph([node], name, [], [helper.make_tensor_value_info("c", T.FLOAT, [2])],
                                  initializer=[weight])
        listing_of = {"c": tensor, "w": weight}
        return inner, listing_of

    then_branch, then_tensors = branch("then", 3)
    else_branch, else_tensors = branch("else", 5)
    choice = helper.make_node("If", ["cond"], ["chosen"], name="choice", then_branch=then_branch,
                              else_branch=else_branch)
    unnamed, first = constant("plain_output", [1, 2, 3])
    named, second = constant("other_output", [4], "value")
    again, third = constant("third_output", [5], "value")
    fill = helper.make_tensor("", T.FLOAT, [1], [7.0])
    shaped = helper.make_node("ConstantOfShape", ["n"], ["filled"], value=fill)
    values = helper.make_tensor("sparse", T.FLOAT, [2], [1.5, 2.5])
    indices = helper.make_tensor("", T.INT64, [2, 2], [0, 1, 2, 3])
    sparse = helper.make_sparse_tensor(values, indices, [3, 4])
    body_tensor, body = constant("inner", [9])
    function = helper.make_function("local", "Helper", [], ["inner"], [body], [helper.make_opsetid("", 21)])
    graph = helper.make_graph([first, second, third, choice, shaped], "nested", [], [],
                              initializer=[helper.make_tensor("main", T.INT64, [2], [2**40, -1])],
                              sparse_initializer=[sparse])
    expected = {"plain_output": unnamed, "value": named, "third_output": again, "filled/value": fill,
                "sparse/values": values, "sparse/indices": indices, "main": graph.initializer[0],
                "local.Helper/inner": body_tensor}
    for name, tensors in (("then_branch", then_tensors), ("else_branch", else_tensors)):
        for key, tensor in tensors.items():
            expected[f"chosen/{name}/{key}"] = tensor
    for name, tensor in expected.items():
        expect(listing, name, tensor)
    write("nested.onnx", model(graph, functions=[function]), listing)


def external():
    path = os.path.join(folder, "external.onnx")
    listing = Listing(path)
    tensors = [numpy_helper.from_array(random.normal(size=(4, 8)).astype(np.float32), "a"),
               numpy_helper.from_array(random.integers(0, 9, (3,)).astype(np.int64), "b")]
    for each in tensors:
        expect(listing, each.name, each)
    graph = helper.make_graph([], "external", [], [], initializer=tensors)
    data = os.path.join(folder, "external.onnx.data")
    if os.path.exists(data):
        os.remove(data)
    onnx.save_model(model(graph), path, save_as_external_data=True, all_tensors_to_one_file=True,
                    location="external.onnx.data", size_threshold=0)
    listing.write()


typed_and_raw()
nested()
external()
