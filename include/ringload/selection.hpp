// SPDX-License-Identifier: Apache-2.0
#pragma once

// Selects which tensors of a checkpoint are loaded, and which range of each.
//
//   auto some = ringload::select()
//                   .names({"lm_head.weight"})
//                   .matching("model.layers.0.*")
//                   .slice("lm_head.weight", 0, first, count)
//                   .shard("*.q_proj.weight", 0, rank, ranks);
//
// A selection also distributes tensors over the devices of a loader:
//
//   auto split = ringload::select().replicate("*").shard("*.q_proj.weight", 0);
//
// A selection is resolved against the catalog when the load is planned, before the first byte is
// read. Only selected bytes are read.

#include <cstdint>
#include <functional>
#include <ringload/catalog.hpp>
#include <ringload/export.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

/// Selects all devices where a device position is expected.
inline constexpr std::uint32_t all_devices = ~std::uint32_t{0};

namespace detail {

// Elements [begin, begin + count) of one dimension of the tensor `name`.
struct slice_request {
  std::string name;
  std::uint32_t dim;
  std::uint64_t begin;
  std::uint64_t count;
};

struct shard_request {
  std::string glob;
  std::uint32_t dim;
  std::uint64_t rank;
  std::uint64_t ranks;
};

struct fuse_request {
  std::string fused_name;
  std::vector<std::string> names;
  std::uint32_t dim;
};

struct experts_request {
  std::uint64_t rank = 0;
  std::uint64_t ranks = 1;
  std::uint64_t experts = 0;  // 0: one more than the largest number in the checkpoint.
};

// The device rule for tensors that match.
struct place_rule {
  enum class way : std::uint8_t { one, chosen, spread, sharded };

  std::string glob;
  way placement = way::one;
  std::uint32_t number = 0;  // The device position or all_devices; for shards, the dimension.
  std::function<std::uint32_t(const tensor_info&)> device_of;  // Replaces the glob.
};

struct requests {
  std::vector<std::string> names;
  std::vector<std::string> globs;
  std::vector<std::function<bool(const tensor_info&)>> predicates;
  std::vector<std::string> excepted;     // Globs.
  std::vector<experts_request> experts;  // At most one element.
  std::vector<slice_request> slices;
  std::vector<shard_request> shards;
  std::vector<fuse_request> fused;
  std::vector<place_rule> places;
  bool missing_is_allowed = false;
};

}  // namespace detail

/// A value type. Its functions modify the object and return it, so calls can be chained.
///
/// In a glob, `*` matches any text including dots, `?` matches any one byte, and `[a-c]` and
/// `[!a-c]` match one byte of a set, as in Python's fnmatch. All other characters match themselves.
class RINGLOAD_EXPORT selection {
 public:
  /// Selects all tensors.
  selection();
  selection(const selection& source);
  selection(selection&& source) noexcept;
  selection& operator=(const selection& source);
  selection& operator=(selection&& source) noexcept;
  ~selection();

  // The next three functions select tensors. A tensor is selected if any call selects it. Without
  // such a call, all tensors are selected.

  selection& names(std::vector<std::string> names);
  selection& matching(std::string glob);
  /// Selects the tensors for which `wanted` returns true. `wanted` is called in a thread of the
  /// library, once for each tensor of the checkpoint, before the first read. An exception fails the
  /// load.
  selection& where(std::function<bool(const tensor_info&)> wanted);

  /// Excludes the tensors that match from the selection of the calls above.
  selection& except(std::string glob);

  /// Keeps only the routed experts of one rank. If a selected tensor has `.experts.<n>.` in its
  /// name, it is kept if n is in the rank's range. The `experts` experts are divided into
  /// contiguous ranges, and the lowest ranks get the remainder: 10 experts over 4 ranks are 3, 3, 2
  /// and 2. If `experts` is 0, the number is one more than the largest number in the checkpoint.
  selection& experts(std::uint64_t rank, std::uint64_t ranks, std::uint64_t experts = 0);

  // The next functions select ranges of tensors. Ranges in different dimensions of a tensor are
  // combined. Two ranges in one dimension are an error.

  /// Selects the tensor `name`, with elements [first, first + count) of dimension `dim`. For blocks
  /// that can be dequantised (load_options::dtype), elements and dimensions refer to
  /// tensor_info::original_shape, and a range of the last dimension must consist of whole blocks.
  /// Tensors of all other block types have one dimension of bytes.
  selection& slice(std::string name, std::uint32_t dim, std::uint64_t first, std::uint64_t count);

  /// Selects the range of `rank` along `dim` for every selected tensor that matches. Each range has
  /// ceil(size / ranks) indices, so the last range may be shorter or empty.
  selection& shard(std::string glob, std::uint32_t dim, std::uint64_t rank, std::uint64_t ranks);

  /// Replaces the tensors `names` by one tensor `name`, which concatenates their selected ranges
  /// along `dim` in the order of `names`. The tensors must agree in dtype and in all other
  /// dimensions.
  selection& fused(std::string name, std::vector<std::string> names, std::uint32_t dim);

  // The next functions choose the device, by its position in loader::devices(). If several calls
  // match a tensor, the last call decides. A tensor that no call matches goes to the first device.
  // A fused tensor goes to the device of its first part. A fill must not use these calls, because
  // its destinations have devices. A position that the loader does not have is
  // errc::invalid_selection.

  /// Places tensors on one device, or whole on each device with `all_devices`.
  selection& on(std::string glob, std::uint32_t device);
  /// Places each tensor on the device that the function returns, or on `all_devices`. The function
  /// is called in a thread of the library, once for each selected tensor, before the first read. An
  /// exception fails the load.
  selection& on(std::function<std::uint32_t(const tensor_info&)> device);
  /// Places the whole tensor on each device. The tensor is read once and copied to all devices.
  selection& replicate(std::string glob) { return on(std::move(glob), all_devices); }
  /// Places tensors one by one, in catalog order, on the device with the fewest bytes so far.
  selection& spread(std::string glob);
  /// Places range i along `dim` on device i, as shard() does for ranks. For a fused tensor, this
  /// applies to the parts that match.
  selection& shard(std::string glob, std::uint32_t dim);

  /// Ignores names and globs that match no tensor. Without this call they are
  /// `errc::no_such_tensor`.
  selection& allow_missing();

  const detail::requests& requests() const noexcept { return requests_; }

 private:
  detail::requests requests_;
};

inline selection select() { return {}; }

/// Returns whether `glob` matches all of `text`. The time is at most proportional to the product of
/// both lengths.
RINGLOAD_EXPORT bool matches(std::string_view glob, std::string_view text) noexcept;

/// Returns the tensors that a load would load, in the order of (file, offset), with the shape and
/// the number of bytes after selection. `offset` is the offset of the first stored byte of the
/// whole tensor. A fused tensor is at the position of its first part. Composites are kept if all
/// parts are selected. Each tensor appears once and whole, whatever its devices. Throws `error`.
RINGLOAD_EXPORT catalog chosen(const catalog& from, const selection& wanted);

}  // namespace ringload::inline v0
