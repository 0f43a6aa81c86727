// SPDX-License-Identifier: Apache-2.0
#pragma once

// libhdf5, 1.10.5 and later: its handles as owners, and what changed its name from 1.12 on.

#include <hdf5.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "core/fault.hpp"

#if !H5_VERSION_GE(1, 10, 5)
#error "ringload_hdf5 needs libhdf5 1.10.5, the first that says where chunks lie"
#endif

namespace ringload::inline v0::h5 {

class handle {
 public:
  handle() = default;
  handle(hid_t id, herr_t (*close)(hid_t)) noexcept : id_(id), close_(close) {}
  handle(handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  handle& operator=(handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
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

// What an object is known by within its file.
using object_key = std::array<std::uint8_t, 16>;

struct object_info {
  object_key key = {};
  H5O_type_t type = H5O_TYPE_UNKNOWN;
};

#if H5_VERSION_GE(1, 12, 0)
using link_info = H5L_info2_t;

inline bool get_info(hid_t in, const char* name, hid_t access, object_info& out) noexcept {
  H5O_info2_t found = {};
  if (::H5Oget_info_by_name3(in, name, &found, H5O_INFO_BASIC, access) < 0) return false;
  static_assert(sizeof found.token == sizeof out.key);
  std::memcpy(out.key.data(), &found.token, sizeof out.key);
  out.type = found.type;
  return true;
}
inline herr_t iterate_links(hid_t in, herr_t (*each)(hid_t, const char*, const link_info*, void*),
                            void* with) noexcept {
  return ::H5Literate2(in, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, each, with);
}
// Only its plugin knows.
inline std::optional<std::uint64_t> address_of(const object_key&) noexcept { return std::nullopt; }
#else
using link_info = H5L_info_t;

inline bool get_info(hid_t in, const char* name, hid_t access, object_info& out) noexcept {
  H5O_info_t found = {};
  if (::H5Oget_info_by_name2(in, name, &found, H5O_INFO_BASIC, access) < 0) return false;
  std::memcpy(out.key.data(), &found.addr, sizeof found.addr);
  out.type = found.type;
  return true;
}
inline std::optional<std::uint64_t> address_of(const object_key& key) noexcept {
  haddr_t address = 0;
  std::memcpy(&address, key.data(), sizeof address);
  return address;
}
inline herr_t iterate_links(hid_t in, herr_t (*each)(hid_t, const char*, const link_info*, void*),
                            void* with) noexcept {
  return ::H5Literate(in, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, each, with);
}
#endif

// What libhdf5 says of its last failure, its innermost reason: "bad version number for layout
// message".
std::string last_reason();

// For a call that failed because of what the file holds.
inline fault refused(std::string where) {
  return {errc::malformed_header, std::move(where), "libhdf5: " + last_reason()};
}

}  // namespace ringload::inline v0::h5
