// SPDX-License-Identifier: Apache-2.0
#pragma once

// The tensors of an object that PyTorch has saved: dictionaries, lists and tuples inside each
// other, whose keys and positions, joined by dots, are the tensors' names.

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
  std::string lone_name;         // What an object is called that is a tensor itself.
  std::uint64_t file_bytes = 0;  // Tensors that repeat elements have at most so many bytes more...
  std::uint64_t first_byte = 0;  // Of the pickle, for messages.
  ringload::strictness strictness = ringload::strictness::strict;
};

// ...or at most so many, if that is more.
inline constexpr std::uint64_t torch_repeated_bytes_usual = std::uint64_t{64} << 20;

// In `strict`, a class or function that is none of PyTorch's own refuses the file, and so does a
// tensor of a kind that is not read; in `reference`, what it would make is left out, with a note.
// What holds no tensor is left out with a note in both.
result<file_entries> tensors_of_state(const pickle& in, const torch_storages& storages,
                                      const torch_state_source& from);

}  // namespace ringload::inline v0
