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
// And where they go, where a loader has several devices:
//
//   auto split = ringload::select().replicate("*").shard("*.q_proj.weight", 0);
//
// A selection is resolved against the catalog when the load is planned, before the first byte is
// read. Only what is selected is read.

#include <cstdint>
#include <functional>
#include <ringload/catalog.hpp>
#include <ringload/export.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

/// In place of a device: each of them.
inline constexpr std::uint32_t all_devices = ~std::uint32_t{0};

namespace detail {

// Elements [begin, begin + count) of one dimension of the tensor of that name.
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
  std::string as;
  std::vector<std::string> names;
  std::uint32_t dim;
};

struct experts_request {
  std::uint64_t rank = 0;
  std::uint64_t ranks = 1;
  std::uint64_t experts = 0;  // 0: one more than the largest number in the checkpoint.
};

// Where the tensors that match go.
struct place_rule {
  enum class way : std::uint8_t { one, chosen, spread, sharded };

  std::string glob;
  way how = way::one;
  std::uint32_t number = 0;  // The device, or all_devices; the dimension of shards.
  std::function<std::uint32_t(const tensor_info&)> device_of;  // In place of a glob.
};

struct requests {
  std::vector<std::string> names;
  std::vector<std::string> globs;
  std::vector<std::function<bool(const tensor_info&)>> predicates;
  std::vector<std::string> excepted;     // Globs.
  std::vector<experts_request> experts;  // At most one.
  std::vector<slice_request> slices;
  std::vector<shard_request> shards;
  std::vector<fuse_request> fused;
  std::vector<place_rule> places;
  bool missing_is_allowed = false;
};

}  // namespace detail

/// A value type. Its functions modify it and return it, so that they can be chained.
///
/// In a glob `*` stands for any text, also with dots in it, `?` for any one byte, `[a-c]` and
/// `[!a-c]` for one byte of a set, as in Python's fnmatch; all else stands for itself.
class RINGLOAD_EXPORT selection {
 public:
  /// Everything.
  selection();
  selection(const selection& other);
  selection(selection&& other) noexcept;
  selection& operator=(const selection& other);
  selection& operator=(selection&& other) noexcept;
  ~selection();

  // Which tensors: those that any of the next three calls chooses.
  // Without such a call, all.

  selection& names(std::vector<std::string> these);
  selection& matching(std::string glob);
  /// Those for which `wanted` returns true. Called in a thread of the library, once for each tensor
  /// of the checkpoint, before the first read; an exception fails the load.
  selection& where(std::function<bool(const tensor_info&)> wanted);

  /// Excludes these from what the calls above choose.
  selection& except(std::string glob);

  /// Of what the calls above choose, the routed experts of one rank only: of tensors with
  /// `.experts.<n>.` in their name those with n in the rank's block. `experts` experts are dealt
  /// out in contiguous blocks, and what does not divide goes to the lowest ranks: 10 over 4 ranks
  /// are 3, 3, 2 and 2. 0 experts: as many as the largest number in the checkpoint says.
  selection& experts(std::uint64_t rank, std::uint64_t ranks, std::uint64_t experts = 0);

  // Which range of them. Ranges in different dimensions of a tensor combine; two in one dimension
  // are an error.

  /// Elements [first, first + count) of dimension `dim`. The tensor is chosen by this as well. Of
  /// blocks that can be dequantised (load_options::dtype) elements and dimensions are those of
  /// tensor_info::original_shape, and along the last dimension a range is of whole blocks; all
  /// other types of blocks are one dimension of bytes.
  selection& slice(std::string name, std::uint32_t dim, std::uint64_t first, std::uint64_t count);

  /// The block of `rank` along `dim` of every chosen tensor that matches: blocks are
  /// ceil(size / ranks) long, so the last may be shorter, or empty.
  selection& shard(std::string glob, std::uint32_t dim, std::uint64_t rank, std::uint64_t ranks);

  /// One tensor named `as` in place of several: their wanted ranges behind each other along `dim`,
  /// in the order of `names`. They must agree in dtype and in all other dimensions.
  selection& fused(std::string as, std::vector<std::string> names, std::uint32_t dim);

  // On which of the loader's devices, by their position in loader::devices(). The last of these
  // calls that matches a tensor decides; what none matches goes to the first device, and what is
  // fused where the first of its parts would. Not for a fill, whose destinations say where they
  // are. A device that the loader does not have is errc::invalid_selection.

  /// To one device; or with `all_devices` the whole tensor to each of them.
  selection& on(std::string glob, std::uint32_t device);
  /// To the device that the function returns, or to `all_devices`. Called in a thread of the
  /// library, once for each chosen tensor, before the first read; an exception fails the load.
  selection& on(std::function<std::uint32_t(const tensor_info&)> device);
  /// The whole tensor to each of the devices: read once, and copied to all.
  selection& replicate(std::string glob) { return on(std::move(glob), all_devices); }
  /// One after the other, in the catalog's order, each to the device that has the fewest bytes yet.
  selection& spread(std::string glob);
  /// To device i the block i along `dim`, as shard() with the device for a rank. Of a fused tensor
  /// the parts that match.
  selection& shard(std::string glob, std::uint32_t dim);

  /// A name, or a glob, that matches no tensor is `errc::no_such_tensor`, unless this is called:
  /// then it is ignored.
  selection& allow_missing();

  const detail::requests& requests() const noexcept { return requests_; }

 private:
  detail::requests requests_;
};

inline selection select() { return {}; }

/// Whether the whole of `text` fits `glob`. Time: at most the product of both lengths.
RINGLOAD_EXPORT bool matches(std::string_view glob, std::string_view text) noexcept;

/// What would be loaded: the chosen tensors in the order of (file, offset), with the shape and the
/// number of bytes that they are to have; `offset` is that of the whole tensor's first stored byte.
/// Fused ones stand at the place of their first part; composites are kept if whole. Each once and
/// whole, whatever the devices that they are to go to. Throws `error`.
RINGLOAD_EXPORT catalog chosen(const catalog& from, const selection& wanted);

}  // namespace ringload::inline v0
