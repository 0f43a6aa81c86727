// SPDX-License-Identifier: Apache-2.0
#pragma once

// Command-line options for sources on the network.

#include <CLI/CLI.hpp>

#include "options.hpp"
#include "remote_settings.hpp"

namespace ringload::tool {

inline void add_remote(CLI::App& to, remote_wish& wish) {
  const char* const group = "Sources on the network";
  to.add_option("--endpoint", wish.endpoint,
                "Address of the hub, or of the store for s3:// addresses. Default:\n"
                "HF_ENDPOINT or AWS_ENDPOINT_URL_S3, else huggingface.co or Amazon S3")
      ->type_name("URL")
      ->group(group);
  add_number(to, "--connections", wish.connections, 1024,
             "Number of connections to one host at once. Default: 16")
      ->group(group);
  const auto take_chunk = [&wish](const std::string& text) {
    const auto size = parse_size(text);
    if (!size || *size < 64 << 10) {
      refuse("--chunk-bytes", text,
             "is invalid, expected a size of at least 64K, such as 1M or 4MiB");
    }
    wish.chunk_bytes = *size;
  };
  to.add_option_function<std::string>("--chunk-bytes", take_chunk,
                                      "Maximum size of the range of one request. Default: 1.0 MiB")
      ->type_name("SIZE")
      ->group(group);
  add_number(to, "--stall-max", wish.stall_seconds_max, 86'400,
             "Fail if a server sends nothing, or almost nothing, for this number of\n"
             "seconds. Default: 60")
      ->type_name("SECONDS")
      ->group(group);
  add_choice<hub_cache>(
      to, "--cache", wish.cache,
      {{"off", hub_cache::off}, {"read", hub_cache::read}, {"fill", hub_cache::fill}},
      "Use of the local Hugging Face cache. read: load files of the cache from\n"
      "there. fill: also write fetched files into the cache. Default: read. A file\n"
      "that is fetched whole must have the digest of the hub")
      ->group(group);
  to.add_option("--ca-file", wish.ca_file,
                "File of certificates (PEM) to trust in addition to those of the system")
      ->type_name("FILE")
      ->group(group);
  to.add_option("--proxy", wish.proxy,
                "The proxy for HTTP and HTTPS. Default: HTTPS_PROXY, HTTP_PROXY or ALL_PROXY,\n"
                "except for the hosts of NO_PROXY")
      ->type_name("http://[USER:PASSWORD@]HOST:PORT")
      ->group(group);
  to.add_flag("--offline", wish.offline,
              "Open no connection: load only files of this machine, as HF_HUB_OFFLINE=1")
      ->group(group);
  to.add_flag("--anonymous", wish.anonymous,
              "Send no token and no key, even if they are configured")
      ->group(group);
}

}  // namespace ringload::tool
