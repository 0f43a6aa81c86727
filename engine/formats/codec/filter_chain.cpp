// SPDX-License-Identifier: Apache-2.0

#include "formats/codec/filter_chain.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "formats/codec/fletcher32.hpp"
#include "formats/codec/shuffle.hpp"

namespace ringload::inline v0 {

namespace {

class chain_decoder final : public decoder {
 public:
  chain_decoder(filter_chain filters, std::uint64_t stored_bytes, std::uint64_t decoded_bytes)
      : filters_(std::move(filters)), stored_bytes_(stored_bytes), decoded_bytes_(decoded_bytes) {}

  result<progress> decode(std::span<const std::byte> in, std::span<std::byte> out) override {
    progress step;
    if (!decoded_) {
      step.taken = std::min(in.size(), stored_bytes_ - chunk_.size());
      chunk_.insert(chunk_.end(), in.begin(), in.begin() + static_cast<std::ptrdiff_t>(step.taken));
      if (chunk_.size() < stored_bytes_) return step;
      if (auto status = undo_all(); !status) return status.error();
      decoded_ = true;
    }
    step.produced = std::min(out.size(), chunk_.size() - produced_);
    std::ranges::copy(std::span(chunk_).subspan(produced_, step.produced), out.begin());
    produced_ += step.produced;
    step.ended = produced_ == chunk_.size();
    return step;
  }

 private:
  result<void> undo_all() {
    // Number of checksums that are not yet removed. If the writer added a checksum before zlib, the
    // decompressed bytes include the checksum.
    auto checksums_left = static_cast<std::uint64_t>(
        std::ranges::count(filters_, chain_filter::kind::fletcher32, &chain_filter::filter));
    for (std::size_t i = filters_.size(); i-- > 0;) {
      result<void> status;
      switch (filters_[i].filter) {
        case chain_filter::kind::shuffle: undo_shuffle(filters_[i].element_bytes); break;
        case chain_filter::kind::zlib:
          status = inflate(decoded_bytes_ + checksums_left * checksum_bytes);
          break;
        case chain_filter::kind::fletcher32:
          status = verify_and_remove_checksum();
          --checksums_left;
          break;
      }
      if (!status) return status;
    }
    if (chunk_.size() == decoded_bytes_) return {};
    return malformed_stream("it decodes to " + grouped(chunk_.size()) + " bytes, the header says " +
                            grouped(decoded_bytes_));
  }

  void undo_shuffle(std::size_t width) {
    if (width < 2) return;
    std::vector<std::byte> out(chunk_.size());
    unshuffle(chunk_, width, 0, out);
    chunk_ = std::move(out);
  }

  result<void> inflate(std::uint64_t bytes) {
    auto inflater = make_decoder(codec::zlib, 1);
    if (!inflater) return inflater.error();
    // The buffer has one additional byte. If the decoder writes this byte, the output is too long.
    std::vector<std::byte> out(static_cast<std::size_t>(bytes) + 1);
    std::span<const std::byte> in = chunk_;
    std::span<std::byte> buffer = out;
    for (;;) {
      auto step = (*inflater)->decode(in, buffer);
      if (!step) return step.error();
      in = in.subspan(step->taken);
      buffer = buffer.subspan(step->produced);
      if (step->ended) break;
      if (buffer.empty() || (step->taken == 0 && step->produced == 0)) {
        return malformed_stream("its deflated stream does not end after " +
                                grouped(out.size() - buffer.size()) + " bytes");
      }
    }
    if (!in.empty())
      return malformed_stream(grouped(in.size()) + " bytes follow the end of its deflated stream");
    out.resize(out.size() - buffer.size());
    chunk_ = std::move(out);
    return {};
  }

  result<void> verify_and_remove_checksum() {
    if (chunk_.size() < checksum_bytes) {
      return malformed_stream("it has " + grouped(chunk_.size()) + " bytes, expected at least " +
                              grouped(checksum_bytes) + " for its checksum");
    }
    const std::span<const std::byte> chunk = chunk_;
    const std::size_t summed = chunk.size() - checksum_bytes;
    fletcher32 sum;
    sum.take(chunk.first(summed));
    std::uint32_t stated = 0;
    for (std::size_t i = 0; i < checksum_bytes; ++i) {
      stated |= static_cast<std::uint32_t>(chunk[summed + i]) << (8U * i);
    }
    if (!same_fletcher32(sum.value(), stated)) return malformed_stream("wrong Fletcher checksum");
    chunk_.resize(summed);
    return {};
  }

  static constexpr std::size_t checksum_bytes = 4;

  const filter_chain filters_;
  const std::uint64_t stored_bytes_;
  const std::uint64_t decoded_bytes_;
  // The stored bytes until the chunk is decoded, then the decoded bytes.
  std::vector<std::byte> chunk_;
  std::size_t produced_ = 0;
  bool decoded_ = false;
};

}  // namespace

result<std::unique_ptr<decoder>> make_chain_decoder(filter_chain filters,
                                                    std::uint64_t stored_bytes,
                                                    std::uint64_t decoded_bytes) {
  if (stored_bytes > chunk_bytes_max || decoded_bytes > chunk_bytes_max) {
    return malformed_stream("a filtered chunk has " +
                            grouped(std::max(stored_bytes, decoded_bytes)) +
                            " bytes, the limit is " + grouped(chunk_bytes_max));
  }
  return std::unique_ptr<decoder>(
      std::make_unique<chain_decoder>(std::move(filters), stored_bytes, decoded_bytes));
}

}  // namespace ringload::inline v0
