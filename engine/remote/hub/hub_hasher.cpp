// SPDX-License-Identifier: Apache-2.0
#include "remote/hub/hub_hasher.hpp"

#include <openssl/evp.h>

#include <array>

#include "formats/checksum_list.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::size_t sha1_digits = 40;

}  // namespace

void hub_hasher::context_free::operator()(evp_md_ctx_st* context) const noexcept {
  ::EVP_MD_CTX_free(context);
}

result<hub_hasher> hub_hasher::make(std::string_view digest, std::uint64_t file_bytes) {
  const bool is_sha1 = digest.size() == sha1_digits;
  hub_hasher out;
  out.context_.reset(::EVP_MD_CTX_new());
  const ::EVP_MD* const kind = is_sha1 ? ::EVP_sha1() : ::EVP_sha256();
  if (!out.context_ || ::EVP_DigestInit_ex(out.context_.get(), kind, nullptr) != 1) {
    return fault{errc::digest_unavailable, "", "OpenSSL does not provide the digest of this file"};
  }
  if (is_sha1) {  // Git hashes a header that ends with a NUL byte, then the content.
    const std::string head = "blob " + std::to_string(file_bytes);
    ::EVP_DigestUpdate(out.context_.get(), head.c_str(), head.size() + 1);
  }
  return out;
}

void hub_hasher::update(std::span<const std::byte> bytes) {
  ::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
}

std::string hub_hasher::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> value = {};
  unsigned length = 0;
  ::EVP_DigestFinal_ex(context_.get(), value.data(), &length);
  return hex(std::as_bytes(std::span(value).first(length)));
}

}  // namespace ringload::inline v0::remote_http
