// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts tensors of PyTorch's pickles to catalog entries. A tensor begins at an offset of a
// storage and has a stride for each dimension. All its elements must be inside the storage.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/pytorch/pickle.hpp"

namespace ringload::inline v0 {

// A storage, and its key in the pickle.
struct torch_storage {
  std::string_view key;
  stored_stream stream;
};

struct torch_storages {
  std::vector<torch_storage> storages;  // Sorted by key.
  bool big_endian = false;

  const torch_storage* find(std::string_view key) const noexcept;
};

// A persistent value of a pickle: ("storage", class, key, location, elements[, view]).
struct torch_identity {
  std::string_view key;
  std::uint8_t element_bytes = 1;
  std::uint64_t elements = 0;
  pickle_global type;
  // Offset of a view of the storage, in elements. Only PyTorch before 0.4 writes views.
  std::uint64_t view_offset = 0;
};
result<torch_identity> identity_of(const pickle& in, pickle_value persistent);

// Returns the dimensions from a tuple, a list or a torch.Size of integers.
result<std::vector<std::uint64_t>> dims_of(const pickle& in, pickle_value v);

struct torch_call {
  pickle_global function;
  std::span<const pickle_value> arguments;
};

// Returns the tensor of a call with the role `rebuild` or `rebuild_typed`. The caller must set the
// name of the tensor, and add the place to a fault.
result<entry> rebuilt_tensor(const pickle& in, const torch_call& call,
                             const torch_storages& storages);

// Returns the number of repeated bytes: the tensor's size minus the size of its stored range, or 0
// if the stored range is not smaller.
std::uint64_t repeated_bytes(const entry& tensor) noexcept;

}  // namespace ringload::inline v0
