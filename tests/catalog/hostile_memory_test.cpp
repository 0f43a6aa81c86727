// SPDX-License-Identifier: Apache-2.0

// Files that are made to fill the memory are refused before they have taken 100 MB of it.
// bench/malicious_files.py tries many more, and how long each takes.

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "catalog/resolve_source.hpp"
#include "formats/gguf_text.hpp"
#include "support/peak_memory.hpp"
#include "support/temporary_folder.hpp"
#include "support/zip_text.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t refused_within_bytes = 100'000'000;

// Units up to at least so many bytes, the last one whole.
std::string repeated(const std::string& unit, std::size_t bytes) {
  const std::size_t whole = (bytes + unit.size() - 1) / unit.size() * unit.size();
  std::string out = unit;
  out.reserve(whole);
  while (out.size() < whole) out.append(out, 0, whole - out.size());
  return out;
}

// A checkpoint of PyTorch's whose object is this pickle.
std::string archive_of(const std::string& pickle) {
  zip_part object;
  object.name = object.local_name = "a/data.pkl";
  object.stored = pickle;
  object.bytes = object.local_bytes = pickle.size();
  object.crc = crc32(bytes_of(pickle), 0);
  return zip_text({object});
}

void check_refused(const std::string& name, const std::string& content) {
  CAPTURE(name);
  const temporary_folder folder;
  const std::string path = (folder.path() / name).string();
  write_file(path, content);
  const peak_memory took = peak_memory_of([&path]() -> std::string {
    const auto opened = resolve_source(path, strictness::strict);
    return opened ? "it was accepted" : message_of(opened.error());
  });
  CHECK(took.said.find(name) != std::string::npos);
  if (peak_memory_is_ours) CHECK(took.bytes < refused_within_bytes);
}

}  // namespace

TEST_CASE("hostile files: floods of a pickle are refused within bounded memory") {
  constexpr std::size_t flood = 31'000'000;
  check_refused("none.pt", archive_of("\x80\x02" + repeated("N", flood) + "."));
  check_refused("marks.pt", archive_of("\x80\x02" + repeated("(", flood) + "."));
  check_refused("lists.pt", archive_of("\x80\x02" + repeated("]", flood) + "."));
  check_refused("tuples.pt", archive_of("\x80\x02" + repeated("NNN\x87", flood) + "."));
  check_refused("grows.pt",
                archive_of("\x80\x02](" + repeated(repeated("N", 1'000'000) + "e(", flood) + "e."));
  check_refused("larger.pt", archive_of(repeated("N", 3 * flood)));
}

TEST_CASE("hostile files: floods of GGUF's metadata are refused within bounded memory") {
  gguf_text texts;
  texts.counts(1, 1);
  const std::string array = texts.array(8, 10'000'000, std::string(80'000'000, '\0'));
  check_refused("texts.gguf", texts.header() + texts.text("a") + texts.number(9U) + array);
}
