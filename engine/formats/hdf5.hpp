// SPDX-License-Identifier: Apache-2.0
#pragma once

// HDF5. What libhdf5 finds in a file is data here, and checked as if it were the file itself: it
// may come from another process, one that a hostile file has taken over. So nothing here knows
// libhdf5; the component hdf5 does (engine/hdf5).

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

inline constexpr std::size_t hdf5_rank_max = 64;  // 32 of a dataset, and those of its elements.
inline constexpr std::size_t hdf5_filters_max = 32;
inline constexpr std::size_t hdf5_names_max = 1'000'000;  // Of datasets, with those left out.
inline constexpr std::size_t hdf5_depth_max = 64;         // Groups in groups.
inline constexpr std::size_t hdf5_name_bytes_max = 4096;
inline constexpr std::size_t hdf5_chunks_max = 1'000'000;  // Of all datasets together.
inline constexpr std::size_t hdf5_attributes_max = 100'000;

// All datasets together, and the chunks that are decoded for them, have at most so many bytes, or
// this many times the file's: what grows more was made to exhaust a machine.
inline constexpr std::uint64_t hdf5_bytes_usual = std::uint64_t{1} << 30;
inline constexpr std::uint64_t hdf5_ratio_max = 200;

struct hdf5_chunk {
  std::uint64_t offset = 0;       // From the beginning of the file.
  std::uint64_t bytes = 0;        // Stored.
  std::uint32_t filter_mask = 0;  // Bit n: the nth filter was not applied.
};

// A dataset of numbers.
struct hdf5_dataset {
  enum class kind : std::uint8_t {
    contiguous,
    compact,  // In its header.
    chunked,
  };

  std::vector<std::string> names;  // Those of the groups and its own, joined by dots; at least one.
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
  bool partial_chunks_unfiltered = false;  // Those that reach over the dataset's edge.
  std::vector<hdf5_chunk> chunks;
  std::vector<std::uint64_t> chunk_origins;  // By chunk, as many as there are dimensions.
};

// An attribute of the file or of a group: texts or numbers, one or a list.
struct hdf5_attribute {
  enum class kind : std::uint8_t { texts, floats, integers, naturals };

  std::string name;  // Of the group and its own, joined by a dot.
  bool is_list = false;
  kind value_kind = kind::texts;
  std::vector<std::string> texts;
  std::vector<double> floats;
  std::vector<std::int64_t> integers;
  std::vector<std::uint64_t> naturals;
};

// A link that leads to no tensor.
struct hdf5_left_out {
  std::string name;
  std::string reason;    // "it holds strings"
  bool numbers = false;  // It holds numbers, in a form that is not read.
};

struct hdf5_contents {
  std::vector<hdf5_dataset> datasets;
  std::vector<hdf5_attribute> attributes;
  std::vector<hdf5_left_out> left_out;
  std::uint64_t attributes_left_out = 0;
};

// libhdf5, wherever it runs. An extension brings it.
class hdf5_library {
 public:
  virtual ~hdf5_library() = default;

  // What is in the open file, whose position is not used. Any thread. Faults name the place in the
  // file.
  virtual result<hdf5_contents> describe(int file) const = 0;
};

// The tensors, each name one of its own; several names of one dataset share its bytes. In strict,
// numbers in a form that is not read are unsupported_feature; else they are left out with a note.
// What holds no numbers is left out with a note.
result<file_entries> parse_hdf5(hdf5_contents found, std::uint64_t file_bytes,
                                strictness strictness);

}  // namespace ringload::inline v0
