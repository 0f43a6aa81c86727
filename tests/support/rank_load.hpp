// SPDX-License-Identifier: Apache-2.0
#pragma once

// Starts the load of one rank whose group the test owns.

#include <boost/asio/use_future.hpp>
#include <memory>
#include <ringload/group_load.hpp>
#include <string>

#include "support/waiting.hpp"

namespace ringload::testing {

inline std::shared_ptr<group> borrowed(group& all) { return {std::shared_ptr<void>(), &all}; }

// Returns when the load has started.
inline group_load start_rank_load(loader& host_loader, group& ranks, const std::string& source,
                                  group_options options = {}) {
  return get(load_async(host_loader, borrowed(ranks), source, options, use_future));
}

}  // namespace ringload::testing
