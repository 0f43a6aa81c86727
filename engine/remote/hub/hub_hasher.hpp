// SPDX-License-Identifier: Apache-2.0
#pragma once

// Hashes a file as the hub does: SHA-256 for a file in LFS, and otherwise git's SHA-1 of a blob.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/fault.hpp"

struct evp_md_ctx_st;

namespace ringload::inline v0::remote_http {

class hub_hasher {
 public:
  // The length of `digest`, the expected digest in hexadecimal, determines the algorithm. Returns
  // digest_unavailable if OpenSSL does not provide the algorithm.
  static result<hub_hasher> make(std::string_view digest, std::uint64_t file_bytes);

  void update(std::span<const std::byte> bytes);
  // Returns the digest in hexadecimal. Must be called at most once.
  std::string finish();

 private:
  struct context_free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, context_free> context_;
};

}  // namespace ringload::inline v0::remote_http
