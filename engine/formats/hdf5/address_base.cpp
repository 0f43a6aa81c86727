// SPDX-License-Identifier: Apache-2.0

#include "formats/hdf5/address_base.hpp"

#include <array>
#include <cstring>

#include "formats/hdf5/library.hpp"

namespace ringload::inline v0::h5 {

namespace {

using probe_bytes = std::array<unsigned char, 64>;

// `dataset` must have exactly one chunk.
bool read_chunk_address(hid_t dataset, haddr_t& address) {
  const handle space(::H5Dget_space(dataset), &::H5Sclose);
  hsize_t origin = 0;
  unsigned mask = 0;
  hsize_t bytes = 0;
  return space &&
         ::H5Dget_chunk_info(dataset, space.get(), 0, &origin, &mask, &address, &bytes) >= 0 &&
         bytes == sizeof(probe_bytes);
}

handle write_probe(hid_t file, const probe_bytes& pattern) {
  const hsize_t size = pattern.size();
  const handle creation(::H5Pcreate(H5P_DATASET_CREATE), &::H5Pclose);
  const handle space(::H5Screate_simple(1, &size, nullptr), &::H5Sclose);
  if (!creation || !space || ::H5Pset_chunk(creation.get(), 1, &size) < 0) return {};
  handle dataset(::H5Dcreate2(file, "probe", H5T_NATIVE_UCHAR, space.get(), H5P_DEFAULT,
                              creation.get(), H5P_DEFAULT),
                 &::H5Dclose);
  if (!dataset || ::H5Dwrite(dataset.get(), H5T_NATIVE_UCHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                             pattern.data()) < 0) {
    return {};
  }
  if (::H5Fflush(file, H5F_SCOPE_LOCAL) < 0) return {};
  return dataset;
}

// Returns 1 if libhdf5 counts chunk addresses from the end of the user block. Returns 0 if libhdf5
// counts from the beginning of the file. Returns a negative number if a call of libhdf5 failed, or
// if the chunk is at neither address.
int addresses_count_from_block_end() {
  constexpr hsize_t block_bytes = 512;
  constexpr std::size_t memory_step = std::size_t{64} << 10;
  probe_bytes pattern;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    pattern[i] = static_cast<unsigned char>(0xA5U ^ (i * 37U));
  }
  const handle creation(::H5Pcreate(H5P_FILE_CREATE), &::H5Pclose);
  const handle access(::H5Pcreate(H5P_FILE_ACCESS), &::H5Pclose);
  if (!creation || !access || ::H5Pset_userblock(creation.get(), block_bytes) < 0 ||
      ::H5Pset_fapl_core(access.get(), memory_step, 0) < 0) {
    return -1;
  }
  const handle file(::H5Fcreate("ringload probe", H5F_ACC_TRUNC, creation.get(), access.get()),
                    &::H5Fclose);
  if (!file) return -1;
  const handle dataset = write_probe(file.get(), pattern);
  haddr_t address = 0;
  void* memory = nullptr;
  hsize_t file_bytes = 0;
  if (!dataset || !read_chunk_address(dataset.get(), address) ||
      ::H5Fget_vfd_handle(file.get(), access.get(), &memory) < 0 || memory == nullptr ||
      ::H5Fget_filesize(file.get(), &file_bytes) < 0) {
    return -1;
  }
  const auto* const bytes = *static_cast<const unsigned char* const*>(memory);
  const auto is_at = [&](haddr_t offset) {
    return pattern.size() <= file_bytes && offset <= file_bytes - pattern.size() &&
           std::memcmp(bytes + offset, pattern.data(), pattern.size()) == 0;
  };
  if (is_at(address)) return 0;
  return is_at(address + block_bytes) ? 1 : -1;
}

}  // namespace

result<std::uint64_t> chunk_address_base(hid_t file) {
  const handle creation(::H5Fget_create_plist(file), &::H5Pclose);
  hsize_t bytes = 0;
  if (!creation || ::H5Pget_userblock(creation.get(), &bytes) < 0) return refused("");
  if (bytes == 0) return std::uint64_t{0};
  const int from_end = addresses_count_from_block_end();
  if (from_end < 0) {
    return fault{errc::unsupported_feature, "",
                 "the file has a user block, and the origin of its chunk addresses is unknown"};
  }
  return from_end == 1 ? std::uint64_t{bytes} : std::uint64_t{0};
}

}  // namespace ringload::inline v0::h5
