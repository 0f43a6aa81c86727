// SPDX-License-Identifier: Apache-2.0
#pragma once

// The memory of a loader after its thread has finished all completed loads.

#include <boost/asio/use_future.hpp>
#include <ringload/loader.hpp>
#include <string>

#include "support/waiting.hpp"

namespace ringload::testing {

// `checkpoint` is any checkpoint that can be opened, because the thread opens it after its pending
// work.
inline memory_use settled_memory(loader& with, const std::string& checkpoint) {
  get(with.open_async(checkpoint, use_future));
  return with.memory();
}

}  // namespace ringload::testing
