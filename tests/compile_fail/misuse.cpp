// SPDX-License-Identifier: Apache-2.0

// Mistakes that a compiler must refuse, one for each value of MISTAKE. With 0, the file has no
// mistake and compiles, which shows that the mistake is the reason of a refusal.

#include <boost/asio/use_awaitable.hpp>
#include <ringload/ringload.hpp>

namespace asio = boost::asio;

asio::awaitable<void> use(ringload::loader& loader) {
  ringload::model model = co_await loader.load_async("model.safetensors", ringload::load_options());
  ringload::load_operation load =
      co_await loader.start_async("model.safetensors", asio::use_awaitable);
  loader.load_async("model.safetensors", [](boost::system::error_code, ringload::model) {});

#if MISTAKE == 1  // The options come before the token.
  loader.load_async("model.safetensors", asio::use_awaitable, ringload::load_options());
#elif MISTAKE == 2  // A handler takes an error_code, and not an exception.
  loader.load_async("model.safetensors", [](std::exception_ptr, ringload::model) {});
#elif MISTAKE == 3  // A load in flight has one owner.
  ringload::load_operation another = load;
#elif MISTAKE == 4  // A loader owns a thread and a ring.
  ringload::loader another(loader);
#elif MISTAKE == 5  // `tensor_async` returns one tensor, not a model.
  load.tensor_async("wte", [](boost::system::error_code, ringload::model) {});
#endif
}
