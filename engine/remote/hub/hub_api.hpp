// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pure functions for the API of the Hugging Face hub. The functions build addresses, parse the
// listing of a model, and convert error responses to faults.

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
  std::string name;                    // May have sub-folders. Always within the model's folder.
  std::optional<std::uint64_t> bytes;  // Empty if the server does not report the size.
  // Digest of the content, which is also the name of the file in the cache: SHA-256 (64 digits) for
  // a file in LFS, otherwise git's SHA-1 (40 digits). Empty if the server does not report the
  // digest.
  std::string digest;
};

struct hub_listing {
  std::string commit;
  std::vector<hub_file> files;  // Sorted by name, without duplicates.

  const hub_file* find(std::string_view name) const noexcept;
};

// Appends the first part of the path `name` to `to`, a list of the entries in the model's folder.
// Does nothing if this part is already the last entry.
void add_entry(std::string_view name, std::vector<std::string>& to);

// Returns the address of the listing, which has the commit and the files of the revision.
// `endpoint` must not end with '/'.
std::string hub_listing_address(std::string_view endpoint, const model_name& model);

// Returns the address of a file. The hub redirects a request to the server that stores the bytes.
std::string hub_file_address(std::string_view endpoint, const std::string& repository,
                             std::string_view revision, std::string_view file);

// Parses the JSON that the hub returns for hub_listing_address(). Returns malformed_answer if the
// JSON is not a valid listing, has more than 100,000 files, or has a file name that leaves the
// model's folder.
result<hub_listing> parse_hub_listing(std::string_view json);

struct hub_refusal {
  unsigned status = 0;
  // Value of the header X-Error-Code, or empty.
  std::string_view error_code;
  bool had_token = false;  // True if the request had a token.
};

// Converts a response with a status other than 200 to a fault that tells the user what to do. The
// code is source_not_found, access_denied, or remote_failed.
fault hub_fault(const hub_refusal& response, std::string_view endpoint, const model_name& model);

}  // namespace ringload::inline v0::remote_http
