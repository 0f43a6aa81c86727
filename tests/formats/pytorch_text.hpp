// SPDX-License-Identifier: Apache-2.0
#pragma once

// PyTorch archives with one storage, and the result of the parser.

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "formats/pytorch/pytorch.hpp"
#include "support/pickle_text.hpp"

namespace ringload::testing {

inline result<file_entries> parsed_archive(const std::string& file,
                                           strictness strictness = strictness::strict) {
  memory_input from(bytes_of(file));
  auto members = read_zip_directory(from);
  REQUIRE(members.has_value());
  REQUIRE(is_pytorch_archive(*members));
  return parse_pytorch_zip(from, *members, {strictness, "lone"});
}

// An archive of the object, with one storage of 24 bytes.
inline std::string holding(const std::string& object) {
  return pickled::archive(pickled::pickle(object), {{"0", std::string(24, '\1')}});
}

inline std::string with_tensor(const pickled::saved_tensor& t) {
  return holding(pickled::dict({pickled::text("w"), t()}));
}

inline std::string sparse_tensor(std::string_view layout, pickled::list_of parts) {
  return pickled::call(pickled::global("torch._utils", "_rebuild_sparse_tensor"),
                       {pickled::call(pickled::global("torch.serialization", "_get_layout"),
                                      {pickled::text(layout)}),
                        pickled::tuple(parts)});
}

// The reason for the only unreadable object of the archive.
inline std::string unreadable_cause(const std::string& file) {
  const auto found = parsed_archive(file);
  REQUIRE(found.has_value());
  REQUIRE(found->unreadable.size() == 1);
  return found->unreadable[0].cause.cause();
}

}  // namespace ringload::testing
