// SPDX-License-Identifier: Apache-2.0
#pragma once

// Collects the tensors of an object that PyTorch saved. The object consists of nested dictionaries,
// lists and tuples. The name of a tensor consists of the keys and positions that lead to the
// tensor, joined by dots.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <string>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/pytorch/pickle.hpp"
#include "formats/pytorch/torch_tensor.hpp"

namespace ringload::inline v0 {

inline constexpr std::size_t torch_tensors_max = 250'000;

struct torch_state_source {
  std::string lone_name;         // The name of the tensor if the object itself is a tensor.
  std::uint64_t file_bytes = 0;  // See torch_repeated_bytes_usual.
  std::uint64_t first_byte = 0;  // Offset of the pickle, for messages.
  ringload::strictness strictness = ringload::strictness::strict;
};

// A tensor repeats elements if its elements overlap in the storage. The limit for the repeated
// bytes of all tensors is the size of the file, or this number if the file is smaller.
inline constexpr std::uint64_t torch_repeated_bytes_usual = std::uint64_t{64} << 20;

// `strictness::strict` refuses a file that names an unknown class or function. Unsupported tensors
// are added to file_entries::unreadable, and the other tensors are read. With
// `strictness::reference`, unknown objects are also added to this list, and `is_left_out` is true
// for all objects of the list. Values without tensors are always omitted. One note reports the
// omitted values, and another note reports the unreadable objects.
result<file_entries> tensors_of_state(const pickle& in, const torch_storages& storages,
                                      const torch_state_source& from);

}  // namespace ringload::inline v0
