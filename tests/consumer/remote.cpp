// SPDX-License-Identifier: Apache-2.0

// A program with the component `remote` connects to a server that does not exist.

#include <iostream>
#include <ringload/remote.hpp>
#include <ringload/ringload.hpp>

int main() {
  ringload::remote_options how;
  how.tries_max = 1;
  try {
    ringload::read_catalog("http://127.0.0.1:1/model.safetensors", {}, {ringload::remote(how)});
  } catch (const ringload::error& e) {
    std::cout << e.what() << '\n';
    return e.code() == ringload::errc::remote_failed ? 0 : 1;
  }
  return 1;
}
