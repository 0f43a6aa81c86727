// SPDX-License-Identifier: Apache-2.0
#pragma once

// A tensor, as PyTorch's pickles describe it: elements of a storage, from an offset on, with a
// stride for each dimension. Whether all of them lie inside the storage is checked here.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/pytorch/pickle.hpp"

namespace ringload::inline v0 {

// The bytes that the pickle calls by this key.
struct torch_storage {
  std::string_view key;
  stored_stream stream;
};

struct torch_storages {
  std::vector<torch_storage> storages;  // Sorted by key.
  bool big_endian = false;

  const torch_storage* find(std::string_view key) const noexcept;
};

// What a persistent value of a pickle names: ("storage", class, key, location, elements[, view]).
struct torch_identity {
  std::string_view key;
  std::uint8_t element_bytes = 1;
  std::uint64_t elements = 0;
  pickle_global type;
  // A view of the storage, which PyTorch before 0.4 had: where it begins.
  std::uint64_t view_offset = 0;
};
result<torch_identity> identity_of(const pickle& in, pickle_value persistent);

// The dimensions of a tuple, a list or a torch.Size of integers.
result<std::vector<std::uint64_t>> dims_of(const pickle& in, pickle_value v);

// What would be called, and with what.
struct torch_call {
  pickle_global function;
  std::span<const pickle_value> arguments;
};

// The tensor that a call of the roles `rebuild` and `rebuild_typed` describes; its name is the
// caller's, and so is the place of a fault.
result<entry> rebuilt_tensor(const pickle& in, const torch_call& call,
                             const torch_storages& storages);

// How many bytes the tensor has beyond those that it is made of: elements that lie on each other.
std::uint64_t repeated_bytes(const entry& tensor) noexcept;

}  // namespace ringload::inline v0
