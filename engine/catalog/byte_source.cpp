// SPDX-License-Identifier: Apache-2.0

#include <ringload/byte_source.hpp>
#include <ringload/error.hpp>

namespace ringload::inline v0 {

byte_source::~byte_source() = default;
bool byte_source::has_unverified_bytes() const noexcept { return false; }
bool byte_source::drop_copy() { return false; }
byte_folder::~byte_folder() = default;
byte_target::~byte_target() = default;
byte_store::~byte_store() = default;

std::vector<std::string> byte_folder::names_beneath(const std::stop_token& stop) {
  return names(stop);
}
void byte_folder::expect(std::span<const std::string>, const std::stop_token&) {}

std::shared_ptr<byte_target> byte_store::create(const target_request&) {
  throw error(errc::unsupported_feature, "", "this store only reads objects");
}

}  // namespace ringload::inline v0
