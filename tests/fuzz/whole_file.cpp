// SPDX-License-Identifier: Apache-2.0

// For any small file, a load returns the tensors of the catalog with the bytes of the file, or the
// error that reading the catalog returns.

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <ringload/ringload.hpp>
#include <string>

#include "fuzz.hpp"

namespace {

using namespace ringload;
using ringload::testing::hold;

constexpr std::chrono::seconds patience{60};

std::string temporary_path() {
  const char* base = std::getenv("TMPDIR");
  return std::string(base != nullptr ? base : "/tmp") + "/ringload-fuzz-" +
         std::to_string(::getpid()) + ".safetensors";
}

loader_options small_options(read_engine engine) {
  loader_options l;
  l.slots = 4;
  l.slot_bytes = 64 * 1024;
  l.engine = engine;
  return l;
}

void check(loader& with, const std::string& path, std::span<const std::uint8_t> content,
           load_options how) {
  std::optional<catalog> wanted;
  try {
    wanted = read_catalog(path, how.open);
  } catch (const error&) {
  }
  auto answer = with.load_async(path, how, as_exception(boost::asio::use_future));
  hold(answer.wait_for(patience) == std::future_status::ready, "a load ends");
  std::optional<model> got;
  try {
    got = answer.get();
  } catch (const error& e) {
    hold(std::strlen(e.what()) > 0 && std::strchr(e.what(), '\n') == nullptr, "an error is a line");
  }
  hold(wanted.has_value() == got.has_value(), "a load succeeds if the catalog can be read");
  if (!wanted) return;
  hold(got->size() == wanted->tensors.size(), "each tensor of the catalog is loaded");
  for (std::size_t i = 0; i < got->size(); ++i) {
    const tensor_info& info = wanted->tensors[i];
    const tensor landed = (*got)[i];
    hold(landed.size_bytes() == info.bytes, "of the catalog's size");
    hold(landed.size_bytes() == 0 ||
             std::memcmp(landed.data(), content.data() + info.offset, info.bytes) == 0,
         "with the file's bytes");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  static const std::string path = temporary_path();
  static loader by_choice(host(), small_options(read_engine::automatic));
  static loader by_threads(host(), small_options(read_engine::threads));

  // The input has no prefix, because a fuzzer would not guess it. The first two bytes state the
  // length of the header.
  if (size < 2) return 0;
  const std::uint64_t header_bytes = (std::uint64_t{input[0]} << 8 | input[1]) % (size - 1);
  std::vector<std::uint8_t> content(8 + size - 2);
  for (unsigned i = 0; i < 8; ++i) {
    content[i] = static_cast<std::uint8_t>(header_bytes >> (8 * i));
  }
  if (size > 2) std::memcpy(content.data() + 8, input + 2, size - 2);

  const int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  hold(fd >= 0, "a temporary file can be made");
  hold(::write(fd, content.data(), content.size()) == static_cast<::ssize_t>(content.size()),
       "and written");
  ::close(fd);

  load_options how;
  how.open.strictness = header_bytes % 2 == 0 ? strictness::strict : strictness::reference;
  check(by_choice, path, content, how);
  check(by_threads, path, content, how);
  ::unlink(path.c_str());
  return 0;
}
