// SPDX-License-Identifier: Apache-2.0

// cxx23_program FILE MISSING: a program that is compiled as C++23, and that neither throws nor
// catches an exception.
// Loads FILE, then fails to load MISSING. Exits with 0 if both operations complete as expected.

#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <ringload/loader.hpp>
#include <string>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string missing = argv[2];
  boost::asio::io_context context;
  ringload::loader loader(context);
  ringload::diagnostics info;
  std::size_t tensors = 0;
  bool not_found = false;
  loader.load_async(argv[1], [&](boost::system::error_code code, const ringload::model& loaded) {
    if (code) std::fprintf(stderr, "%s\n", code.message().c_str());
    tensors = loaded.size();
    loader.load_async(missing, ringload::bind_diagnostics(
                                   info, [&](boost::system::error_code failed, ringload::model) {
                                     not_found = failed == ringload::condition::not_found;
                                   }));
  });
  context.run();
  std::printf("%zu tensors; %s\n", tensors, info.message().c_str());
  const bool named = info.place.find(missing) != std::string::npos;
  return tensors > 0 && not_found && named ? 0 : 1;
}
