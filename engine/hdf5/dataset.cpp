// SPDX-License-Identifier: Apache-2.0
#include "hdf5/dataset.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>
#include <vector>

#include "core/checked.hpp"
#include "hdf5/chunk_places.hpp"
#include "hdf5/chunk_tree.hpp"
#include "hdf5/elements.hpp"
#include "hdf5/library.hpp"

namespace ringload::inline v0::h5 {

namespace {

constexpr std::size_t compact_bytes_max = std::size_t{64} << 10;  // The format's own limit.

using described = std::variant<hdf5_dataset, hdf5_left_out>;

// One dataset at work.
class describer {
 public:
  describer(const open_dataset& which, const dataset_limits& within)
      : dataset_(which.id), header_(which.header), place_(which.place), within_(within) {}

  result<described> describe();

 private:
  fault bad(errc code, std::string cause) const { return {code, place_, std::move(cause)}; }
  fault failed() const { return refused(place_); }

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
  void append_element_dimensions(std::vector<std::uint64_t>& to, bool as_zeros);

  const hid_t dataset_;
  const std::optional<std::uint64_t> header_;
  const std::string& place_;
  const dataset_limits& within_;
  handle type_, space_, creation_;
  element_form elements_;
  std::size_t rank_ = 0;  // Of the dataset, without its elements'.
  std::vector<hsize_t> size_max_;
  std::string left_out_;  // Why, if so.
  hdf5_dataset out_;
};

result<H5D_layout_t> describer::layout() {
  const H5D_layout_t found = ::H5Pget_layout(creation_.get());
  if (found == H5D_VIRTUAL) {
    return bad(errc::unsupported_feature,
               "it is a virtual dataset, made of others, perhaps in other files; none is opened");
  }
  if (found == H5D_LAYOUT_ERROR || found >= H5D_NLAYOUTS) return failed();
  const int others = ::H5Pget_external_count(creation_.get());
  if (others < 0) return failed();
  if (others > 0) {
    return bad(errc::unsupported_feature,
               "its elements are kept in other files (external storage), of which none is opened");
  }
  return found;
}

void describer::append_element_dimensions(std::vector<std::uint64_t>& to, bool as_zeros) {
  for (const std::uint64_t each : elements_.dimensions) to.push_back(as_zeros ? 0 : each);
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

// Elements that are arrays have a fill value of as many numbers; one stands for all if it can.
result<void> describer::read_fill() {
  H5D_fill_value_t kind = H5D_FILL_VALUE_ERROR;
  if (::H5Pfill_value_defined(creation_.get(), &kind) < 0) return failed();
  if (kind != H5D_FILL_VALUE_USER_DEFINED) return {};
  std::vector<std::byte> all(::H5Tget_size(type_.get()));
  if (::H5Pget_fill_value(creation_.get(), type_.get(), all.data()) < 0) return failed();
  const std::size_t one = bits(out_.dtype) / 8;
  if (all.size() < one || all.size() % one != 0) return failed();
  if (!std::equal(all.begin() + static_cast<std::ptrdiff_t>(one), all.end(), all.begin())) {
    return bad(errc::unsupported_feature, "its fill value is an array of different numbers");
  }
  all.resize(one);
  out_.fill = std::move(all);
  return {};
}

result<void> describer::read_compact() {
  const hssize_t count = ::H5Sget_simple_extent_npoints(space_.get());
  const auto bytes =
      count < 0 ? std::nullopt
                : checked_multiply(static_cast<std::uint64_t>(count), ::H5Tget_size(type_.get()));
  if (!bytes || *bytes > compact_bytes_max) {
    return bad(errc::wrong_tensor_bytes, "it is compact, but larger than that can be");
  }
  out_.compact.resize(static_cast<std::size_t>(*bytes));
  if (*bytes == 0) return {};
  // In the type of the file: nothing is converted.
  const herr_t done =
      ::H5Dread(dataset_, type_.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out_.compact.data());
  if (done < 0) return failed();
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

// False where one of the filters is not read.
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
        if (value_count < 1) return bad(errc::malformed_header, "its shuffle has no width");
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
                    "'); deflate, shuffle and fletcher32 are read";
        return false;
    }
  }
  return true;
}

result<void> describer::add_chunk(const hsize_t* origin, unsigned mask, haddr_t address,
                                  hsize_t bytes) {
  if (out_.chunks.size() >= within_.chunks_left) {
    return bad(errc::header_too_large,
               "the file has more than " + grouped(hdf5_chunks_max) + " chunks");
  }
  const auto offset = checked_add(address, within_.user_block);
  if (address == HADDR_UNDEF || !offset) {
    return bad(errc::malformed_header, "a chunk of it has no address");
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
    result<void> good;
    std::exception_ptr thrown;
  } all = {*this, {}, {}};
  const auto each = [](const hsize_t* origin, unsigned mask, haddr_t address, hsize_t bytes,
                       void* with) -> int {
    auto& to = *static_cast<state*>(with);
    try {
      to.good = to.self.add_chunk(origin, mask, address, bytes);
    } catch (...) {
      to.thrown = std::current_exception();  // Not through the frames of C.
    }
    return to.good && !to.thrown ? H5_ITER_CONT : H5_ITER_ERROR;
  };
  const herr_t done = ::H5Dchunk_iter(dataset_, H5P_DEFAULT, each, &all);
  if (all.thrown) std::rethrow_exception(all.thrown);
  if (!all.good) return all.good;
  if (done < 0) return failed();
  return {};
}

#else

// False where they are not in a tree that can be read, or are not what libhdf5 says.
result<bool> describer::read_tree(std::uint64_t count) {
  constexpr std::uint64_t quick = 256;  // For these libhdf5 is as fast.
  if (count <= quick || within_.file < 0 || !header_) return false;
  const tree_place at = {within_.file, within_.user_block, *header_, rank_};
  const auto found = read_chunk_tree(at, std::min<std::uint64_t>(count, hdf5_chunks_max + 1));
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
    const tree_chunk& each = found->chunks[i];
    const std::vector<hsize_t> place(
        found->origins.begin() + static_cast<std::ptrdiff_t>(i * rank_),
        found->origins.begin() + static_cast<std::ptrdiff_t>((i + 1) * rank_));
    auto good = add_chunk(place.data(), each.filter_mask, each.address, each.bytes);
    if (!good) return good.error();
  }
  return true;
}

// Each question walks the index from its beginning: see chunk_tree.hpp.
result<void> describer::read_chunks() {
  hsize_t count = 0;
  if (::H5Dget_num_chunks(dataset_, space_.get(), &count) < 0) return failed();
  auto done = read_tree(count);
  if (!done) return done.error();
  if (*done) return {};
  for (hsize_t i = 0; i < count; ++i) {
    std::array<hsize_t, H5S_MAX_RANK + 1> origin = {};
    unsigned mask = 0;
    haddr_t address = HADDR_UNDEF;
    hsize_t bytes = 0;
    if (::H5Dget_chunk_info(dataset_, space_.get(), i, origin.data(), &mask, &address, &bytes) <
        0) {
      return failed();
    }
    if (auto good = add_chunk(origin.data(), mask, address, bytes); !good) return good;
  }
  return {};
}

#endif

// libhdf5 keeps the chunks of a dataset that may grow along one dimension in an array, in an order
// in which that dimension comes first. When it lists them it says the places that they would have
// if it did not (1.10.8, 2.0.0). A look-up by place is right.
result<void> describer::check_places() {
  H5D_chunk_index_t kind = H5D_CHUNK_IDX_BTREE;
  if (out_.chunks.empty()) return {};
  if (::H5Dget_chunk_index_type(dataset_, &kind) < 0) return failed();
  const chunk_places places = {dataset_, size_max_, out_.chunk_shape, out_.shape.size()};
  if (kind != H5D_CHUNK_IDX_EARRAY || places.all_right(out_)) return {};
  if (places.reorder(out_.chunk_origins) && places.all_right(out_)) return {};
  return bad(errc::unsupported_feature, "libhdf5 lists its chunks at places where none is");
}

result<described> describer::describe() {
  creation_ = handle(::H5Dget_create_plist(dataset_), &::H5Pclose);
  if (!creation_) return failed();
  // First of all: asked for its shape, a virtual dataset may open files.
  auto kind = layout();
  if (!kind) return kind.error();
  type_ = handle(::H5Dget_type(dataset_), &::H5Tclose);
  space_ = handle(::H5Dget_space(dataset_), &::H5Sclose);
  if (!type_ || !space_) return failed();
  elements_ = element_form_of(type_.get());
  const auto left_out = [](std::string why, bool numbers) {
    return described(hdf5_left_out{{}, std::move(why), numbers});
  };
  if (!elements_.is_read) return left_out(std::move(elements_.why), elements_.numbers);
  if (::H5Sget_simple_extent_type(space_.get()) == H5S_NULL) {
    return left_out("it is empty (a null dataspace)", false);
  }
  out_.dtype = elements_.dtype;
  out_.big_endian = elements_.big_endian;
  if (auto good = read_shape(); !good) return good.error();
  if (auto good = read_fill(); !good) return good.error();
  switch (*kind) {
    case H5D_COMPACT:
      out_.layout = hdf5_dataset::kind::compact;
      if (auto good = read_compact(); !good) return good.error();
      break;
    case H5D_CHUNKED: {
      out_.layout = hdf5_dataset::kind::chunked;
      if (auto good = read_chunk_shape(); !good) return good.error();
      auto read = read_filters();
      if (!read) return read.error();
      if (!*read) return left_out(std::move(left_out_), true);
      if (auto good = read_chunks(); !good) return good.error();
      if (auto good = check_places(); !good) return good.error();
      break;
    }
    default: {
      // Where nothing was stored, the address is none, whatever the call says.
      out_.bytes = ::H5Dget_storage_size(dataset_);
      const haddr_t offset = ::H5Dget_offset(dataset_);
      if (out_.bytes > 0 && offset == HADDR_UNDEF) {
        return bad(errc::malformed_header, "its elements have no address");
      }
      out_.offset = out_.bytes > 0 ? offset : 0;
    }
  }
  return described(std::move(out_));
}

}  // namespace

result<described> describe_dataset(const open_dataset& which, const dataset_limits& within) {
  return describer(which, within).describe();
}

}  // namespace ringload::inline v0::h5
