# SPDX-License-Identifier: Apache-2.0
"""Loads folders in which each rank saved a part of each tensor, into another layout.

    saved       |  rank 0  |  rank 1  |  rank 2  |  rank 3  |     pieces of a tensor, each a box
    wanted      |      rank 0       |       rank 1       |        another box, or several
"""

import json
import os
import re
from typing import NamedTuple

import torch

from .._convert import indexed, torch_dtype
from .._core import Selection
from .._errors import make, usage
from .._loader import Loader
from .._options import load_options
from ._buckets import conversion_of, floats
from ._memory import empty
from ._plan import Cut, cuts_of_rules, ranges_of, resolve
from ._stream import _predicate, _remote

# A file's name contains its rank: model-rank-3-part-0 (vLLM), model_rank_3, mp_rank_03, tp_rank_03
# and
# rank3. A pipeline stage may stand before: pp_rank_1, pp-rank-1.
_rank_of_name = re.compile(r"(?:^|[^a-z])(?:tp|mp|model|shard)?[-_]?(?:tp|mp)?[-_]?rank[-_]?(\d+)")
_stage_of_name = re.compile(r"(?:^|[^a-z])(?:pp|pipeline)[-_]?(?:rank|stage)?[-_]?(\d+)[-_./]?")
_offsets_key = "DCP_SHARDING_INFO"  # In the metadata of PyTorch's HuggingFaceStorageWriter.
_unknown = object()


class Piece(NamedTuple):
    """A box of a tensor that one file contains, in a tensor of the shape `stored`."""

    file: int
    rank: int
    shape: tuple
    stored: tuple
    offsets: tuple = None  # The position in the whole tensor. None until the layout is known.
    within: tuple = None  # The position in the tensor of the file. None means all of that tensor.


class _Whole:
    """A tensor of the folder: its type, its shape, and its pieces."""

    def __init__(self, name, dtype, shape, pieces):
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.pieces = pieces


def load_shards(
    folder, *, saved=None, plan=None, rank=0, ranks=1, select=None, dtype=None, device="cpu",
    remote=None, offline=None, **options,
):  # fmt: skip
    """Loads this rank's part of a folder in which each rank saved its own files.

    Returns a dictionary of names to tensors. No process group is needed, because each rank reads
    its parts from all files that contain them. A rank needs memory only for its parts, not for
    whole tensors.

    folder: contains safetensors files whose names have the rank, such as model-rank-0-part-1
        (vLLM's sharded_state), model_rank_0 or mp_rank_00; or files of PyTorch's
        HuggingFaceStorageWriter, which contain the position of each piece.
    saved: the plan by which the saving ranks divided each tensor, see load(). It is needed for each
        tensor that several ranks have in one shape, because their files do not tell if it was
        divided, or along which dimension. None for a tensor means that each rank has the whole
        tensor.
    plan, rank, ranks: define the part of this rank, see load(). The default is the whole tensors.
    device: "cpu" (default) or a GPU. "cuda" means the current GPU of PyTorch.
    select, dtype: see load(). options: route and strictness, see ringload.load().

    An ambiguous division, a rank without a file, and pieces that overlap or leave gaps are errors.
    They name the tensor or the file, and occur before the first read of a tensor.
    """
    unknown = set(options) - {"route", "strictness"}
    if unknown:
        raise usage(f"unknown option {sorted(unknown)[0]}")
    if not 0 <= rank < ranks:
        raise usage(f"rank: {rank} is not one of {ranks} ranks")
    folder = os.fspath(folder)
    paths = _files_of(folder)
    options = load_options(options)
    dtype = conversion_of(dtype)
    device = indexed(device)
    with Loader(device, remote=_remote(remote), offline=offline, hdf5=False) as loader:
        opening = [loader.open(path, strictness=options.get("strictness")) for path in paths]
        checkpoints = [operation.result() for operation in opening]
        found = _tensors_of(folder, paths, checkpoints, saved)
        is_wanted = _predicate(select)
        found = [tensor for tensor in found if is_wanted(tensor)]
        if select is not None and not found:
            raise usage("select: no tensor matches")
        cuts = resolve(plan, found, ranks)
        into, reads = {}, _Reads(checkpoints)
        for tensor in found:
            into[tensor.name] = _destination(tensor, cuts[tensor.name], rank, ranks, dtype, device)
            _plan_reads(reads, tensor, into[tensor.name], cuts[tensor.name], rank, ranks)
        reads.run(loader, options.get("route"))
    return into


def _files_of(folder):
    if not os.path.isdir(folder):
        raise make("source_not_found", 0, f"{folder}: expected a folder of this machine", folder)
    found = []
    for parent, _, names in os.walk(folder):
        found.extend(os.path.join(parent, name) for name in names if name.endswith(".safetensors"))
    if not found:
        raise make("not_a_checkpoint", 0, f"{folder}: there is no safetensors file", folder)
    return sorted(found)


# --- The content of the files


def _tensors_of(folder, paths, checkpoints, saved):
    infos = [{info.name: info for info in checkpoint.infos()} for checkpoint in checkpoints]
    noted = [checkpoint.metadata.get(_offsets_key) for checkpoint in checkpoints]
    if any(noted):
        if saved is not None:
            raise usage(f"{folder}: the files say where each piece lies: `saved` must be left out")
        pieces = _pieces_with_offsets(paths, infos, noted)
    else:
        pieces = _pieces_by_rank(folder, paths, infos, saved)
    found = []
    for name, parts in pieces.items():
        first = infos[parts[0].file][name]
        for part in parts:
            other = infos[part.file][name]
            if other.dtype != first.dtype or len(other.shape) != len(first.shape):
                raise _mismatch(paths[part.file], name, f"{other.dtype} {other.shape}",
                                f"{first.dtype} {first.shape}", paths[parts[0].file])  # fmt: skip
        ends = zip(*(_ends(part) for part in parts))
        whole = _Whole(name, first.dtype, tuple(max(end) for end in ends), parts)
        _check_tiling(folder, whole)
        found.append(whole)
    return found


def _ends(part):
    return [offset + size for offset, size in zip(part.offsets, part.shape)]


def _mismatch(path, name, found, expected, other):
    text = f"{path}: tensor '{name}': is {found}, expected {expected} as in {other}"
    return make("not_a_checkpoint", 0, text, path)


def _pieces_with_offsets(paths, infos, noted):
    found = {}
    for file, (by_name, text) in enumerate(zip(infos, noted)):
        try:
            layout = json.loads(text or "{}")
            for name, info in by_name.items():
                offsets = layout.get(name, {}).get("saved_offsets", [0] * len(info.shape))
                offsets = tuple(int(offset) for offset in offsets)
                if len(offsets) != len(info.shape) or any(offset < 0 for offset in offsets):
                    raise ValueError(f"tensor '{name}' {info.shape} has the offsets {offsets}")
                piece = Piece(file, file, info.shape, info.shape, offsets)
                found.setdefault(name, []).append(piece)
        except (AttributeError, TypeError, ValueError) as failure:
            text = f"{paths[file]}: {_offsets_key}: {failure}"
            raise make("malformed_header", 0, text, paths[file]) from None
    return found


def _pieces_by_rank(folder, paths, infos, saved):
    places = [_place_of(folder, path) for path in paths]
    stages = {}
    for stage, rank in places:
        stages.setdefault(stage, set()).add(rank)
    counts = {stage: max(held) + 1 for stage, held in stages.items()}
    for stage, held in stages.items():
        missing = sorted(set(range(max(counts.values()))) - held)
        if missing:
            where = "" if stage is None else f" of pipeline stage {stage}"
            text = f"{folder}: rank {missing[0]}{where} has no file"
            raise make("not_a_checkpoint", 0, text, folder)
    held = {}
    for file, (by_name, (stage, rank)) in enumerate(zip(infos, places)):
        for name, info in by_name.items():
            held.setdefault(name, []).append((stage, Piece(file, rank, info.shape, info.shape)))
    rules = cuts_of_rules(saved, [_Named(name, parts) for name, parts in held.items()], _unknown)
    found = {}
    for name, parts in sorted(held.items()):
        if len({stage for stage, _ in parts}) > 1:
            raise _refusal(folder, name, "several pipeline stages have it")
        parts = sorted((part for _, part in parts), key=lambda part: part.rank)
        twice = [b for a, b in zip(parts, parts[1:]) if a.rank == b.rank]
        if twice:
            raise _refusal(folder, name, f"two files of rank {twice[0].rank} have it")
        found[name] = _placed(folder, name, parts, rules[name], max(counts.values()))
    return found


class _Named(NamedTuple):
    """The argument of a plan function: a tensor as it was saved."""

    name: str
    parts: list

    @property
    def shape(self):
        return self.parts[0][1].shape


def _place_of(folder, path):
    """Returns (pipeline stage or None, rank) of the path of a file."""
    name = os.path.relpath(path, folder).lower()
    stage = _stage_of_name.search(name)
    rest = name if stage is None else name[: stage.start()] + "/" + name[stage.end() :]
    ranks = {int(number) for number in _rank_of_name.findall(rest)}
    if len(ranks) != 1:
        said = "no rank" if not ranks else f"the ranks {sorted(ranks)}"
        text = (
            f"{path}: the name says {said}, expected one, as in model-rank-0-part-0.safetensors, "
            "model_rank_0.safetensors or mp_rank_00"
        )
        raise make("not_a_checkpoint", 0, text, path)
    return (None if stage is None else int(stage.group(1))), ranks.pop()


def _refusal(folder, name, reason):
    return make("not_a_checkpoint", 0, f"{folder}: tensor '{name}': {reason}", folder)


def _placed(folder, name, parts, cut, ranks):
    """Returns the pieces with their positions in the whole tensor."""
    shapes = {part.shape for part in parts}
    if cut is _unknown:
        cut = _decided(folder, name, parts, ranks)
    if cut is None:
        if len(shapes) > 1:
            raise _refusal(folder, name, f"ranks have it whole, in the shapes {sorted(shapes)}")
        return [parts[0]._replace(offsets=(0,) * len(parts[0].shape))]
    if len(parts) != ranks:
        raise _refusal(folder, name, f"{len(parts)} of {ranks} ranks have a part of it")
    dim = cut.dim + len(parts[0].shape) if cut.dim < 0 else cut.dim
    if not 0 <= dim < len(parts[0].shape):
        raise usage(f"saved: tensor '{name}' of shape {parts[0].shape} has no dimension {cut.dim}")
    if cut.parts > 1:
        return _packed(folder, name, parts, Cut(dim, cut.parts))
    found, position = [], 0
    for part in parts:
        offsets = [0] * len(part.shape)
        offsets[dim] = position
        position += part.shape[dim]
        found.append(part._replace(offsets=tuple(offsets)))
    return found


def _decided(folder, name, parts, ranks):
    """Returns the division of a tensor, if the files allow only one."""
    if len(parts) == 1:
        return None
    shapes = [part.shape for part in parts]
    dims = [dim for dim in range(len(shapes[0])) if len({shape[dim] for shape in shapes}) > 1]
    if len(parts) == ranks and len({len(shape) for shape in shapes}) == 1 and len(dims) == 1:
        return Cut(dims[0])
    raise _refusal(
        folder, name,
        f"{len(parts)} ranks have it in the shape {shapes[0]}, and the files do not say whether it "
        f"was divided, and along which dimension: pass saved={{'{name}': dimension or None}}",
    )  # fmt: skip


def _packed(folder, name, parts, cut):
    """Returns the pieces of a tensor whose ranks each have a share of several parts."""
    shape = list(parts[0].shape)
    if len({part.shape for part in parts}) > 1 or shape[cut.dim] % cut.parts:
        raise _refusal(folder, name, f"the shapes do not divide into {cut.parts} parts")
    shape[cut.dim] //= cut.parts
    found = []
    for number, part in enumerate(parts):
        for packed in range(cut.parts):
            offsets, within = [0] * len(shape), [0] * len(shape)
            within[cut.dim] = packed * shape[cut.dim]
            offsets[cut.dim] = (packed * len(parts) + number) * shape[cut.dim]
            found.append(
                part._replace(shape=tuple(shape), offsets=tuple(offsets), within=tuple(within))
            )
    return found


def _check_tiling(folder, whole):
    """Raises an error if pieces overlap or do not cover the tensor."""
    covered = sum(_count(piece.shape) for piece in whole.pieces)
    solid = [piece for piece in whole.pieces if _count(piece.shape)]
    for number, piece in enumerate(solid):
        for other in solid[:number]:
            if _intersection(piece, other.offsets, _ends(other)) is not None:
                raise _refusal(folder, whole.name, "two of its pieces overlap")
    if covered != _count(whole.shape):
        raise _refusal(
            folder, whole.name,
            f"its pieces have {covered} elements of {_count(whole.shape)}: a piece is missing",
        )  # fmt: skip


def _count(shape):
    count = 1
    for size in shape:
        count *= size
    return count


# --- Reads


def _intersection(piece, first, end):
    """Returns the box (first, end) that a piece and [first, end) share, or None."""
    low = [max(a, b) for a, b in zip(piece.offsets, first)]
    high = [min(a, b) for a, b in zip(_ends(piece), end)]
    return None if any(a >= b for a, b in zip(low, high)) else (low, high)


def _destination(tensor, cut, rank, ranks, dtype, device):
    shape = list(tensor.shape)
    if cut is not None:
        shape[cut.dim] = sum(count for _, count in ranges_of(cut, tensor.shape, rank, ranks))
    stored = torch_dtype(tensor.dtype)
    is_converted = dtype is not None and tensor.dtype in floats
    wanted = torch_dtype(dtype) if is_converted else stored
    return empty(shape, wanted, device)


def _plan_reads(reads, tensor, into, cut, rank, ranks):
    """Plans the reads of a destination: one for each intersection of its boxes and a piece."""
    ndim = len(tensor.shape)
    ranges = [(0, None)] if cut is None else ranges_of(cut, tensor.shape, rank, ranks)
    position = 0
    for start, count in ranges:
        first, end = [0] * ndim, list(tensor.shape)
        if cut is not None:
            first[cut.dim], end[cut.dim] = start, start + count
        for piece in tensor.pieces:
            common = _intersection(piece, first, end)
            if common is None:
                continue
            low, high = common
            view = into
            for dim in range(ndim):
                shift = position if cut is not None and dim == cut.dim else 0
                view = view.narrow(dim, low[dim] - first[dim] + shift, high[dim] - low[dim])
            within = piece.within or (0,) * ndim
            box = [(a - b + w, c - a) for a, b, w, c in zip(low, piece.offsets, within, high)]
            reads.add(piece, tensor.name, box, view)
        position += 0 if count is None else count


class _Reads:
    """Reads by file.

    A fill reads a tensor only once, so more boxes of it are read in another round.
    """

    def __init__(self, checkpoints):
        self._checkpoints = checkpoints
        self._rounds = {}  # For each file, a list of dictionaries of names to (box, view).

    def add(self, piece, name, box, view):
        rounds = self._rounds.setdefault(piece.file, [])
        place = next((names for names in rounds if name not in names), None)
        if place is None:
            place = {}
            rounds.append(place)
        place[name] = (box, view, piece.stored)

    def run(self, loader, route):
        running = []
        try:
            for file, rounds in self._rounds.items():
                for one in rounds:
                    running.append(self._fill(loader, file, one, route))
            for operation in running:
                operation.result()
        finally:
            for operation in running:
                operation.cancel()
                operation.exception()

    def _fill(self, loader, file, reads, route):
        selection = Selection().names(list(reads))
        for name, (box, _, shape) in reads.items():
            for dim, (first, count) in enumerate(box):
                if count != shape[dim]:
                    selection.slice(name, dim, first, count)
        into = {name: view for name, (_, view, _) in reads.items()}
        return loader.fill(
            self._checkpoints[file], into, select=selection, dtype="convert", route=route
        )
