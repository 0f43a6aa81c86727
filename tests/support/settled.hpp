// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a loader holds once the loads that have completed are over in its own thread as well.

#include <boost/asio/use_future.hpp>
#include <ringload/loader.hpp>
#include <string>

#include "support/waiting.hpp"

namespace ringload::testing {

// `checkpoint` is any that can be opened: that comes after what the thread still had to do.
inline memory_use settled_memory(loader& with, const std::string& checkpoint) {
  get(with.open_async(checkpoint, boost::asio::use_future));
  return with.memory();
}

}  // namespace ringload::testing
