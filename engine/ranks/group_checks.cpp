// SPDX-License-Identifier: Apache-2.0

#include "ranks/group_checks.hpp"

#include <exception>
#include <ringload/error.hpp>
#include <ringload/selection.hpp>
#include <string>

#include "base/catch_as_fault.hpp"
#include "load/open.hpp"
#include "ranks/check_same_call.hpp"
#include "ranks/split_work.hpp"

namespace ringload::inline v0::detail {

namespace {

// Checks that the group can send memory of the loader's device, and host memory. Not called for
// `group_reading::own`, because the ranks then exchange no tensors.
void check_group_memory(const device& on, group& rank_group) {
  const device exchanged = rank_group.memory();
  if (exchanged != on) {
    throw error(errc::device_unavailable, "group_load",
                "the loader's device is " + on.name() + ", but the group exchanges memory of " +
                    exchanged.name());
  }
  if (rank_group.host_group().memory() != host()) {
    throw error(errc::device_unavailable, "group_load",
                "the group cannot exchange host memory, which the comparison of calls needs");
  }
}

void check_group_options(const load_options& options) {
  if (options.memory != tensor_memory::owned) {
    throw error(errc::invalid_options, "group_load", "mapped memory cannot be used with a group");
  }
  if (auto status = check_owned_memory(options); !status) throw to_error(status.error());
  if (auto status = check_dtype(options); !status) throw to_error(status.error());
  if (options.tensor_alignment != 1) {
    throw error(errc::invalid_options, "group_load",
                "a group supports no tensor_alignment, because ranks exchange packed tensors");
  }
  if (!options.select.is_everything()) {
    throw error(errc::invalid_options, "group_load",
                "a group takes no selection, because each call chooses its tensors");
  }
  if (options.verify.checksums != nullptr) {
    throw error(errc::digest_unavailable, "group_load",
                "a checksum list covers whole checkpoints, but each rank reads only a part");
  }
}

}  // namespace

void check_rank_load(const device& on, group& rank_group, const group_options& options) {
  const auto status = catch_as_fault([&]() -> result<void> {
    if (options.reading == group_reading::divided) check_group_memory(on, rank_group);
    check_group_options(options.load);
    return {};
  });
  if (status) return;
  group& messages = rank_group.host_group();
  if (messages.memory() != host()) throw to_error(status.error());
  // If the other ranks have the same invalid options, all ranks send the same text. Otherwise the
  // other ranks report errc::mismatched_call. In both cases, this rank reports its own error.
  const std::string call = "load with invalid options (" + message_of(status.error()) + ")";
  try {
    static_cast<void>(check_same_call(messages, call));
  } catch (const std::exception&) {
    throw to_error(status.error());  // The group has ended, but this rank has its own error.
  }
  throw common_fault{status.error()};
}

void check_shard_blocks(const catalog& contents, const tensor_info& stored,
                        const tensor_info& loaded, std::uint32_t dim, std::uint32_t ranks) {
  // Each range begins at a multiple of the size of the first range, and ends at such a multiple or
  // at the end of the dimension. Therefore only the first range must be checked, and all ranks
  // report the same range.
  const index_range first = block_of(loaded.shape[dim], 0, ranks);
  const bool is_dequantised = !stored.original_shape.empty() && loaded.dtype != stored.dtype;
  if (!is_dequantised || first.count == 0) return;
  catalog single;
  single.files.push_back(contents.files[stored.file]);
  single.tensors.push_back(stored);
  single.tensors.front().file = 0;
  const auto status = catch_as_fault([&]() -> result<void> {
    // chosen() refuses a range that cuts a quantised block.
    chosen(single, select().names({}).slice(stored.name, dim, first.begin, first.count));
    return {};
  });
  if (!status) throw common_fault{status.error()};
}

}  // namespace ringload::inline v0::detail
