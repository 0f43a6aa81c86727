// SPDX-License-Identifier: Apache-2.0
#pragma once

// Selects the tensors of a checkpoint that a load loads, and a range of each tensor.
//
//   auto part = ringload::select()
//                   .names({"lm_head.weight"})
//                   .matching("model.layers.0.*")
//                   .slice("lm_head.weight", 0, first, count)
//                   .shard("*.q_proj.weight", 0, rank, ranks);
//
// A selection can also distribute tensors over the devices of a loader:
//
//   auto split = ringload::select().replicate("*").shard("*.q_proj.weight", 0);
//
// The selection is compared with the catalog when the load is planned, before the first byte is
// read. A load reads only the selected bytes.

#include <cstdint>
#include <functional>
#include <ringload/catalog.hpp>
#include <ringload/detail/list_argument.hpp>
#include <ringload/export.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

struct load_options;

/// All devices, as the argument of functions that take the position of a device.
inline constexpr std::uint32_t all_devices = ~std::uint32_t{0};

namespace detail {

// The elements [begin, begin + count) of dimension `dim` of the tensor `name`.
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
  std::uint64_t experts = 0;  // 0 means the largest expert index in the checkpoint plus 1.
};

// Chooses the devices of the tensors that match `glob`. If `kind` is `by_function`, the rule
// applies to every selected tensor, and `device_of` returns the position of the tensor's device.
struct place_rule {
  enum class placement_kind : std::uint8_t { given_device, by_function, spread, sharded };

  std::string glob;
  placement_kind kind = placement_kind::given_device;
  // If `kind` is `given_device`, the position of the device, or all_devices. If `kind` is
  // `sharded`, the dimension.
  std::uint32_t device_or_dim = 0;
  std::function<std::uint32_t(const tensor_info&)> device_of;
};

struct requests {
  std::vector<std::string> names;
  std::vector<std::string> globs;
  std::vector<std::function<bool(const tensor_info&)>> predicates;
  std::vector<std::string> excluded_globs;  // The globs of except().
  std::vector<experts_request> experts;     // The list has at most one element.
  std::vector<slice_request> slices;
  std::vector<shard_request> shards;
  std::vector<fuse_request> fused;
  std::vector<place_rule> places;
  bool missing_is_allowed = false;
};

}  // namespace detail

/// Selects tensors, ranges of tensors, and devices. Each function modifies the selection and
/// returns a reference to the selection, so that calls can be chained.
///
/// In a glob, `*` matches any text, including dots. `?` matches any single byte. `[a-c]` matches a
/// byte of the set, and `[!a-c]` matches a byte outside the set. Any other character matches
/// itself. The syntax is the same as in Python's fnmatch.
class RINGLOAD_EXPORT selection {
 public:
  /// Selects all tensors.
  selection();
  /// Copies all rules. Functions of the rules are copied too.
  selection(const selection& source);
  /// Takes over all rules. Afterwards, `source` may only be assigned to or destroyed.
  selection(selection&& source) noexcept;
  /// Replaces all rules by copies of the rules of `source`.
  selection& operator=(const selection& source);
  /// Replaces all rules by the rules of `source`. Afterwards, `source` may only be assigned to or
  /// destroyed.
  selection& operator=(selection&& source) noexcept;
  ~selection();

  // The next three functions select tensors. A tensor is selected if at least one call selects the
  // tensor. If none of these functions is called, all tensors are selected. A call of slice() also
  // selects its tensor.

  /// Selects the tensors with these names: a vector, or a list in braces.
  selection& names(detail::list_argument<std::string> names);
  /// Selects the tensors whose names match `glob`.
  selection& matching(std::string glob);
  /// Selects the tensors for which `predicate` returns true. `predicate` is called once for each
  /// tensor of the checkpoint, in a thread of the library, before the first read. `predicate` may
  /// also be called for an object that cannot be loaded. In this case, only `name` and `file` are
  /// set. If `predicate` throws an exception, the load fails.
  selection& where(std::function<bool(const tensor_info&)> predicate);

  /// Removes the tensors that match `glob` from the selected tensors.
  selection& except(std::string glob);

  /// Keeps only the routed experts of one rank. A tensor belongs to expert n if its name contains
  /// `.experts.<n>.`. A tensor that belongs to no expert is not affected. If the checkpoint has no
  /// expert, the operation fails with `errc::invalid_selection`, unless allow_missing() was called.
  ///
  /// `experts` is the number of experts. If `experts` is 0, the number is the largest index in the
  /// checkpoint plus 1. The number may be larger than the number of experts in the checkpoint. If a
  /// selected tensor belongs to an expert n that is not less than the number, the operation fails
  /// with `errc::invalid_selection`. Each rank gets a contiguous range of experts. If the division
  /// leaves a remainder, the lowest ranks get one more expert: 4 ranks share 10 experts as 3, 3, 2
  /// and 2.
  selection& experts(std::uint64_t rank, std::uint64_t ranks, std::uint64_t experts = 0);

  // The next functions select ranges of tensors, and join tensors. If ranges in different
  // dimensions of one tensor are selected, all these ranges apply. Two ranges in the same dimension
  // are an error.

  /// Restricts the tensor `name` to the elements [first, first + count) of dimension `dim`. Also
  /// selects the tensor, even if except() or experts() removes the tensor. The selection of other
  /// tensors does not change.
  ///
  /// Some quantised tensors can be dequantised (load_options::dtype). For these tensors, `dim` and
  /// `first` refer to tensor_info::original_shape, and a range of the last dimension must consist
  /// of whole quantisation blocks. Any other quantised or packed tensor has one dimension, which
  /// counts bytes. A part of this tensor has no `tensor_info::type`, and a note in `catalog::notes`
  /// states the type of the whole tensor.
  selection& slice(std::string name, std::uint32_t dim, std::uint64_t first, std::uint64_t count);

  /// Restricts every selected tensor that matches `glob` to the range of `rank` along `dim`. A
  /// range has ceil(size / ranks) indices, so the ranges of the last ranks may be shorter or empty.
  selection& shard(std::string glob, std::uint32_t dim, std::uint64_t rank, std::uint64_t ranks);

  /// Replaces the tensors `names` by one tensor `name`. The new tensor concatenates the selected
  /// ranges along `dim`, in the order of `names`. All tensors must have the same dtype and the same
  /// size in every other dimension. If `names` is empty, the load fails with
  /// `errc::invalid_selection`. A tensor of `names` is also loaded separately if names(),
  /// matching(), where() or slice() selects the tensor.
  selection& fused(std::string name, detail::list_argument<std::string> names, std::uint32_t dim);

  // The next functions choose the devices of tensors. The position of a device is its index in
  // loader::devices(). A position that does not exist fails with errc::invalid_selection.
  //
  // If several calls match a tensor, the last call decides. A tensor without a matching call is
  // placed on the first device. A fused tensor is placed on the device of its first joined tensor.
  // If shard(glob, dim) divides one of the joined tensors, every device gets a fused tensor. This
  // tensor has one part for each joined tensor: the range of the device if the joined tensor is
  // divided, and all selected elements otherwise. A fill must not use these functions, because each
  // destination of a fill has a device.

  /// Places each tensor that matches `glob`, as a whole, on the device at the position `device`. If
  /// `device` is `all_devices`, each device gets a copy.
  selection& on(std::string glob, std::uint32_t device);
  /// Places each selected tensor on the device whose position `device_of` returns. `device_of` may
  /// return `all_devices`. `device_of` is called once for each selected tensor for which this rule
  /// decides, in a thread of the library, before the first read. If `device_of` throws an
  /// exception, the load fails.
  selection& on(std::function<std::uint32_t(const tensor_info&)> device_of);
  /// Places each tensor that matches `glob`, as a whole, on every device. The load reads the tensor
  /// once and copies the tensor to all devices.
  selection& replicate(std::string glob) { return on(std::move(glob), all_devices); }
  /// Distributes the tensors that match `glob`, in the order of the catalog. Each tensor is placed
  /// on the device that has the fewest bytes so far.
  selection& spread(std::string glob);
  /// Divides each tensor that matches `glob` along `dim`, and places range i on device i. The
  /// ranges are computed as by the function shard() above, with one rank for each device. The
  /// tensors of a fused tensor are divided first and joined afterwards.
  selection& shard(std::string glob, std::uint32_t dim);

  /// Ignores names and globs that match no tensor, and experts() if the checkpoint has no expert.
  /// Without this call, the load fails with `errc::no_such_tensor`, or with
  /// `errc::invalid_selection` if no expert exists.
  selection& allow_missing();

  /// Returns true if the selection has every tensor, as a whole, on the first device.
  bool is_everything() const noexcept;

  /// Returns load options with this selection and default values.
  operator load_options() const;

  /// Internal: called by the library only.
  const detail::requests& requests() const noexcept { return requests_; }

 private:
  detail::requests requests_;
};

/// Returns a selection of all tensors, for chained calls.
inline selection select() { return {}; }

/// Returns true if `glob` matches the whole of `text`. The time is at most proportional to the
/// product of the two lengths.
RINGLOAD_EXPORT bool matches(std::string_view glob, std::string_view text) noexcept;

/// Returns a catalog of the tensors that a load with the selection `select` would load. The shape
/// and the number of bytes of each tensor are the values after the selection. `offset` is the
/// offset of the first stored byte of the whole tensor. The tensors are sorted by file and offset.
/// A fused tensor is listed at the position of its first joined tensor. A composite object (see
/// composite_info) is kept if all its tensors are selected as a whole. The choice of devices has no
/// effect: each tensor is listed once, with its shape before the division among the devices. Throws
/// `error`.
RINGLOAD_EXPORT catalog chosen(const catalog& contents, const selection& select);

}  // namespace ringload::inline v0
