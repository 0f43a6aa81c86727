// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds the input of the planner. The input describes how the chosen tensors are stored and
// converted. For a fill, the input also describes the destinations.

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <ringload/options.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "catalog/opened_checkpoint.hpp"
#include "plan/plan_input.hpp"
#include "request/choose.hpp"
#include "request/fill_state.hpp"

namespace ringload::inline v0::detail {

class plan_input_builder {
 public:
  // The arguments must outlive the builder. `into` has one target for each tensor of a fill, and is
  // empty for all other loads. The constructor calls `options.converts`.
  plan_input_builder(const opened_checkpoint& from, const std::vector<chosen_tensor>& chosen,
                     const load_options& options, std::span<const fill_target> into = {});
  plan_input_builder(const plan_input_builder&) = delete;
  plan_input_builder& operator=(const plan_input_builder&) = delete;

  // Returns the input of make_plan(). The plan has one tensor for each chosen tensor, even if the
  // tensor is fused from several boxes.
  plan_input input() const noexcept;
  // Returns the device of an arena, as an index in the loader's list of devices.
  std::uint32_t device_of(std::uint32_t arena) const noexcept {
    return arena < devices_.size() ? devices_[arena] : 0;
  }

  // Returns the error of the first tensor that prevents the load, or an empty optional. Two kinds
  // of tensors prevent a load: a tensor of packed elements that should be converted, and a fused
  // tensor whose parts are converted differently.
  const std::optional<fault>& refused() const noexcept { return refused_; }
  // Returns the catalog indices of the tensors that keep their dtype, because they cannot be
  // converted to load_options::dtype.
  std::span<const std::uint32_t> unconverted() const noexcept { return unconverted_; }
  // Returns the index of the first chosen tensor that is converted from F64 on a device for which
  // `device` returns true. Returns an empty optional if no tensor matches.
  std::optional<std::uint32_t> first_f64_on(const std::function<bool(std::uint32_t)>& device) const;
  // Returns the index of the first chosen tensor that is converted. Returns an empty optional if no
  // tensor is converted.
  std::optional<std::uint32_t> first_converted() const noexcept;
  // Returns the size of each chosen tensor after the load. A size may overflow, because make_plan()
  // detects an overflow later.
  std::vector<std::uint64_t> loaded_bytes_by_tensor() const;

  // The checks that use digests of the checkpoint's files.
  struct digests {
    // The digests to compare after the load, indexed by chosen tensor. An element is null if no
    // digest of the tensor is compared after the load. The vector is empty if all elements would be
    // null.
    std::vector<const stored_digest*> of_loaded;
    // The catalog index and the digest of each tensor without elements. The load reads no bytes of
    // these tensors.
    std::vector<std::pair<std::uint32_t, const stored_digest*>> unread;
    // The catalog index of the first tensor that cannot be checked, and the reason.
    std::optional<std::uint32_t> unchecked;
    const char* unchecked_reason = "";
    // The catalog index of the first tensor whose digest is a SHA-256.
    std::optional<std::uint32_t> needs_sha256;
  };
  const digests& file_digests() const noexcept { return digests_; }

  // Returns the index of the chosen tensor to which tensor `w` of the input belongs.
  std::uint32_t tensor_of(std::uint32_t w) const noexcept { return tensor_of_[w]; }

  // The stored stream of one element of plan_input::streams. `element_bytes` is an argument of
  // stream_decoder::make(). The result of take_streams() is indexed like plan_input::streams.
  struct stream {
    const stored_stream* stored;  // If null, the bytes of the file are used unchanged.
    std::uint32_t element_bytes;
    // The expected digest of the stored bytes. If null, no digest is compared.
    const stored_digest* digest = nullptr;
  };
  std::vector<stream> take_streams() { return std::move(streams_); }

 private:
  // Owns the arrays to which the spans of a tensor_form refer.
  struct form_memory {
    tensor_form form;
    std::vector<stored_box> pieces;
    std::vector<range> box;
    std::vector<std::int64_t> strides;
    // The shape of the tensor in quantised blocks, or the shape after a broadcast to the
    // destination. Empty if the shape in the catalog is used.
    std::vector<std::uint64_t> shape;
    // The origins, extents and strides of the pieces that the builder creates.
    std::deque<std::vector<std::uint64_t>> dimensions;
  };

  std::uint32_t arena_of(const chosen_tensor& chosen);
  void add(const box& source_box, const chosen_tensor& chosen);
  void add_pieces(form_memory& to, const stored_form& stored, std::uint32_t element_bytes,
                  const stored_digest* digest);
  void add_row_major_piece(form_memory& to, const wanted_stream& from, const stream& stored);
  const stored_digest* digest_in_stream(const box& source_box, const chosen_tensor& chosen,
                                        bool converted);
  void add_fused(const chosen_tensor& chosen);
  void put_into(form_memory& to, const box& source_box, const chosen_tensor& chosen,
                std::uint64_t before);
  void broadcast(form_memory& to, const box& source_box, const fill_target& into);
  const fill_target* target_of(const chosen_tensor& chosen) const noexcept {
    return into_.empty() ? nullptr : &into_[static_cast<std::size_t>(&chosen - chosen_.data())];
  }
  range range_of(const box& source_box, std::size_t d) const;
  dtype loaded_type(const tensor_info& t, const chosen_tensor& chosen);

  const opened_checkpoint& from_;
  const std::vector<chosen_tensor>& chosen_;
  const load_options& options_;
  const std::span<const fill_target> into_;
  std::vector<caller_memory> destinations_;  // Indexed by tensor. Only for fills.
  std::vector<wanted_tensor> tensors_;
  // Indexed by tensor of the input. The elements are indices in chosen_.
  std::vector<std::uint32_t> tensor_of_;
  std::deque<form_memory> forms_;  // A deque, because the addresses must not change.
  std::vector<wanted_stream> wanted_streams_;
  std::vector<stream> streams_;
  // The key of a stream. Stored pieces with equal keys share one stream.
  struct stream_key {
    std::uint32_t file;
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint64_t decoded_bytes;
    codec stored_codec;
    const std::vector<chain_filter>* chain;
    std::uint8_t shuffle_bytes;
    bool fletcher32;
    std::optional<std::uint32_t> crc32;
    const stored_digest* digest;

    auto operator<=>(const stream_key&) const = default;
  };
  std::map<stream_key, std::uint32_t> stream_indices_;
  std::optional<fault> refused_;
  std::vector<std::uint32_t> unconverted_;
  digests digests_;
  std::vector<arena_block> blocks_;
  std::vector<std::uint32_t> block_of_;  // The arena block of each chosen tensor, or no_block.
  std::uint32_t arenas_ = 1;
  // The key consists of device and file. The file is 0 unless each file has its own arena.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> arena_indices_;
  std::vector<std::uint32_t> devices_;  // Indexed by arena.
};

}  // namespace ringload::inline v0::detail
