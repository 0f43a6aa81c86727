// SPDX-License-Identifier: Apache-2.0

// Builds the input of the planner. A box is a rectangular part of a tensor. A piece is a part of a
// stored stream that contains elements of a tensor.

#include "request/plan_input_builder.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/numeric/convert.hpp"
#include "base/numeric/dequantize.hpp"
#include "base/printable.hpp"
#include "request/block_tensors.hpp"

namespace ringload::inline v0::detail {

plan_input_builder::plan_input_builder(const opened_checkpoint& from,
                                       const std::vector<chosen_tensor>& chosen,
                                       const load_options& options,
                                       std::span<const fill_target> into)
    : from_(from),
      chosen_(chosen),
      options_(options),
      into_(into),
      block_of_(chosen.size(), tensor_form::no_block) {
  tensors_.reserve(chosen.size());
  for (const fill_target& target : into) destinations_.push_back(target.memory);
  for (const chosen_tensor& tensor : chosen) {
    if (tensor.boxes.size() > 1) {
      add_fused(tensor);
    } else {
      add(tensor.boxes.front(), tensor);
    }
  }
}

dtype plan_input_builder::loaded_type(const tensor_info& t, const chosen_tensor& chosen) {
  if (const fill_target* into = target_of(chosen)) return into->dtype;
  if (!options_.dtype) return t.dtype;
  const bool blocks = blocks_of(t).has_value();
  const bool packed = !blocks && !t.type.empty() && !t.original_shape.empty();
  if (!blocks && !packed && !convertible(t.dtype, *options_.dtype)) {
    if (t.dtype != *options_.dtype) unconverted_.push_back(chosen.boxes.front().tensor);
    return t.dtype;
  }
  if (options_.converts && !options_.converts(t)) return t.dtype;
  if (!packed) return *options_.dtype;
  if (!refused_) {
    refused_ = fault{errc::unsupported_dtype, tensor_place(from_.named->catalog(), t),
                     "it holds " + printable(t.type) + ", which cannot be converted to " +
                         std::string(name(*options_.dtype)) +
                         ": load without a dtype, or exclude this tensor"};
  }
  return t.dtype;
}

std::optional<std::uint32_t> plan_input_builder::first_f64_on(
    const std::function<bool(std::uint32_t)>& device) const {
  for (std::size_t w = 0; w < tensors_.size(); ++w) {
    const bool from_f64 = tensors_[w].cast.needed() && tensors_[w].cast.from == element_kind::f64;
    if (from_f64 && device(chosen_[tensor_of_[w]].device)) return tensor_of_[w];
  }
  return std::nullopt;
}

range plan_input_builder::range_of(const box& source_box, std::size_t d) const {
  if (!source_box.ranges.empty()) return source_box.ranges[d];
  const tensor_info& t = from_.named->catalog().tensors[source_box.tensor];
  return {0, into_.empty() && blocks_of(t) ? t.original_shape[d] : t.shape[d]};
}

std::uint32_t plan_input_builder::arena_of(const chosen_tensor& chosen) {
  if (!into_.empty()) return 0;
  auto arena = static_cast<std::uint32_t>(&chosen - chosen_.data());
  if (options_.allocation != allocation::per_tensor) {
    const bool by_file = options_.allocation == allocation::per_file;
    const std::uint32_t t = chosen.boxes.front().tensor;
    const std::uint32_t file = by_file ? from_.named->catalog().tensors[t].file : 0;
    const auto next = static_cast<std::uint32_t>(arena_indices_.size());
    arena = arena_indices_.emplace(std::pair(chosen.device, file), next).first->second;
  }
  arenas_ = std::max(arenas_, arena + 1);
  devices_.resize(arenas_);
  devices_[arena] = chosen.device;
  return arena;
}

void plan_input_builder::add(const box& source_box, const chosen_tensor& chosen) {
  const tensor_info& t = from_.named->catalog().tensors[source_box.tensor];
  const auto& stored = from_.stored[source_box.tensor];
  const dtype loaded = loaded_type(t, chosen);
  const auto blocks = blocks_of(t);
  const conversion cast = blocks && loaded != t.dtype
                              ? conversion{kind_of(*blocks), *element_kind_of(loaded)}
                              : conversion_between(t.dtype, loaded);
  tensors_.push_back({t.file, alignment(loaded), t.offset, t.bytes, cast, nullptr, arena_of(chosen),
                      chosen.replicated});
  tensor_of_.push_back(static_cast<std::uint32_t>(&chosen - chosen_.data()));
  const stored_digest* const digest = digest_in_stream(source_box, chosen, cast.needed());
  const bool plain = stored == nullptr && source_box.ranges.empty() && chosen.boxes.size() == 1 &&
                     into_.empty() && digest == nullptr;
  if (plain) return;

  form_memory& memory = forms_.emplace_back();
  memory.form.shape = t.shape;
  memory.form.element_bits = bits(t.dtype);
  memory.box = source_box.ranges;
  const bool is_decoded = (digest != nullptr || stored != nullptr) && cast.needed();
  const bool in_block_form =
      blocks && (!source_box.ranges.empty() || chosen.boxes.size() > 1 || is_decoded);
  if (in_block_form) {
    const block_size size = size_of(*blocks);
    memory.shape = in_blocks(t.original_shape, *blocks);
    memory.form.shape = memory.shape;
    memory.form.element_bits = size.bytes * 8;
    if (!memory.box.empty()) {
      memory.box.back().begin /= size.elements;
      memory.box.back().end /= size.elements;
    }
  }
  memory.form.box = memory.box;
  if (stored && !in_block_form) {
    add_pieces(memory, *stored, bits(t.dtype) / 8, digest);
  } else if (stored || digest) {
    // The blocks of a compressed quantised tensor are one stream. A tensor that is stored unchanged
    // but has a digest is read as a stream too, because its bytes must be hashed in order.
    const stored_stream& s = stored ? stored->pieces.front().stored : digest->stream;
    add_row_major_piece(memory,
                        {wanted_stream::kind::decoded, s.file, s.offset, s.bytes, s.decoded_bytes},
                        {&s, 1, digest});
  }
  tensors_.back().form = &memory.form;
  if (!into_.empty() && chosen.boxes.size() == 1) put_into(memory, source_box, chosen, 0);
}

// Returns the file's digest of a box if the stored bytes must be hashed during decoding. Otherwise
// returns null, because no digest is verified or the digest is verified elsewhere. The check
// threads hash a tensor in memory if the stored bytes are unchanged there. Fused tensors, fills and
// loads with a checksum list are hashed during decoding. choose_digests() verifies tensors without
// elements.
const stored_digest* plan_input_builder::digest_in_stream(const box& source_box,
                                                          const chosen_tensor& chosen,
                                                          bool converted) {
  if (options_.verify.stored == embedded_digests::none) return nullptr;
  const stored_digest* const digest =
      from_.digests.empty() ? nullptr : from_.digests[source_box.tensor].get();
  if (digest == nullptr || !source_box.ranges.empty()) {
    if (!digests_.unchecked) {
      digests_.unchecked = source_box.tensor;
      digests_.unchecked_reason =
          digest == nullptr
              ? "the file has no digest of the tensor, or only a digest of an unknown algorithm"
              : "the digest covers the whole tensor, but only a part is loaded";
    }
    return nullptr;
  }
  if (digest->algorithm == digest_algorithm::sha256 && !digests_.needs_sha256) {
    digests_.needs_sha256 = source_box.tensor;
  }
  if (from_.named->catalog().tensors[source_box.tensor].bytes == 0) {
    digests_.unread.emplace_back(source_box.tensor, digest);
    return nullptr;
  }
  const bool is_unchanged_in_memory = from_.stored[source_box.tensor] == nullptr && !converted &&
                                      chosen.boxes.size() == 1 && into_.empty() &&
                                      options_.verify.checksums == nullptr;
  if (!is_unchanged_in_memory) return digest;
  digests_.of_loaded.resize(chosen_.size());
  digests_.of_loaded[static_cast<std::size_t>(&chosen - chosen_.data())] = digest;
  return nullptr;
}

// Sets the destination of a box in the caller's memory. `before` is the number of elements that
// precede the box in the fused dimension.
void plan_input_builder::put_into(form_memory& to, const box& source_box,
                                  const chosen_tensor& chosen, std::uint64_t before) {
  const fill_target& into = *target_of(chosen);
  to.form.destination = static_cast<std::uint32_t>(&chosen - chosen_.data()) + 1;
  to.form.destination_offset = into.first_element;
  // Elements of less than a byte cannot be fused, and their destination is dense.
  if (to.form.element_bits % 8 != 0) return;
  to.strides = into.matched.stride_bytes;
  to.form.destination_strides = to.strides;
  const std::size_t in_front = to.strides.size() - chosen.shape.size();
  if (before > 0) {
    // The offset is computed modulo 2^64, because the stride may be negative.
    to.form.destination_offset +=
        before * static_cast<std::uint64_t>(to.strides[in_front + chosen.dim]);
  }
  if (in_front > 0 ||
      std::ranges::find(into.matched.repeated, true) != into.matched.repeated.end()) {
    broadcast(to, source_box, into);
  }
}

// Sets the shape of the tensor to the shape of its destination. In repeated dimensions, the strides
// of the tensor's pieces become 0.
void plan_input_builder::broadcast(form_memory& to, const box& source_box,
                                   const fill_target& into) {
  using sizes = std::vector<std::uint64_t>;
  const tensor_info& t = from_.named->catalog().tensors[source_box.tensor];
  const std::size_t in_front = into.matched.shape.size() - t.shape.size();
  if (!to.form.has_pieces) {
    add_row_major_piece(to, {wanted_stream::kind::raw, t.file, t.offset, t.bytes, t.bytes},
                        {nullptr, 1});
  }
  std::vector<stored_box> pieces;
  for (const stored_box& stored_piece : to.pieces) {
    stored_box wide = stored_piece;
    sizes& origin = to.dimensions.emplace_back(in_front);
    sizes& extent = to.dimensions.emplace_back(
        into.matched.shape.begin(),
        into.matched.shape.begin() + static_cast<std::ptrdiff_t>(in_front));
    sizes& strides = to.dimensions.emplace_back(in_front);
    bool inside = true;
    for (std::size_t d = 0; d < t.shape.size(); ++d) {
      const range box_range = range_of(source_box, d);
      const std::uint64_t begin = std::max(box_range.begin, stored_piece.origin[d]);
      const std::uint64_t end =
          std::min(box_range.end, stored_piece.origin[d] + stored_piece.extent[d]);
      inside = inside && begin < end;
      if (!inside) break;
      const bool repeated = into.matched.repeated[in_front + d];
      wide.first_byte += (begin - stored_piece.origin[d]) * stored_piece.stride_bytes[d];
      origin.push_back(begin - box_range.begin);
      extent.push_back(repeated ? into.matched.shape[in_front + d] : end - begin);
      strides.push_back(repeated ? 0 : stored_piece.stride_bytes[d]);
    }
    if (!inside) continue;
    wide.origin = origin;
    wide.extent = extent;
    wide.stride_bytes = strides;
    pieces.push_back(wide);
  }
  to.shape.assign(into.matched.shape.begin(),
                  into.matched.shape.begin() + static_cast<std::ptrdiff_t>(in_front));
  for (std::size_t d = 0; d < t.shape.size(); ++d) {
    const std::uint64_t count = range_of(source_box, d).count();
    const bool repeated = into.matched.repeated[in_front + d];
    to.shape.push_back(repeated ? count * into.matched.shape[in_front + d] : count);
  }
  to.pieces = std::move(pieces);
  to.form.shape = to.shape;
  to.form.box = {};
  to.form.has_pieces = true;
  to.form.pieces = to.pieces;
}

// Describes the whole tensor as one row-major piece of a new stream. The piece begins at the first
// byte of the stream.
void plan_input_builder::add_row_major_piece(form_memory& to, const wanted_stream& from,
                                             const stream& stored) {
  const auto whole = static_cast<std::uint32_t>(wanted_streams_.size());
  wanted_streams_.push_back(from);
  streams_.push_back(stored);
  const std::span<const std::uint64_t> shape = to.form.shape;  // In units of form.element_bits.
  std::vector<std::uint64_t>& strides = to.dimensions.emplace_back(shape.size());
  std::uint64_t stride = to.form.element_bits / 8;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  const std::vector<std::uint64_t>& origin = to.dimensions.emplace_back(shape.size());
  to.pieces.push_back({whole, 0, origin, shape, strides});
  to.form.has_pieces = true;
  to.form.pieces = to.pieces;
}

void plan_input_builder::add_pieces(form_memory& to, const stored_form& stored,
                                    std::uint32_t element_bytes, const stored_digest* digest) {
  to.form.has_pieces = true;
  to.form.swap_bytes = stored.swap_bytes;
  to.form.fill = stored.fill;
  to.pieces.reserve(stored.pieces.size());
  for (const piece& stored_piece : stored.pieces) {
    const stored_stream& s = stored_piece.stored;
    auto index = static_cast<std::uint32_t>(wanted_streams_.size());
    if (s.in_memory == nullptr) {
      const stream_key key = {s.file,         s.offset,      s.bytes,         s.decoded_bytes,
                              s.stored_codec, s.chain.get(), s.shuffle_bytes, s.fletcher32,
                              s.crc32,        digest};
      index = stream_indices_.emplace(key, index).first->second;
    }
    if (index == wanted_streams_.size()) {
      wanted_stream added = {wanted_stream::kind::raw, s.file, s.offset, s.bytes, s.decoded_bytes};
      const bool is_unencoded =
          s.stored_codec == codec::raw && s.shuffle_bytes == 0 && !s.fletcher32 && !s.crc32;
      if (!is_unencoded || digest) added.storage = wanted_stream::kind::decoded;
      if (s.in_memory != nullptr) added.storage = wanted_stream::kind::in_memory;
      wanted_streams_.push_back(added);
      streams_.push_back({&s, std::max(element_bytes, 1U), digest});
    }
    to.pieces.push_back({index, stored_piece.first_byte, stored_piece.origin, stored_piece.extent,
                         stored_piece.stride_bytes});
  }
  to.form.pieces = to.pieces;
}

// A fused tensor is one dense row-major arena block. Each box of the fused tensor uses the strides
// of the fused tensor. In a fill, each box uses the strides of the caller's memory instead.
void plan_input_builder::add_fused(const chosen_tensor& chosen) {
  std::uint64_t before = 0;
  for (const box& source_box : chosen.boxes) {
    if (into_.empty()) break;
    add(source_box, chosen);
    put_into(forms_.back(), source_box, chosen, before);
    before += range_of(source_box, chosen.dim).count();
  }
  if (!into_.empty()) return;
  const auto tensor = static_cast<std::uint32_t>(&chosen - chosen_.data());
  block_of_[tensor] = static_cast<std::uint32_t>(blocks_.size());
  std::uint64_t offset = 0;
  const std::size_t first = tensors_.size();
  for (const box& source_box : chosen.boxes) {
    add(source_box, chosen);
    wanted_tensor& w = tensors_.back();
    const tensor_info& t = from_.named->catalog().tensors[source_box.tensor];
    if (!(w.cast == tensors_[first].cast) && !refused_) {
      refused_ = fault{errc::invalid_selection, tensor_place(from_.named->catalog(), t),
                       "it is fused with a tensor that is converted differently"};
    }
    const auto blocks = blocks_of(t);
    const std::vector<std::uint64_t> shape =
        blocks ? in_blocks(chosen.shape, *blocks) : chosen.shape;
    form_memory& memory = forms_.back();
    const std::uint64_t width = w.cast.needed() ? w.cast.to_bytes() : memory.form.element_bits / 8;
    memory.strides.resize(shape.size());
    std::uint64_t stride = width;
    for (std::size_t d = shape.size(); d-- > 0;) {
      memory.strides[d] = static_cast<std::int64_t>(stride);
      stride *= shape[d];
    }
    memory.form.destination_strides = memory.strides;
    memory.form.block = block_of_[tensor];
    memory.form.destination_offset = offset;
    std::uint64_t along = range_of(source_box, chosen.dim).count();
    if (blocks && chosen.dim + 1 == shape.size()) along /= size_of(*blocks).elements;
    offset += along * static_cast<std::uint64_t>(memory.strides[chosen.dim]);
    // After the loop over the dimensions, `stride` is the size of the fused tensor in bytes. The
    // size is the same for every box.
    blocks_.resize(block_of_[tensor] + 1);
    blocks_.back() = {stride, w.alignment, w.arena};
  }
}

plan_input plan_input_builder::input() const noexcept {
  plan_input out;
  out.tensors = tensors_;
  out.streams = wanted_streams_;
  out.destinations = destinations_;
  out.blocks = blocks_;
  out.arenas = arenas_;
  if (tensors_.size() != chosen_.size()) out.result_of = tensor_of_;
  return out;
}

std::optional<std::uint32_t> plan_input_builder::first_converted() const noexcept {
  const auto converted =
      std::ranges::find_if(tensors_, [](const wanted_tensor& w) { return w.cast.needed(); });
  if (converted == tensors_.end()) return std::nullopt;
  return tensor_of_[static_cast<std::size_t>(converted - tensors_.begin())];
}

std::vector<std::uint64_t> plan_input_builder::loaded_bytes_by_tensor() const {
  std::vector<std::uint64_t> out(chosen_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const wanted_tensor& w = tensors_[i];
    std::uint64_t bytes = w.bytes;
    if (w.form != nullptr && !w.form->box.empty()) {
      bytes = w.form->element_bits;
      for (const range& extent : w.form->box) bytes *= extent.count();
      bytes /= 8;
    }
    out[tensor_of_[i]] += w.cast.needed() ? bytes / w.cast.from_bytes() * w.cast.to_bytes() : bytes;
  }
  return out;
}

}  // namespace ringload::inline v0::detail
