// SPDX-License-Identifier: Apache-2.0

// Files that try to exhaust memory are refused before they have used 100 MB.
// bench/malicious_files.py tries many more files, and measures the time.

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "catalog/resolve_source.hpp"
#include "formats/gguf_text.hpp"
#include "formats/protobuf_text.hpp"
#include "formats/zt_text.hpp"
#include "support/peak_memory.hpp"
#include "support/safetensors_text.hpp"
#include "support/temporary_folder.hpp"
#include "support/zip_text.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t refused_within_bytes = 100'000'000;

// Repeats the unit until the text has at least this number of bytes.
std::string repeated(const std::string& unit, std::size_t bytes) {
  const std::size_t whole = (bytes + unit.size() - 1) / unit.size() * unit.size();
  std::string out = unit;
  out.reserve(whole);
  while (out.size() < whole) out.append(out, 0, whole - out.size());
  return out;
}

// A PyTorch checkpoint whose object is this pickle.
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

TEST_CASE("hostile files: floods of metadata keys are refused within bounded memory") {
  const std::string begin = R"({"__metadata__":{"a":"")";
  check_refused("same.safetensors",
                safetensors_text(begin + repeated(R"(,"a":"")", 40'000'000) + "}}"));
  std::string keys;
  for (int i = 0; i < 2'000'000; ++i) keys += ",\"" + std::to_string(i) + R"(":"")";
  check_refused("different.safetensors", safetensors_text(begin + keys + "}}"));
}

namespace {

// Returns the peak memory of opening the source. `expected` must be part of the outcome.
std::uint64_t bytes_to_open(const std::string& path, const std::string& expected,
                            strictness strictness = strictness::strict) {
  const peak_memory took = peak_memory_of([&]() -> std::string {
    const auto opened = resolve_source(path, strictness);
    return opened ? "it was accepted" : message_of(opened.error());
  });
  CHECK_MESSAGE(took.said.find(expected) != std::string::npos, took.said);
  return took.bytes;
}

// Writes the file, and checks that the limit for descriptions refuses it.
void check_over_budget(const std::string& name, const std::string& content) {
  CAPTURE(name);
  const temporary_folder folder;
  const std::string path = (folder.path() / name).string();
  write_file(path, content);
  const std::uint64_t bytes = bytes_to_open(path, "need more memory than strict reading allows");
  if (peak_memory_is_ours) CHECK(bytes < content.size() + description_bytes_max);
}

std::string small_tensors(std::size_t count) {
  std::string header = "{";
  for (std::size_t i = 0; i < count; ++i) {
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  return safetensors_text(header + "}");
}

// A .zt file whose attributes and objects are these pairs, which are CBOR.
std::string zt_of(std::uint64_t attributes, const std::string& attribute_pairs,
                  std::uint64_t objects, const std::string& object_pairs) {
  return zt_text(cbor_head(5, 3) + cbor_text("version") + cbor_text("1.2.0") +
                 cbor_text("attributes") + cbor_head(5, attributes) + attribute_pairs +
                 cbor_text("objects") + cbor_head(5, objects) + object_pairs);
}

// Pairs of different keys and the same value, which is CBOR.
std::string pairs_of(std::size_t count, const std::string& value) {
  std::string pairs;
  for (std::size_t i = 0; i < count; ++i) pairs += cbor_text(std::to_string(i)) + value;
  return pairs;
}

std::string onnx_of(const std::string& graph, const std::string& more = {}) {
  return proto_integer(1, 10) + proto_bytes(2, "x") + proto_bytes(7, graph) + more;
}

}  // namespace

TEST_CASE("hostile files: floods of small tensors are refused by a limit that the error names") {
  check_over_budget("tensors.safetensors", small_tensors(600'000));
  check_over_budget("objects.zt", zt_of(0, "", 1'000'000, pairs_of(1'000'000, cbor_map({}))));

  std::string graph;
  for (int i = 0; i < 240'000; ++i) {
    graph += proto_bytes(5, onnx_tensor_text(std::to_string(i), 2, {0}, {}));
  }
  check_over_budget("tensors.onnx", onnx_of(graph));

  gguf_text infos;
  for (int i = 0; i < 250'000; ++i) infos.info(std::to_string(i), {0}, 24, 0);
  check_over_budget("tensors.gguf", infos.header() + std::string(32, '\0'));
}

TEST_CASE("hostile files: floods of different metadata are refused by the same limit") {
  check_over_budget("empty.zt", zt_of(8'000'000, std::string(16'000'000, '\x60'), 0, ""));
  check_over_budget("nulls.zt", zt_of(1'000'000, pairs_of(1'000'000, "\xF6"), 0, ""));
  std::string keys;
  for (int i = 0; i < 1'500'000; ++i) keys += proto_bytes(14, proto_bytes(1, std::to_string(i)));
  check_over_budget("keys.onnx", onnx_of("", keys));
}

TEST_CASE("hostile files: the limit for descriptions grows with the size of the files") {
  const temporary_folder folder;
  const auto written = [&](const std::string& name, const std::string& content) {
    write_file((folder.path() / name).string(), content);
    return (folder.path() / name).string();
  };
  const std::string most = written("most.safetensors", small_tensors(131'072));
  const std::uint64_t bytes = bytes_to_open(most, "it was accepted");
  if (peak_memory_is_ours) CHECK(bytes < description_bytes_max);

  const std::string more = written("more.safetensors", small_tensors(200'000));
  bytes_to_open(more, "need more memory than strict reading allows");
  bytes_to_open(more, "it was accepted", strictness::reference);

  // One of the two files is below the limit, but both together are not.
  const auto halves = [&](const char* first, const char* second) {
    const auto prefixed = [](std::size_t from, std::size_t to) {
      std::string header = "{";
      for (std::size_t i = from; i < to; ++i) {
        header += (i == from ? "\"" : ",\"") + std::to_string(i) +
                  R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
      }
      return safetensors_text(header + "}");
    };
    written(first, prefixed(0, 100'000));
    written(second, prefixed(100'000, 200'000));
  };
  std::filesystem::create_directory(folder.path() / "shards");
  halves("shards/model-00001-of-00002.safetensors", "shards/model-00002-of-00002.safetensors");
  bytes_to_open((folder.path() / "shards").string(), "need more memory than strict reading");
}
