// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses checkpoints of torch.distributed.checkpoint. A checkpoint is a folder. Each rank (process
// of the training) writes rectangular parts of the tensors (boxes) to its own file. `.metadata`
// lists the file and the offset of each box:
//
//  .metadata      'w' of [4, 6]: the box from [0, 0] on is item 1, the box from [2, 0] on is item 2
//  __0_0.distcp   | item 1 | item 3 |      each item is an archive of torch.save with one tensor
//  __1_0.distcp   | item 2 |
//
// `.metadata` is a pickle. The functions that the pickle names are not called. parse_dcp() reads
// `.metadata` first. After the other files are opened, locate_dcp_tensors() finds the bytes of the
// tensors in the items.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <span>
#include <string_view>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

inline constexpr std::string_view dcp_format = "dcp";  // The value of file_info::format.
inline constexpr std::string_view dcp_metadata_name = ".metadata";
inline constexpr std::string_view dcp_item_suffix = ".distcp";

// Limits for `.metadata`. The pickle has about 110 values for each box.
inline constexpr std::uint64_t dcp_metadata_bytes_max = 128'000'000;
inline constexpr std::uint64_t dcp_values_max = 20'000'000;
// Limit for the number of times that items and chunks are read, because a small pickle may refer to
// the same chunk very often.
inline constexpr std::uint64_t dcp_visits_max = 1'000'000;

// Returns true if `name` is the name or path of a `.metadata` file.
bool is_dcp_metadata(std::string_view name) noexcept;

// Reads `.metadata`, and checks that the boxes of a tensor cover each element exactly once. In the
// result, each piece of a tensor is a whole item of another file. Afterwards, the caller must call
// locate_dcp_tensors(). Objects that are not tensors are omitted, with a note. Tensors of an
// unsupported type are also omitted, unless `strictness` is `strict`.
result<file_entries> parse_dcp(input& from, strictness strictness);

// Replaces the range of each item by the range of its tensor's bytes. `external_files` must have
// one input for each element of entries.external_files. A fault states the tensor and the item. If
// an item is of an unsupported kind, the tensor is omitted, with a note, unless `strictness` is
// `strict`.
result<void> locate_dcp_tensors(file_entries& entries, std::span<input* const> external_files,
                                strictness strictness);

}  // namespace ringload::inline v0
