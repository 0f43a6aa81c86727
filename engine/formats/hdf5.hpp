// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts the description of an HDF5 file to catalog entries, without libhdf5. A malicious file
// may control the process that writes the description. Therefore the description is checked as
// strictly as a file. Only the component hdf5 (engine/formats/hdf5) uses libhdf5.

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

// Limit for the rank: 32 dimensions of a dataset, plus the dimensions of array elements.
inline constexpr std::size_t hdf5_rank_max = 64;
inline constexpr std::size_t hdf5_filters_max = 32;
// Limit for the links of a file, and for the names of its tensors.
inline constexpr std::size_t hdf5_names_max = 1'000'000;
inline constexpr std::size_t hdf5_depth_max = 64;  // Limit for the depth of nested groups.
inline constexpr std::size_t hdf5_name_bytes_max = 4096;
inline constexpr std::size_t hdf5_chunks_max = 1'000'000;  // Limit for the chunks of all datasets.
inline constexpr std::size_t hdf5_attributes_max = 100'000;

// Limit for the size of all datasets plus the size of their decoded chunks, because a malicious
// file may try to exhaust memory. The limit is the larger of two numbers: hdf5_bytes_usual, and
// hdf5_ratio_max multiplied by the size of the file.
inline constexpr std::uint64_t hdf5_bytes_usual = std::uint64_t{1} << 30;
inline constexpr std::uint64_t hdf5_ratio_max = 200;

struct hdf5_chunk {
  std::uint64_t offset = 0;       // From the beginning of the file.
  std::uint64_t bytes = 0;        // Number of stored bytes.
  std::uint32_t filter_mask = 0;  // If bit n is set, the filter number n was not applied.
};

// A dataset of numbers.
struct hdf5_dataset {
  enum class kind : std::uint8_t {
    contiguous,
    compact,  // The elements are in the object header.
    chunked,
  };

  // At least one name. A name consists of the names of groups and the name of the dataset, joined
  // by dots.
  std::vector<std::string> names;
  ringload::dtype dtype = dtype::u8;
  bool big_endian = false;
  std::vector<std::uint64_t> shape;
  kind layout = kind::contiguous;
  // Only for a contiguous dataset. Offset from the beginning of the file.
  std::uint64_t offset = 0;
  // Only for a contiguous dataset. Number of stored bytes, or 0 if no elements were written.
  std::uint64_t bytes = 0;
  std::vector<std::byte> compact;  // Only for a compact dataset. The stored elements.
  // The value of elements that were not written, as one stored element. Empty for zeros.
  std::vector<std::byte> fill;
  std::vector<std::uint64_t> chunk_shape;
  filter_chain filters;
  // True if chunks that extend over the edge of the dataset are stored without filters.
  bool partial_chunks_unfiltered = false;
  std::vector<hdf5_chunk> chunks;
  std::vector<std::uint64_t> chunk_origins;  // One number for each dimension of each chunk.
};

// An attribute of the file or of a group: a text, a number, or a list of texts or numbers.
struct hdf5_attribute {
  enum class kind : std::uint8_t { texts, floats, integers, naturals };

  std::string name;  // The name of the group and the name of the attribute, joined by a dot.
  bool is_list = false;
  kind value_kind = kind::texts;
  std::vector<std::string> texts;
  std::vector<double> floats;
  std::vector<std::int64_t> integers;
  std::vector<std::uint64_t> naturals;
};

// A link to an object that does not become a tensor.
struct hdf5_left_out {
  std::string name;
  std::string reason;    // For example "it holds strings".
  bool numbers = false;  // True if the object contains numbers in an unsupported form.
};

struct hdf5_contents {
  std::vector<hdf5_dataset> datasets;
  std::vector<hdf5_attribute> attributes;
  std::vector<hdf5_left_out> left_out;
  std::uint64_t attributes_left_out = 0;
};

// Describes HDF5 files with libhdf5, in this process or in another process. The component hdf5
// implements this interface.
class hdf5_library {
 public:
  virtual ~hdf5_library() = default;

  // Describes the open file with the descriptor `file`, and ignores its file position. Thread-safe.
  // The `where()` of a fault is the place in the file.
  virtual result<hdf5_contents> describe(int file) const = 0;
};

// If a dataset has several names, each name becomes a tensor, and these tensors share the bytes of
// the dataset. If two tensors have the same name, returns errc::duplicate_tensor. If numbers have
// an unsupported form, `strictness::strict` returns errc::unsupported_feature, and
// `strictness::reference` omits the object and adds a note. Objects without numbers are always
// omitted, with a note.
result<file_entries> parse_hdf5(hdf5_contents contents, std::uint64_t file_bytes,
                                strictness strictness);

}  // namespace ringload::inline v0
