// SPDX-License-Identifier: Apache-2.0
#pragma once

// The API of the Hugging Face hub: addresses of requests and files, the listing of a model, and the
// meaning of refusals. Pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "catalog/hub_address.hpp"

namespace ringload::inline v0::remote_http {

inline constexpr std::uint64_t hub_listing_bytes_max = std::uint64_t{32} << 20;

struct hub_file {
  std::string name;                    // May have sub-folders; never leaves the model.
  std::optional<std::uint64_t> bytes;  // Empty: the server does not report the size.
  // Digest, which is also the file's name in the cache: the SHA-256 of a file in LFS (64 digits),
  // else git's SHA-1 (40 digits). Empty: the server does not report the digest.
  std::string digest;
};

struct hub_listing {
  std::string commit;
  std::vector<hub_file> files;  // Sorted by name, without duplicates.

  const hub_file* find(std::string_view name) const noexcept;
};

// Adds the first part of `name`, a file or a sub-folder, unless that part is the last entry
// already.
void add_entry(std::string_view name, std::vector<std::string>& to);

// Address of the listing: the revision's commit and files. `endpoint` must not end with '/'.
std::string hub_listing_address(std::string_view endpoint, const model_name& model);

// Address of a file. The hub redirects requests to the server that stores the bytes.
std::string hub_file_address(std::string_view endpoint, const std::string& repository,
                             std::string_view revision, std::string_view file);

// Parses the JSON of hub_listing_address(). Returns malformed_answer if the JSON is not a valid
// listing, has more than 100,000 files, or has a file name that would leave the model's folder.
result<hub_listing> parse_hub_listing(std::string_view json);

struct hub_refusal {
  unsigned status = 0;
  std::string_view error_code;  // Value of the header X-Error-Code, or empty.
  bool had_token = false;       // The request had a token.
};

// Converts an answer with a status other than 200 to a fault with advice: source_not_found,
// access_denied, or remote_failed.
fault hub_fault(const hub_refusal& answer, std::string_view endpoint, const model_name& model);

}  // namespace ringload::inline v0::remote_http
