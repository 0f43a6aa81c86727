// SPDX-License-Identifier: Apache-2.0
#pragma once

// HDF5 without libhdf5. The description that libhdf5 returns is checked like the file itself,
// because it may come from another process that a hostile file controls. Only the component hdf5
// (engine/formats/hdf5) uses libhdf5.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ringload/catalog.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/codec/filter_chain.hpp"

namespace ringload::inline v0 {

inline constexpr std::size_t hdf5_rank_max = 64;  // 32 of a dataset, plus those of its elements.
inline constexpr std::size_t hdf5_filters_max = 32;
inline constexpr std::size_t hdf5_names_max =
    1'000'000;  // Limit for names of datasets, including left-out datasets.
inline constexpr std::size_t hdf5_depth_max = 64;  // Limit of nested groups.
inline constexpr std::size_t hdf5_name_bytes_max = 4096;
inline constexpr std::size_t hdf5_chunks_max = 1'000'000;  // Limit for all datasets.
inline constexpr std::size_t hdf5_attributes_max = 100'000;

// Limits for the size of all datasets and their decoded chunks: this number of bytes or, if larger,
// this multiple of the file's size. A larger file is an attack on memory.
inline constexpr std::uint64_t hdf5_bytes_usual = std::uint64_t{1} << 30;
inline constexpr std::uint64_t hdf5_ratio_max = 200;

struct hdf5_chunk {
  std::uint64_t offset = 0;       // From the beginning of the file.
  std::uint64_t bytes = 0;        // Stored bytes.
  std::uint32_t filter_mask = 0;  // Bit n: the nth filter was not applied.
};

// A dataset of numbers.
struct hdf5_dataset {
  enum class kind : std::uint8_t {
    contiguous,
    compact,  // In the object header.
    chunked,
  };

  std::vector<std::string> names;  // Group names and own name joined by dots. At least one.
  ringload::dtype dtype = dtype::u8;
  bool big_endian = false;
  std::vector<std::uint64_t> shape;
  kind layout = kind::contiguous;
  std::uint64_t offset = 0;        // Contiguous: from the beginning of the file.
  std::uint64_t bytes = 0;         // Contiguous: stored; 0: none were ever written.
  std::vector<std::byte> compact;  // The elements as they are stored.
  std::vector<std::byte> fill;     // One element, as stored; empty: zeros.
  std::vector<std::uint64_t> chunk_shape;
  filter_chain filters;
  bool partial_chunks_unfiltered = false;  // Partial chunks extend over the dataset's edge.
  std::vector<hdf5_chunk> chunks;
  std::vector<std::uint64_t> chunk_origins;  // For each chunk, one number for each dimension.
};

// An attribute of the file or of a group: texts or numbers, single or a list.
struct hdf5_attribute {
  enum class kind : std::uint8_t { texts, floats, integers, naturals };

  std::string name;  // Group name and own name joined by a dot.
  bool is_list = false;
  kind value_kind = kind::texts;
  std::vector<std::string> texts;
  std::vector<double> floats;
  std::vector<std::int64_t> integers;
  std::vector<std::uint64_t> naturals;
};

// A link without a tensor.
struct hdf5_left_out {
  std::string name;
  std::string reason;    // "it holds strings"
  bool numbers = false;  // Contains numbers in an unsupported form.
};

struct hdf5_contents {
  std::vector<hdf5_dataset> datasets;
  std::vector<hdf5_attribute> attributes;
  std::vector<hdf5_left_out> left_out;
  std::uint64_t attributes_left_out = 0;
};

// Interface of libhdf5 in this or another process. An extension implements it.
class hdf5_library {
 public:
  virtual ~hdf5_library() = default;

  // Describes the open file, whose position is not used. May be called on any thread. Faults name
  // the place in the file.
  virtual result<hdf5_contents> describe(int file) const = 0;
};

// Returns the tensors with unique names. Several names of one dataset share its bytes. Numbers in
// an unsupported form are unsupported_feature in strict, and otherwise left out with a note.
// Objects without numbers are left out with a note.
result<file_entries> parse_hdf5(hdf5_contents found, std::uint64_t file_bytes,
                                strictness strictness);

}  // namespace ringload::inline v0
