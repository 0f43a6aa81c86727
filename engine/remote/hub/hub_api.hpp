// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the Hugging Face hub is asked, and what it answers: addresses of its API and of its files,
// the listing of a model, and what a refusal means. Pure.

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
  std::optional<std::uint64_t> bytes;  // Not every server says it.
  // What the file is called in the cache, and its digest: the SHA-256 of a file in LFS (64 digits),
  // else git's SHA-1 (40 digits). Empty where the server does not say it.
  std::string digest;
};

struct hub_listing {
  std::string commit;
  std::vector<hub_file> files;  // Sorted by name, each once.

  const hub_file* find(std::string_view name) const noexcept;
};

// Adds the entry of a folder that the name of a file beneath it shows: the file, or a sub-folder,
// unless that was added last.
void add_entry(std::string_view name, std::vector<std::string>& to);

// GET: the revision's commit and its files. `endpoint` ends without '/'.
std::string hub_listing_address(std::string_view endpoint, const model_name& model);

// GET: a file, by redirects to where its bytes are.
std::string hub_file_address(std::string_view endpoint, const std::string& repository,
                             std::string_view revision, std::string_view file);

// The JSON that the first of these is answered with. malformed_answer where it is not what the API
// promises, or has more than 100,000 files, or one whose name would leave the model's folder.
result<hub_listing> parse_hub_listing(std::string_view json);

struct hub_refusal {
  unsigned status = 0;
  std::string_view error_code;  // Of the header X-Error-Code, or empty.
  bool had_token = false;       // Whether the request had one.
};

// What an answer other than 200 means, and what can be done about it: source_not_found,
// access_denied, or remote_failed.
fault hub_fault(const hub_refusal& answer, std::string_view endpoint, const model_name& model);

}  // namespace ringload::inline v0::remote_http
