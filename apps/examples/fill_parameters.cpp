// SPDX-License-Identifier: Apache-2.0

// Loads a checkpoint into memory that is already allocated, such as the parameters of an inference
// engine. The model is then in memory only once.
//
//   fill_parameters CHECKPOINT

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <ringload/ringload.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace asio = boost::asio;

// Represents a parameter of the inference engine.
struct parameter {
  std::string name;
  ringload::dtype dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> memory;
};

asio::awaitable<void> fill(ringload::loader& loader, std::string source) {
  ringload::checkpoint checkpoint = co_await loader.open_async(source);

  std::vector<parameter> parameters;
  for (const ringload::tensor_info& tensor : checkpoint) {
    parameters.push_back({"engine." + tensor.name, tensor.dtype, tensor.shape,
                          std::vector<std::byte>(tensor.bytes)});
  }

  std::vector<ringload::destination> destinations;
  for (parameter& one : parameters) {
    destinations.emplace_back(one.name, one.memory.data(), one.dtype, one.shape);
  }
  ringload::fill_options policies;
  policies.rename = [](std::string_view name) { return std::string(name.substr(7)); };
  policies.dtype = ringload::fill_options::on_dtype::convert;
  ringload::fill_result done = co_await loader.fill_async(checkpoint, destinations, policies);

  std::cout << destinations.size() << " parameters filled, " << done.stats.bytes << " bytes\n";
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: fill_parameters CHECKPOINT\n";
    return 2;
  }
  try {
    asio::io_context context;
    ringload::loader loader;
    asio::co_spawn(context, fill(loader, argv[1]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    context.run();
  } catch (const ringload::fill_error& failure) {
    std::cerr << failure.what() << "; complete: " << failure.whole().size() << " of "
              << failure.whole().size() + failure.torn().size() << '\n';
    return 1;
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
