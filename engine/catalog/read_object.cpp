// SPDX-License-Identifier: Apache-2.0

#include "catalog/read_object.hpp"

#include <cerrno>
#include <future>

#include "base/catch_as_fault.hpp"

namespace ringload::inline v0 {

result<void> read_object(byte_source& object, const source_read& request) {
  return catch_as_fault([&]() -> result<void> {
    const auto completion = std::make_shared<std::promise<void>>();
    auto waiting = completion->get_future();
    object.read_async(request, [completion](const std::exception_ptr& failed) {
      if (failed) {
        completion->set_exception(failed);
      } else {
        completion->set_value();
      }
    });
    waiting.get();
    if (request.stop.stop_requested()) return fault{system_code(ECANCELED), ""};
    return {};
  });
}

}  // namespace ringload::inline v0
