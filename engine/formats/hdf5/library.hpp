// SPDX-License-Identifier: Apache-2.0
#pragma once

// Wrappers for libhdf5 1.10.5 and later: RAII handles, and functions that version 1.12 renamed.

#include <hdf5.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/fault.hpp"

#if !H5_VERSION_GE(1, 10, 5)
#error "ringload_hdf5 needs libhdf5 1.10.5, the first version that reports the positions of chunks"
#endif

namespace ringload::inline v0::h5 {

class handle {
 public:
  handle() = default;
  handle(hid_t id, herr_t (*close)(hid_t)) noexcept : id_(id), close_(close) {}
  handle(handle&& source) noexcept
      : id_(std::exchange(source.id_, H5I_INVALID_HID)), close_(source.close_) {}
  handle& operator=(handle&& source) noexcept {
    std::swap(id_, source.id_);
    std::swap(close_, source.close_);
    return *this;
  }
  ~handle() {
    if (id_ >= 0) close_(id_);
  }

  hid_t get() const noexcept { return id_; }
  explicit operator bool() const noexcept { return id_ >= 0; }

 private:
  hid_t id_ = H5I_INVALID_HID;
  herr_t (*close_)(hid_t) = nullptr;
};

// Identifies an object within its file.
using object_key = std::array<std::uint8_t, 16>;

struct object_info {
  object_key key = {};
  H5O_type_t type = H5O_TYPE_UNKNOWN;
};

#if H5_VERSION_GE(1, 12, 0)
using link_info = H5L_info2_t;

inline bool get_info(hid_t location, const char* name, hid_t access, object_info& out) noexcept {
  H5O_info2_t info = {};
  if (::H5Oget_info_by_name3(location, name, &info, H5O_INFO_BASIC, access) < 0) return false;
  static_assert(sizeof info.token == sizeof out.key);
  std::memcpy(out.key.data(), &info.token, sizeof out.key);
  out.type = info.type;
  return true;
}
inline herr_t iterate_links(hid_t location,
                            herr_t (*callback)(hid_t, const char*, const link_info*, void*),
                            void* user_data) noexcept {
  return ::H5Literate2(location, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, callback, user_data);
}
// The address is unknown, because the form of the token in the key depends on the storage plugin.
inline std::optional<std::uint64_t> address_of(const object_key&) noexcept { return std::nullopt; }
#else
using link_info = H5L_info_t;

inline bool get_info(hid_t location, const char* name, hid_t access, object_info& out) noexcept {
  H5O_info_t info = {};
  if (::H5Oget_info_by_name2(location, name, &info, H5O_INFO_BASIC, access) < 0) return false;
  std::memcpy(out.key.data(), &info.addr, sizeof info.addr);
  out.type = info.type;
  return true;
}
inline std::optional<std::uint64_t> address_of(const object_key& key) noexcept {
  haddr_t address = 0;
  std::memcpy(&address, key.data(), sizeof address);
  return address;
}
inline herr_t iterate_links(hid_t location,
                            herr_t (*callback)(hid_t, const char*, const link_info*, void*),
                            void* user_data) noexcept {
  return ::H5Literate(location, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, callback, user_data);
}
#endif

// Returns the innermost reason for the last failure of libhdf5.
std::string last_reason();

// Returns the fault for a failed call of libhdf5. The code is errc::malformed_header, because the
// file is the usual cause.
inline fault refused(std::string where) {
  return {errc::malformed_header, std::move(where), "libhdf5: " + last_reason()};
}

}  // namespace ringload::inline v0::h5
