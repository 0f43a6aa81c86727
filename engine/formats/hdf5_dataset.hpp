// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0 {

class hdf5_dataset_parser {
 public:
  hdf5_dataset_parser(hdf5_dataset&& dataset, std::uint64_t file_bytes)
      : dataset_(std::move(dataset)), file_bytes_(file_bytes) {}

  // Returns the tensor without its name.
  result<entry> parse();

  // Returns the size of the dataset plus the size of all its chunks after decoding. parse_hdf5()
  // limits the total of all datasets of a file.
  std::uint64_t decoded_bytes() const noexcept { return decoded_bytes_; }

 private:
  result<void> check_shape();
  result<void> place_contiguous(entry& out);
  result<void> place_compact(entry& out);
  result<void> place_chunks(entry& out);
  result<void> check_chunks();
  result<void> check_filters() const;
  result<piece> piece_of(std::size_t chunk);
  result<stored_stream> stream_of(const hdf5_chunk& chunk, bool is_partial);
  std::span<const std::uint64_t> origin_of(std::size_t chunk) const {
    return std::span(dataset_.chunk_origins)
        .subspan(chunk * dataset_.shape.size(), dataset_.shape.size());
  }
  bool inside_file(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return offset <= file_bytes_ && bytes <= file_bytes_ - offset;
  }

  hdf5_dataset dataset_;
  const std::uint64_t file_bytes_;
  std::uint64_t element_bytes_ = 1;
  std::uint64_t bytes_ = 0;
  std::uint64_t chunk_bytes_ = 0;
  std::uint64_t decoded_bytes_ = 0;
  // The last filter chain that stream_of() created. Chunks with the same filters share the chain.
  std::shared_ptr<const filter_chain> chain_;
};

}  // namespace ringload::inline v0
