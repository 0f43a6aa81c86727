// SPDX-License-Identifier: Apache-2.0

#include "formats/hdf5/dataset.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "formats/hdf5/chunk_index_fix.hpp"
#include "formats/hdf5/chunk_tree.hpp"
#include "formats/hdf5/library.hpp"
#include "formats/hdf5/type_mapping.hpp"

namespace ringload::inline v0::h5 {

namespace {

constexpr std::size_t compact_bytes_max = std::size_t{64} << 10;  // The limit of the format.

using described = std::variant<hdf5_dataset, hdf5_left_out>;

class describer {
 public:
  describer(const open_dataset& source, const file_context& file)
      : dataset_(source.id),
        header_address_(source.header_address),
        fault_place_(source.fault_place),
        file_(file) {}

  result<described> describe();

 private:
  fault fault_here(errc code, std::string cause) const {
    return {code, fault_place_, std::move(cause)};
  }
  fault failed() const { return refused(fault_place_); }

  result<H5D_layout_t> layout();
  result<void> read_shape();
  result<void> read_fill();
  result<void> read_compact();
  result<void> read_chunk_shape();
  result<bool> read_filters();
  result<void> read_chunks();
  result<void> add_chunk(const hsize_t* origin, unsigned mask, haddr_t address, hsize_t bytes);
#if !H5_VERSION_GE(1, 14, 0)
  result<bool> read_tree(std::uint64_t count);
#endif
  result<void> check_places();
  void append_element_dimensions(std::vector<std::uint64_t>& shape, bool as_zeros);

  const hid_t dataset_;
  const std::optional<std::uint64_t> header_address_;
  const std::string& fault_place_;
  const file_context& file_;
  handle type_, space_, creation_;
  element_form elements_;
  std::size_t rank_ = 0;  // Rank of the dataset, without the dimensions of its elements.
  std::vector<hsize_t> size_max_;
  std::string left_out_;  // The reason if the dataset is left out.
  hdf5_dataset out_;
};

result<H5D_layout_t> describer::layout() {
  const H5D_layout_t kind = ::H5Pget_layout(creation_.get());
  if (kind == H5D_VIRTUAL) {
    return fault_here(errc::unsupported_feature,
                      "it is a virtual dataset; other datasets and files are not opened");
  }
  if (kind == H5D_LAYOUT_ERROR || kind >= H5D_NLAYOUTS) return failed();
  const int external_files = ::H5Pget_external_count(creation_.get());
  if (external_files < 0) return failed();
  if (external_files > 0) {
    return fault_here(errc::unsupported_feature,
                      "its elements are in other files (external storage), which are not opened");
  }
  return kind;
}

void describer::append_element_dimensions(std::vector<std::uint64_t>& shape, bool as_zeros) {
  for (const std::uint64_t size : elements_.dimensions) shape.push_back(as_zeros ? 0 : size);
}

result<void> describer::read_shape() {
  std::array<hsize_t, H5S_MAX_RANK> sizes = {};
  const int rank = ::H5Sget_simple_extent_ndims(space_.get());
  if (rank < 0 || rank > H5S_MAX_RANK) return failed();
  rank_ = static_cast<std::size_t>(rank);
  size_max_.resize(rank_);
  if (::H5Sget_simple_extent_dims(space_.get(), sizes.data(), size_max_.data()) < 0) {
    return failed();
  }
  out_.shape.assign(sizes.begin(), sizes.begin() + rank);
  append_element_dimensions(out_.shape, false);
  return {};
}

// If the elements are arrays, their fill value is an array of numbers. These numbers must be equal,
// and out_.fill is one of these numbers.
result<void> describer::read_fill() {
  H5D_fill_value_t kind = H5D_FILL_VALUE_ERROR;
  if (::H5Pfill_value_defined(creation_.get(), &kind) < 0) return failed();
  if (kind != H5D_FILL_VALUE_USER_DEFINED) return {};
  std::vector<std::byte> fill(::H5Tget_size(type_.get()));
  if (::H5Pget_fill_value(creation_.get(), type_.get(), fill.data()) < 0) return failed();
  const std::size_t element_bytes = bits(out_.dtype) / 8;
  if (fill.size() < element_bytes || fill.size() % element_bytes != 0) return failed();
  if (!std::equal(fill.begin() + static_cast<std::ptrdiff_t>(element_bytes), fill.end(),
                  fill.begin())) {
    return fault_here(errc::unsupported_feature, "its fill value is an array of different numbers");
  }
  fill.resize(element_bytes);
  out_.fill = std::move(fill);
  return {};
}

result<void> describer::read_compact() {
  const hssize_t count = ::H5Sget_simple_extent_npoints(space_.get());
  const auto bytes =
      count < 0 ? std::nullopt
                : checked_multiply(static_cast<std::uint64_t>(count), ::H5Tget_size(type_.get()));
  if (!bytes || *bytes > compact_bytes_max) {
    return fault_here(errc::wrong_tensor_bytes,
                      "it is compact, but larger than " + grouped(compact_bytes_max) + " bytes");
  }
  out_.compact.resize(static_cast<std::size_t>(*bytes));
  if (*bytes == 0) return {};
  // Requests the elements in the type of the file, so that libhdf5 does not convert the elements.
  const herr_t status =
      ::H5Dread(dataset_, type_.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out_.compact.data());
  if (status < 0) return failed();
  return {};
}

result<void> describer::read_chunk_shape() {
  std::array<hsize_t, H5S_MAX_RANK> sizes = {};
  if (::H5Pget_chunk(creation_.get(), H5S_MAX_RANK, sizes.data()) != static_cast<int>(rank_)) {
    return failed();
  }
  out_.chunk_shape.assign(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(rank_));
  append_element_dimensions(out_.chunk_shape, false);
  unsigned options = 0;
  if (::H5Pget_chunk_opts(creation_.get(), &options) < 0) return failed();
  out_.partial_chunks_unfiltered = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
  return {};
}

// Returns false if a filter is not supported.
result<bool> describer::read_filters() {
  const int count = ::H5Pget_nfilters(creation_.get());
  if (count < 0 || count > static_cast<int>(hdf5_filters_max)) return failed();
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
    unsigned flags = 0;
    std::array<unsigned, 8> values = {};
    std::size_t value_count = values.size();
    std::array<char, 128> name = {};
    const H5Z_filter_t id = ::H5Pget_filter2(creation_.get(), i, &flags, &value_count,
                                             values.data(), name.size() - 1, name.data(), nullptr);
    switch (id) {
      case H5Z_FILTER_DEFLATE: out_.filters.push_back({chain_filter::kind::zlib, 0}); break;
      case H5Z_FILTER_SHUFFLE:
        if (value_count < 1)
          return fault_here(errc::malformed_header, "its shuffle filter has no width");
        out_.filters.push_back({chain_filter::kind::shuffle, values[0]});
        break;
      case H5Z_FILTER_FLETCHER32:
        out_.filters.push_back({chain_filter::kind::fletcher32, 0});
        break;
      case H5Z_FILTER_SZIP: left_out_ = "its chunks are compressed with szip"; return false;
      case H5Z_FILTER_NBIT: left_out_ = "its chunks are packed by the filter nbit"; return false;
      case H5Z_FILTER_SCALEOFFSET:
        left_out_ = "its chunks are packed by the filter scaleoffset";
        return false;
      default:
        if (id < 0) return failed();
        left_out_ = "its chunks have filter " + std::to_string(id) + " ('" + name.data() +
                    "'), expected deflate, shuffle or fletcher32";
        return false;
    }
  }
  return true;
}

result<void> describer::add_chunk(const hsize_t* origin, unsigned mask, haddr_t address,
                                  hsize_t bytes) {
  if (out_.chunks.size() >= file_.chunks_left) {
    return fault_here(errc::header_too_large,
                      "the file has more than " + grouped(hdf5_chunks_max) + " chunks");
  }
  const auto offset = checked_add(address, file_.address_base);
  if (address == HADDR_UNDEF || !offset) {
    return fault_here(errc::malformed_header, "one of its chunks has no address");
  }
  out_.chunks.push_back({*offset, bytes, mask});
  out_.chunk_origins.insert(out_.chunk_origins.end(), origin, origin + rank_);
  append_element_dimensions(out_.chunk_origins, true);
  return {};
}

#if H5_VERSION_GE(1, 14, 0)

result<void> describer::read_chunks() {
  struct state {
    describer& self;
    result<void> status;
    std::exception_ptr thrown;
  } collected = {*this, {}, {}};
  const auto append = [](const hsize_t* origin, unsigned mask, haddr_t address, hsize_t bytes,
                         void* user_data) -> int {
    auto& to = *static_cast<state*>(user_data);
    try {
      to.status = to.self.add_chunk(origin, mask, address, bytes);
    } catch (...) {
      // An exception must not pass through C functions.
      to.thrown = std::current_exception();
    }
    return to.status && !to.thrown ? H5_ITER_CONT : H5_ITER_ERROR;
  };
  const herr_t status = ::H5Dchunk_iter(dataset_, H5P_DEFAULT, append, &collected);
  if (collected.thrown) std::rethrow_exception(collected.thrown);
  if (!collected.status) return collected.status;
  if (status < 0) return failed();
  return {};
}

#else

// Adds the chunks from the tree. Returns false if there are few chunks, or if no tree can be read.
// Also returns false if libhdf5 reports another number of chunks or another first chunk than the
// tree has. If the result is false, the caller must use libhdf5.
result<bool> describer::read_tree(std::uint64_t count) {
  // Up to this number of chunks, libhdf5 is as fast as read_chunk_tree().
  constexpr std::uint64_t few_chunks = 256;
  if (count <= few_chunks || file_.fd < 0 || !header_address_) return false;
  const tree_place tree = {file_.fd, file_.address_base, *header_address_, rank_};
  const auto found = read_chunk_tree(tree, std::min<std::uint64_t>(count, hdf5_chunks_max + 1));
  if (!found) return false;
  std::array<hsize_t, H5S_MAX_RANK + 1> origin = {};
  unsigned mask = 0;
  haddr_t address = HADDR_UNDEF;
  hsize_t bytes = 0;
  const tree_chunk& first = found->chunks.front();
  if (::H5Dget_chunk_info(dataset_, space_.get(), 0, origin.data(), &mask, &address, &bytes) < 0 ||
      address != first.address || bytes != first.bytes || mask != first.filter_mask ||
      !std::equal(origin.begin(), origin.begin() + static_cast<std::ptrdiff_t>(rank_),
                  found->origins.begin())) {
    return false;
  }
  for (std::size_t i = 0; i < found->chunks.size(); ++i) {
    const tree_chunk& entry = found->chunks[i];
    const std::vector<hsize_t> place(
        found->origins.begin() + static_cast<std::ptrdiff_t>(i * rank_),
        found->origins.begin() + static_cast<std::ptrdiff_t>((i + 1) * rank_));
    auto status = add_chunk(place.data(), entry.filter_mask, entry.address, entry.bytes);
    if (!status) return status.error();
  }
  return true;
}

// Tries the tree first, because each call of libhdf5 searches the index from its beginning.
result<void> describer::read_chunks() {
  hsize_t count = 0;
  if (::H5Dget_num_chunks(dataset_, space_.get(), &count) < 0) return failed();
  auto from_tree = read_tree(count);
  if (!from_tree) return from_tree.error();
  if (*from_tree) return {};
  for (hsize_t i = 0; i < count; ++i) {
    std::array<hsize_t, H5S_MAX_RANK + 1> origin = {};
    unsigned mask = 0;
    haddr_t address = HADDR_UNDEF;
    hsize_t bytes = 0;
    if (::H5Dget_chunk_info(dataset_, space_.get(), i, origin.data(), &mask, &address, &bytes) <
        0) {
      return failed();
    }
    if (auto status = add_chunk(origin.data(), mask, address, bytes); !status) return status;
  }
  return {};
}

#endif

// Corrects the positions of the chunks if libhdf5 reports wrong positions. If a dataset has one
// unlimited dimension, libhdf5 stores its chunks in an extensible array, with this dimension first.
// The listing functions of libhdf5 1.10.8 and 2.0.0 ignore this order and report wrong positions. A
// lookup of a chunk by its position is correct.
result<void> describer::check_places() {
  H5D_chunk_index_t kind = H5D_CHUNK_IDX_BTREE;
  if (out_.chunks.empty()) return {};
  if (::H5Dget_chunk_index_type(dataset_, &kind) < 0) return failed();
  const chunk_places places = {dataset_, size_max_, out_.chunk_shape, out_.shape.size()};
  if (kind != H5D_CHUNK_IDX_EARRAY || places.are_correct(out_)) return {};
  if (places.reorder(out_.chunk_origins) && places.are_correct(out_)) return {};
  return fault_here(errc::unsupported_feature, "libhdf5 reports wrong positions for its chunks");
}

result<described> describer::describe() {
  creation_ = handle(::H5Dget_create_plist(dataset_), &::H5Pclose);
  if (!creation_) return failed();
  // layout() must be called first. Other calls may open the files of a virtual dataset.
  auto kind = layout();
  if (!kind) return kind.error();
  type_ = handle(::H5Dget_type(dataset_), &::H5Tclose);
  space_ = handle(::H5Dget_space(dataset_), &::H5Sclose);
  if (!type_ || !space_) return failed();
  elements_ = element_form_of(type_.get(), dataset_);
  const auto left_out = [](std::string reason, bool numbers) {
    return described(hdf5_left_out{{}, std::move(reason), numbers});
  };
  if (!elements_.is_read) return left_out(std::move(elements_.reason), elements_.numbers);
  if (::H5Sget_simple_extent_type(space_.get()) == H5S_NULL) {
    return left_out("it is empty (a null dataspace)", false);
  }
  out_.dtype = elements_.dtype;
  out_.big_endian = elements_.big_endian;
  if (auto status = read_shape(); !status) return status.error();
  if (auto status = read_fill(); !status) return status.error();
  switch (*kind) {
    case H5D_COMPACT:
      out_.layout = hdf5_dataset::kind::compact;
      if (auto status = read_compact(); !status) return status.error();
      break;
    case H5D_CHUNKED: {
      out_.layout = hdf5_dataset::kind::chunked;
      if (auto status = read_chunk_shape(); !status) return status.error();
      auto read = read_filters();
      if (!read) return read.error();
      if (!*read) return left_out(std::move(left_out_), true);
      if (auto status = read_chunks(); !status) return status.error();
      if (auto status = check_places(); !status) return status.error();
      break;
    }
    default: {
      // If no bytes are stored, H5Dget_offset() returns no meaningful address.
      out_.bytes = ::H5Dget_storage_size(dataset_);
      const haddr_t offset = ::H5Dget_offset(dataset_);
      if (out_.bytes > 0 && offset == HADDR_UNDEF) {
        return fault_here(errc::malformed_header, "its elements have no address");
      }
      out_.offset = out_.bytes > 0 ? offset : 0;
    }
  }
  return described(std::move(out_));
}

}  // namespace

result<described> describe_dataset(const open_dataset& source, const file_context& file) {
  return describer(source, file).describe();
}

}  // namespace ringload::inline v0::h5
