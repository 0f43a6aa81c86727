// SPDX-License-Identifier: Apache-2.0
#pragma once

// Options of a command line for sources on the network.

#include <CLI/CLI.hpp>

#include "options.hpp"
#include "remote_settings.hpp"

namespace ringload::tool {

inline void add_remote(CLI::App& to, remote_wish& wish) {
  const char* const group = "Sources on the network";
  to.add_option("--endpoint", wish.endpoint,
                "Where the hub is, or the store of s3:// addresses. Default: HF_ENDPOINT, or\n"
                "AWS_ENDPOINT_URL_S3; else huggingface.co and Amazon's")
      ->type_name("URL")
      ->group(group);
  add_number(to, "--connections", wish.connections, 1024, "To one host at once. Default: 16")
      ->group(group);
  const auto take_chunk = [&wish](const std::string& text) {
    const auto size = parse_size(text);
    if (!size || *size < 64 << 10) {
      refuse("--chunk-bytes", text, "is not a size of 64K and more, as 1M or 4MiB are");
    }
    wish.chunk_bytes = *size;
  };
  to.add_option_function<std::string>("--chunk-bytes", take_chunk,
                                      "The longest range of one request. Default: 1.0 MiB")
      ->type_name("SIZE")
      ->group(group);
  add_number(to, "--stall-max", wish.stall_seconds_max, 86'400,
             "Give up a server that brings nothing, or next to nothing, for so many\n"
             "seconds. Default: 60")
      ->type_name("SECONDS")
      ->group(group);
  add_choice<hub_cache>(
      to, "--cache", wish.cache,
      {{"off", hub_cache::off}, {"read", hub_cache::read}, {"fill", hub_cache::fill}},
      "The local Hugging Face cache. read: what it has is not fetched. fill: what\n"
      "is fetched is also written into it. Default: read")
      ->group(group);
  to.add_option("--ca-file", wish.ca_file,
                "Certificates (PEM) that are trusted beside those of the system")
      ->type_name("FILE")
      ->group(group);
  to.add_option("--proxy", wish.proxy, "The proxy for HTTP and HTTPS. Default: none")
      ->type_name("http://HOST:PORT")
      ->group(group);
  to.add_flag("--offline", wish.offline,
              "Only what is on this machine. HF_HUB_OFFLINE=1 says so too")
      ->group(group);
  to.add_flag("--anonymous", wish.anonymous, "Send no token and no key")->group(group);
}

}  // namespace ringload::tool
