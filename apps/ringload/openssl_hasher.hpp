// SPDX-License-Identifier: Apache-2.0
#pragma once

// A ringload::hasher that uses OpenSSL, for `checksum_list::sha256`. The library itself links no
// cryptography. Programs can copy this header, which needs only <ringload/verify.hpp> and
// <openssl/evp.h>.

#include <openssl/evp.h>

#include <cstddef>
#include <memory>
#include <ringload/verify.hpp>
#include <span>
#include <stdexcept>
#include <vector>

namespace ringload::tool {

/// Begins a digest with `EVP_sha256()` or `EVP_sha1()`. Throws std::runtime_error if libcrypto does
/// not have or allow the algorithm. Thread-safe.
inline hasher openssl_hasher(const EVP_MD* kind) {
  const auto require = [](int done) {
    if (done != 1) throw std::runtime_error("libcrypto cannot compute this digest");
  };
  const std::shared_ptr<EVP_MD_CTX> pass(::EVP_MD_CTX_new(), ::EVP_MD_CTX_free);
  require(pass ? ::EVP_DigestInit_ex(pass.get(), kind, nullptr) : 0);

  hasher one;
  one.update = [pass, require](std::span<const std::byte> bytes) {
    require(::EVP_DigestUpdate(pass.get(), bytes.data(), bytes.size()));
  };
  one.finish = [pass, require] {
    std::vector<std::byte> digest(EVP_MAX_MD_SIZE);
    unsigned bytes = 0;
    require(
        ::EVP_DigestFinal_ex(pass.get(), reinterpret_cast<unsigned char*>(digest.data()), &bytes));
    digest.resize(bytes);
    return digest;
  };
  return one;
}

}  // namespace ringload::tool
