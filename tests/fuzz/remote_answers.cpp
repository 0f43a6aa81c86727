// SPDX-License-Identifier: Apache-2.0

// For any response of a server, the parser of S3 listings, of hub listings or of responses fails,
// or its result has the properties that its header states. The first byte chooses the parser.

#include <algorithm>
#include <string>
#include <string_view>

#include "fuzz.hpp"
#include "remote/http/percent_encoding.hpp"
#include "remote/hub/hub_api.hpp"
#include "remote/s3/s3_list.hpp"

namespace {

using ringload::testing::hold;
namespace http = ringload::remote_http;

void check_page(std::string_view text) {
  const auto page = http::parse_s3_page(text);
  if (!page) {
    hold(!ringload::message_of(page.error()).empty(), "a refusal says something");
    return;
  }
  for (const http::s3_object& each : page->objects) {
    hold(!each.key.empty(), "an object has a key");
    // An entity or an escape is never shorter than its character.
    hold(each.key.size() + each.etag.size() <= text.size(), "nothing grows");
  }
  hold(page->next.size() <= 2048, "a token is bounded");
}

void check_error(std::string_view text) {
  const http::s3_error why = http::parse_s3_error(text);
  for (const std::string* each : {&why.code, &why.region}) {
    hold(each->size() <= 64, "words are short");
    hold(std::ranges::all_of(*each, [](char c) { return c > ' ' && c < '\x7f'; }),
         "and can be shown");
  }
}

void check_listing(std::string_view text) {
  const auto listing = http::parse_hub_listing(text);
  if (!listing) {
    hold(!ringload::message_of(listing.error()).empty(), "a refusal says something");
    return;
  }
  hold(listing->commit.size() == 40, "a commit has 40 digits");
  hold(std::ranges::is_sorted(listing->files, {}, &http::hub_file::name), "files are sorted");
  for (const http::hub_file& each : listing->files) {
    const std::string inside = "/" + each.name + "/";
    hold(inside.find("//") == inside.npos && inside.find("/./") == inside.npos &&
             inside.find("/../") == inside.npos,
         "a file stays inside the model");
    hold(each.digest.empty() || each.digest.size() == 40 || each.digest.size() == 64,
         "a digest is SHA-1, SHA-256 or not there");
    hold(each.digest.find_first_not_of("0123456789abcdef") == std::string::npos,
         "and the name of a file");
    hold(listing->find(each.name) == &each, "a file is found by its name");
  }
}

void check_percent(std::string_view text) {
  hold(http::percent_decoded(http::percent_encoded(text)).value() == text,
       "what is encoded decodes to itself");
  if (const auto decoded = http::percent_decoded(text)) {
    hold(decoded->size() <= text.size(), "decoding only shortens");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(input) + 1, size - 1);
  switch (input[0]) {
    case 'p': check_page(text); break;
    case 'e': check_error(text); break;
    case 'h': check_listing(text); break;
    default: check_percent(text); break;
  }
  return 0;
}
