// SPDX-License-Identifier: Apache-2.0
#pragma once

// Collects the tensors of an object that PyTorch saved: nested dictionaries, lists and tuples. A
// tensor's name is the keys and positions joined by dots.

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
  std::string lone_name;         // Name if the object itself is a tensor.
  std::uint64_t file_bytes = 0;  // Limit for the bytes of repeated elements.
  std::uint64_t first_byte = 0;  // First byte of the pickle, for messages.
  ringload::strictness strictness = ringload::strictness::strict;
};

// The limit for repeated elements is at least this number of bytes.
inline constexpr std::uint64_t torch_repeated_bytes_usual = std::uint64_t{64} << 20;

// `strict` refuses a file with a class or function outside of PyTorch or with an unsupported
// tensor. `reference` leaves such objects out with a note. Both leave out values without tensors
// with a note.
result<file_entries> tensors_of_state(const pickle& in, const torch_storages& storages,
                                      const torch_state_source& from);

}  // namespace ringload::inline v0
