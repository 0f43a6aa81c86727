# SPDX-License-Identifier: Apache-2.0
"""Plans, which define the part of each tensor for a rank."""

import fnmatch
import re
from typing import NamedTuple

from .._errors import usage


class Cut(NamedTuple):
    """A tensor is divided along `dim`. If it has several parts, each part is divided separately."""

    dim: int
    parts: int = 1


# The styles of transformers. Linear layers store weights as (output, input).
_replicated_styles = frozenset(
    "replicate replicated_with_grad_allreduce sequence_parallel all_reduce mla_kv_a_proj "
    "local local_params gather moe_tp_experts moe_identity_expert ep_router megamoe_router "
    "megamoe_experts moe_experts_allreduce activation activation_seq_dim_2 module_allgather "
    "module_allgather_hidden_states module_allgather_split".split()
)
_output_styles = frozenset(
    "colwise colwise_rep colwise_gather_output colwise_allgather colwise_loss_parallel "
    "local_colwise".split()
)
_input_styles = frozenset(
    "rowwise rowwise_rep rowwise_split_input rowwise_allreduce rowwise_reduce_scatter "
    "local_rowwise".split()
)
# The first dimension of an embedding is the vocabulary, and that of grouped_gemm is the expert.
_first_styles = frozenset(
    "embedding_rowwise vocab_allreduce vocab_reduce_scatter grouped_gemm".split()
)


def _cut_of_style(style, name, ndim):
    is_vector = ndim < 2
    if style in _replicated_styles:
        return None
    if style in _output_styles:
        return Cut(0 if is_vector else ndim - 2)
    if style in _input_styles:
        return None if name.rpartition(".")[2] == "bias" else Cut(ndim - 1)
    if style == "packed_colwise":
        return Cut(0) if is_vector else Cut(ndim - 2, 2)
    if style == "packed_rowwise":
        return None if is_vector else Cut(ndim - 1, 2)
    if style in _first_styles:
        return Cut(0)
    if style == "moe_tp_gate_up_colwise":
        return Cut(-2, 2)
    if style == "moe_tp_down_rowwise":
        return Cut(-1)
    if style == "embedding_colwise":
        return Cut(1)
    raise usage(
        f"plan: tensor '{name}': the style '{style}' is unknown; known are "
        + ", ".join(
            sorted({*_replicated_styles, *_output_styles, *_input_styles, *_first_styles})
        )
        + ", packed_colwise, packed_rowwise, embedding_colwise, moe_tp_gate_up_colwise, "
        "moe_tp_down_rowwise"
    )


def _cut_of_placement(placement, name):
    """Returns the cut of a placement of PyTorch's DTensor."""
    kind = type(placement).__name__
    if kind == "Replicate":
        return None
    if kind == "Shard":
        return Cut(placement.dim)
    if kind == "_StridedShard":
        return Cut(placement.dim, placement.split_factor)
    raise usage(f"plan: tensor '{name}': a placement must be Replicate or Shard, not {placement}")


def _cut_of(value, name, ndim):
    if value is None:
        return None
    if isinstance(value, str):
        return _cut_of_style(value, name, ndim)
    if isinstance(value, int) and not isinstance(value, bool):
        return Cut(value)
    if isinstance(value, (tuple, list)):
        if len(value) != 1:
            raise usage(
                f"plan: tensor '{name}': {len(value)} placements, expected one: pass the group of "
                "one dimension of the mesh, and the placement along it"
            )
        return _cut_of(value[0], name, ndim)
    if hasattr(value, "is_replicate"):
        return _cut_of_placement(value, name)
    raise TypeError(
        f"plan: tensor '{name}': a value must be a style, a dimension or a placement, not "
        f"{type(value).__name__}"
    )


def _generic(name):
    """Returns the name with `*` instead of numbers, like the keys of transformers' plans."""
    return re.sub(r"\.\d+(?=\.|$)", ".*", name)


class _Rules:
    """A dictionary that maps names and patterns to values."""

    def __init__(self, rules):
        self._rules = dict(rules)
        self._unused = {
            key for key, value in self._rules.items() if not isinstance(value, (str, type(None)))
        }

    def _key(self, name):
        generic = _generic(name)
        keys = [name, generic, name.rpartition(".")[0], generic.rpartition(".")[0]]
        found = next((key for key in keys if key and key in self._rules), None)
        if found is None:
            matches = (key for key in self._rules if fnmatch.fnmatchcase(name, key))
            found = next(matches, None)
        return found

    def has_rule(self, name):
        return self._key(name) is not None

    def value(self, name):
        found = self._key(name)
        if found is None:
            return None
        self._unused.discard(found)
        return self._rules[found]

    def check_used(self):
        """Raises an error for an unused pattern.

        A name may be unused, because a plan may list more layers.
        """
        if self._unused:
            raise usage(f"plan: no tensor matches '{sorted(self._unused)[0]}'")


def _checked(cut, info, ranks):
    if cut is None:
        return None
    shape = info.shape
    dim = cut.dim + len(shape) if cut.dim < 0 else cut.dim
    if not 0 <= dim < len(shape):
        raise usage(
            f"plan: tensor '{info.name}': there is no dimension {cut.dim} in the shape {shape}"
        )
    if cut.parts > 1 and shape[dim] % (cut.parts * ranks):
        raise usage(
            f"plan: tensor '{info.name}': dimension {dim} of size {shape[dim]} cannot be divided "
            f"into {cut.parts} parts for {ranks} ranks"
        )
    return Cut(dim, cut.parts)


def resolve(plan, infos, ranks):
    """Returns, by name, the Cut of each tensor, or None if every rank gets it whole."""
    rules = _Rules(plan) if hasattr(plan, "items") else None
    found = {}
    for info in infos:
        if rules is not None:
            value = rules.value(info.name)
        else:
            value = plan(info) if callable(plan) else plan
        found[info.name] = _checked(_cut_of(value, info.name, len(info.shape)), info, ranks)
    if rules is not None:
        rules.check_used()
    return found


def cuts_of_rules(plan, infos, unknown):
    """Like resolve(), for tensors as they were saved. A tensor without a rule gets `unknown`."""
    rules = _Rules(plan) if hasattr(plan, "items") else None
    found = {}
    for info in infos:
        if plan is None or (rules is not None and not rules.has_rule(info.name)):
            found[info.name] = unknown
            continue
        if rules is not None:
            value = rules.value(info.name)
        else:
            value = plan(info) if callable(plan) else plan
        found[info.name] = _cut_of(value, info.name, len(info.shape))
    if rules is not None:
        rules.check_used()
    return found


def ranges_of(cut, shape, rank, ranks):
    """Returns (first, count) along the dimension for each part, divided like torch.chunk()."""
    size = shape[cut.dim] // cut.parts
    each = -(-size // ranks)
    first = min(rank * each, size)
    count = min(each, size - first)
    return [(part * size + first, count) for part in range(cut.parts)]
