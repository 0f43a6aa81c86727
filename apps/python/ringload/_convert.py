# SPDX-License-Identifier: Apache-2.0
"""Conversions between tensors of ringload, NumPy, PyTorch and JAX, without a copy."""

import sys
import warnings

from . import _core
from ._names import device_name, dtype_name

# A type that a library does not know by name is passed as an integer of the same width. Then the
# library views the integers as the type.
_torch_names = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64",
    "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "c64": "complex64", "c128": "complex128",
    "f8_e4m3": "float8_e4m3fn", "f8_e5m2": "float8_e5m2", "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e5m2fnuz": "float8_e5m2fnuz", "f8_e8m0": "float8_e8m0fnu", "f4": "float4_e2m1fn_x2",
}  # fmt: skip
_torch_takes = frozenset("f64 f32 f16 bf16 i64 i32 i16 i8 u8 c64 c128".split())

_numpy_names = {
    "f64": "float64", "f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
    "bool": "bool_", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
_ml_names = {
    "bf16": "bfloat16", "f8_e4m3": "float8_e4m3fn", "f8_e5m2": "float8_e5m2",
    "f8_e4m3fnuz": "float8_e4m3fnuz", "f8_e5m2fnuz": "float8_e5m2fnuz", "f8_e8m0": "float8_e8m0fnu",
}  # fmt: skip


# --- PyTorch


def indexed(device):
    """Returns the name of a device. "cuda" means PyTorch's current GPU, such as "cuda:1".

    Without PyTorch, or if PyTorch has no GPU, "cuda" is returned as it is.
    """
    name = device_name(device)
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if name != "cuda" or cuda is None or not cuda.is_available():
        return name
    return f"cuda:{cuda.current_device()}"


def is_torch(value):
    return hasattr(value, "detach") and hasattr(value, "element_size")


def current_streams(tensors):
    """Returns PyTorch's current stream of each GPU that has one of the tensors.

    The tensors are of PyTorch or of ringload. Other values are ignored.
    """
    # None if PyTorch is not imported, or is still being imported.
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return []
    devices = {
        str(tensor.device)
        for tensor in tensors
        if is_torch(tensor) or isinstance(tensor, _core.Tensor)
    }
    return [cuda.current_stream(name) for name in sorted(devices) if name.startswith("cuda:")]


def wait_for_pytorch(tensors):
    """Waits for the work that PyTorch has queued on the current streams of the tensors' GPUs.

    The library copies on its own streams, which do not wait for PyTorch's streams. The
    caller must call this function before the library reads or writes the tensors.
    """
    for stream in current_streams(tensors):
        stream.synchronize()


def torch_dtype(name):
    """Returns PyTorch's type of that name. Raises TypeError if this PyTorch lacks the type."""
    import torch

    found = getattr(torch, _torch_names.get(name, ""), None)
    if found is None:
        raise TypeError(f"PyTorch {torch.__version__} has no type for {name}: use .numpy()")
    return found


def storage_of(tensor):
    """Returns the storage that a tensor of PyTorch views. PyTorch 1 has no untyped_storage()."""
    return getattr(tensor, "untyped_storage", tensor.storage)()


_read_only_text = (
    "the tensor is read-only, and PyTorch has no read-only tensors: a write to the result ends the "
    'process with SIGSEGV. Load with access="copy_on_write", or write to a clone() of the result'
)


def torch_of(tensor):
    if tensor.read_only:
        warnings.warn(_read_only_text, UserWarning, stacklevel=2)
    return _torch_of(tensor)


def _torch_of(tensor):
    import torch

    name = tensor.dtype
    if name in _torch_takes:
        return torch.utils.dlpack.from_dlpack(tensor._capsule(False))
    if name in ("f6_e2m3", "f6_e3m2"):  # PyTorch has no such type, so the result has bytes.
        return torch.utils.dlpack.from_dlpack(tensor._capsule(True))
    meant = torch_dtype(name)
    return torch.utils.dlpack.from_dlpack(tensor._capsule(True)).view(meant)


def _all(model, convert):
    return {name: convert(tensor) for name, tensor in model.items()}


def torch_all(model):
    tensors = dict(model.items())
    if any(tensor.read_only for tensor in tensors.values()):
        warnings.warn(_read_only_text, UserWarning, stacklevel=2)
    return _all(tensors, _torch_of)


def _integers_of_width(torch, bytes_each):
    return {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[bytes_each]


def can_describe(tensor):
    """Returns True if the library has a name for the type of this PyTorch tensor."""
    name = dtype_name(tensor.dtype)
    return name in _torch_takes or (name in _torch_names and not _is_packed(tensor))


def _is_packed(tensor):
    """Returns True if each element of this PyTorch tensor has two values of f4."""
    import torch

    return tensor.dtype == getattr(torch, "float4_e2m1fn_x2", None)


def _packed_f4(tensor):
    """Describes a PyTorch tensor of float4_e2m1fn_x2, with two values of f4 in each byte."""
    import torch

    if tensor.ndim == 0:
        raise TypeError(f"a tensor of {tensor.dtype} without dimensions has no shape of f4")
    pairs = tensor.detach().view(torch.uint8).cpu().contiguous()
    shape = (*pairs.shape[:-1], 2 * pairs.shape[-1])
    return (pairs.data_ptr(), "f4", shape, (), False, pairs), None


def _from_torch(tensor):
    import torch

    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        raise TypeError(f"a tensor of layout {tensor.layout} is not dense")
    if tensor.is_conj():
        tensor = tensor.resolve_conj()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    name = dtype_name(tensor.dtype)
    if name in _torch_takes:
        return _capsule_of_torch(tensor), None
    if not can_describe(tensor):
        raise TypeError(f"tensors of {tensor.dtype} cannot be described")
    as_integers = tensor.view(_integers_of_width(torch, tensor.element_size()))
    return _capsule_of_torch(as_integers), name


def _capsule_of_torch(tensor):
    """Returns the capsule of a PyTorch tensor. The caller must wait for PyTorch's stream."""
    if tensor.device.type != "cuda":
        return tensor.__dlpack__()
    import torch

    with torch.cuda.device(tensor.device):  # PyTorch refuses tensors on another GPU.
        return tensor.__dlpack__()


# --- NumPy


def numpy_dtype(name):
    """Returns NumPy's type of that name, from the package ml_dtypes if NumPy lacks the type."""
    import numpy

    if name in _numpy_names:
        return numpy.dtype(getattr(numpy, _numpy_names[name]))
    if name not in _ml_names:
        return None
    try:
        import ml_dtypes
    except ImportError as missing:
        raise TypeError(
            f"NumPy needs the package ml_dtypes for {name}, and it is not installed"
        ) from missing
    return numpy.dtype(getattr(ml_dtypes, _ml_names[name]))


def is_of_ml_dtypes(name):
    """Returns True if only the package ml_dtypes has a NumPy type of that name."""
    return name in _ml_names


def numpy_of(tensor):
    import numpy

    dtype = numpy_dtype(tensor.dtype)
    shape = tensor.shape
    if dtype is None:  # The type is narrower than a byte, so the result has bytes.
        dtype = numpy.dtype(numpy.uint8)
        shape = (tensor.nbytes,)
        if tensor.dtype == "f4" and tensor.ndim and tensor.shape[-1] % 2 == 0:
            shape = (*tensor.shape[:-1], tensor.shape[-1] // 2)
    if tensor.nbytes == 0:
        return numpy.empty(shape, dtype)
    return numpy.frombuffer(tensor.byte_view(), dtype=dtype).reshape(shape)


def array_of(tensor, dtype=None, copy=None):
    """Implements Tensor.__array__, which NumPy 1 and 2 call."""
    import numpy

    if numpy_dtype(tensor.dtype) is None:
        raise TypeError(
            f"NumPy has no type for {tensor.dtype}, which is narrower than a byte: "
            ".numpy() returns the bytes"
        )
    array = numpy_of(tensor)
    if dtype is not None and numpy.dtype(dtype) != array.dtype:
        if copy is False:
            raise ValueError(
                f"a tensor of {tensor.dtype} can become an array of {dtype} only by a copy"
            )
        return array.astype(dtype)
    return array.copy() if copy else array


def list_of(tensor):
    return array_of(tensor).tolist()


def item_of(tensor):
    return array_of(tensor).item()


def truth_of(tensor):
    return bool(array_of(tensor))


def numpy_all(model):
    return _all(model, numpy_of)


def _from_numpy(array):
    import numpy

    name = dtype_name(array.dtype.name)
    if numpy_dtype_or_none(name) is None:
        raise TypeError(f"arrays of {array.dtype} cannot be described")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    width = array.itemsize
    if any(stride % width for stride in array.strides):
        array = numpy.ascontiguousarray(array)
    strides = tuple(stride // width for stride in array.strides)
    address = array.__array_interface__["data"][0]
    return (address, name, array.shape, strides, array.flags.writeable, array), None


def numpy_dtype_or_none(name):
    try:
        return numpy_dtype(name)
    except TypeError:
        return None


# --- JAX


def jax_of(tensor):
    import jax

    array = jax.dlpack.from_dlpack(tensor)
    stored = numpy_dtype_or_none(tensor.dtype)
    if stored is not None and array.dtype != stored:
        _check_same_values(tensor, array)
    return array


def _check_same_values(tensor, array):
    """Raises an error if JAX narrowed a 64-bit type. JAX does so without a message by default."""
    import numpy

    if not numpy.array_equal(numpy.asarray(array), numpy_of(tensor), equal_nan=True):
        raise TypeError(
            f"JAX would convert {tensor.dtype} to {array.dtype}, which changes values: set "
            "jax_enable_x64, or use .numpy()"
        )


def jax_all(model):
    return _all(model, jax_of)


# --- From any of them


def exported(value):
    """Describes a tensor of any library for a save: (description, its type or None).

    The description may be of a copy. The caller must call wait_for_pytorch() before the save.
    _destinations describes memory that is written to.
    """
    if isinstance(value, _core.Tensor):
        return value, None
    module = type(value).__module__.partition(".")[0]
    if is_torch(value):
        return _packed_f4(value) if _is_packed(value) else _from_torch(value)
    if module == "numpy" or hasattr(value, "__array_interface__"):
        import numpy

        if numpy.ma.is_masked(value):
            raise TypeError(
                "the array has masked elements, which a file cannot hold: take .filled() or .data"
            )
        return _from_numpy(numpy.asarray(value))
    if hasattr(value, "__dlpack__"):
        return value.__dlpack__(), None
    raise TypeError(f"{type(value).__name__} is not a tensor: it has no __dlpack__")


def exported_all(tensors):
    """Describes tensors by name for a save, and waits until PyTorch has written them."""
    pairs = list(items_of(tensors))
    described = []
    for name, value in pairs:
        try:
            described.append((name, *exported(value)))
        except TypeError as failure:
            raise TypeError(f"tensor '{name}': {failure}") from failure
        except BufferError as failure:
            raise BufferError(f"tensor '{name}': {failure}") from failure
    wait_for_pytorch([value for _, value in pairs])
    return described


def items_of(tensors):
    """Returns the pairs of a mapping of names to tensors."""
    if not hasattr(tensors, "items"):
        raise TypeError(
            f"tensors must be a mapping of names to tensors, not {type(tensors).__name__}"
        )
    return tensors.items()
