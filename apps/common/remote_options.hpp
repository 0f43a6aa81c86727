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
  add_choice<hub_cache>(
      to, "--cache", wish.cache,
      {{"off", hub_cache::off}, {"read", hub_cache::read}, {"fill", hub_cache::fill}},
      "The local Hugging Face cache. read: what it has is not fetched. fill: what\n"
      "is fetched is also written into it. Default: read")
      ->group(group);
  to.add_flag("--offline", wish.offline,
              "Only what is on this machine. HF_HUB_OFFLINE=1 says so too")
      ->group(group);
  to.add_flag("--anonymous", wish.anonymous, "Send no token and no key")->group(group);
}

}  // namespace ringload::tool
