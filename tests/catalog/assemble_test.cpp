// SPDX-License-Identifier: Apache-2.0
#include "catalog/assemble.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace ringload;

namespace {

file_content file_of(std::string path, std::initializer_list<std::string_view> tensors) {
  file_content out;
  out.info.path = std::move(path);
  std::uint64_t offset = 100;
  for (const std::string_view name : tensors) {
    entry& each = out.entries.tensors.emplace_back();
    each.name = name;
    each.offset = offset;
    each.bytes = 8;
    offset += 8;
  }
  out.info.bytes = offset;
  return out;
}

std::vector<std::string> names_of(const catalog& from) {
  std::vector<std::string> out;
  out.reserve(from.tensors.size());
  for (const tensor_info& each : from.tensors) out.push_back(each.name);
  return out;
}

using names = std::vector<std::string>;

}  // namespace

TEST_CASE("assemble: tensors are sorted by file and offset") {
  const auto all = assemble_all({file_of("1", {"z", "a"}), file_of("2", {"m"})});
  REQUIRE(all.has_value());
  CHECK(names_of(all->catalog) == names{"z", "a", "m"});
  CHECK(all->catalog.tensors[1].file == 0);
  CHECK(all->catalog.tensors[1].offset == 108);
  CHECK(all->catalog.tensors[2].file == 1);
  CHECK(all->catalog.files[0].path == "1");
  CHECK(all->catalog.files[0].bytes == 116);
  CHECK(all->catalog.size_bytes() == 24);
  CHECK(all->catalog.notes.empty());
}

TEST_CASE("assemble: without an index a name in two files is duplicate_tensor") {
  const auto refused = assemble_all({file_of("1", {"z", "a"}), file_of("2", {"b", "a"})});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::duplicate_tensor);
  CHECK(message_of(refused.error()) ==
        "1: tensor 'a': the tensor is also in 2, but a name may occur in only one file");
}

TEST_CASE("assemble: an index takes each tensor only from its own shard") {
  shard_index index;
  index.shards = {"1", "2"};
  index.tensors = {{"a", 1}, {"z", 0}};
  const auto all = assemble_listed({file_of("1", {"z", "a"}), file_of("2", {"b", "a"})}, index);
  REQUIRE(all.has_value());
  CHECK(names_of(all->catalog) == names{"z", "a"});
  CHECK(all->catalog.tensors[1].file == 1);
  REQUIRE(all->catalog.notes.size() == 1);
  CHECK(all->catalog.notes[0] ==
        "2 tensors are not loaded, because the index does not list them for their shard; the first "
        "is 'a' of 1");
}

TEST_CASE("assemble: a listed tensor that its shard lacks is missing_tensor") {
  shard_index index;
  index.shards = {"1", "2"};
  index.tensors = {{"a", 0}, {"b", 0}, {"c", 1}};
  const auto refused = assemble_listed({file_of("1", {"a"}), file_of("2", {"b", "c"})}, index);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::missing_tensor);
  CHECK(message_of(refused.error()) ==
        "1: tensor 'b': the index lists the tensor for this shard, but the shard lacks it");
}

TEST_CASE("assemble: a listed tensor that is unreadable is not missing") {
  shard_index index;
  index.shards = {"1", "2"};
  index.tensors = {{"a", 0}, {"q", 0}, {"s/indices", 0}, {"s/values", 0}, {"z", 1}};
  file_content first = file_of("1", {"a"});
  for (const char* name : {"q", "s", "unlisted", "z"}) {
    first.entries.unreadable.push_back({name, {errc::unsupported_feature, name, "why"}, false});
  }
  const auto all = assemble_listed({first, file_of("2", {"z"})}, index);
  REQUIRE(all.has_value());
  CHECK(names_of(all->catalog) == names{"a", "z"});
  REQUIRE(all->catalog.unreadable.size() == 2);
  CHECK(all->catalog.unreadable[0].name == "q");
  CHECK(all->catalog.unreadable[0].place == "1: q");
  CHECK(all->catalog.unreadable[0].reason == "why");
  CHECK(all->catalog.unreadable[1].name == "s");
}

TEST_CASE("assemble: a total_size that is wrong is noted, and one that is right is not") {
  shard_index index;
  index.shards = {"1"};
  index.tensors = {{"a", 0}, {"b", 0}};
  index.total_bytes = 16;
  CHECK(assemble_listed({file_of("1", {"a", "b"})}, index)->catalog.notes.empty());
  index.total_bytes = 1'000'000;
  const auto all = assemble_listed({file_of("1", {"a", "b"})}, index);
  REQUIRE(all->catalog.notes.size() == 1);
  CHECK(all->catalog.notes[0] ==
        "the index gives a total_size of 1,000,000 bytes, but its tensors have 16");
}

TEST_CASE("assemble: a total_size may count tied weights once, as PyTorch's does") {
  shard_index index;
  index.shards = {"1"};
  index.tensors = {{"a", 0}, {"b", 0}, {"tied", 0}};
  file_content file = file_of("1", {"a", "b", "tied"});
  file.entries.tensors[2].offset = file.entries.tensors[0].offset;
  for (const std::uint64_t total : {16U, 24U}) {
    index.total_bytes = total;
    CHECK(assemble_listed({file}, index)->catalog.notes.empty());
  }
  index.total_bytes = 8;
  CHECK(assemble_listed({file}, index)->catalog.notes.size() == 1);
}

TEST_CASE("assemble: metadata repeated by shards is kept once, differing values all") {
  file_content first = file_of("1", {"a"});
  first.entries.metadata = {{"format", "pt"}, {"part", "1"}};
  first.entries.notes = {"something odd"};
  file_content second = file_of("2", {"b"});
  second.entries.metadata = {{"part", "2"}, {"format", "pt"}};
  const auto all = assemble_all({first, second});
  REQUIRE(all.has_value());
  CHECK(all->catalog.metadata == attributes{{"format", "pt"}, {"part", "1"}, {"part", "2"}});
  CHECK(all->catalog.notes == names{"1: something odd"});
}

TEST_CASE("assemble: files beside come after the files themselves, and streams name them there") {
  file_content first = file_of("1", {"a"});
  file_content second = file_of("2", {"b", "c", "d"});
  second.entries.external_files = {"weights.bin"};
  second.external_files = {{"weights.bin", 64, "onnx"}};
  piece raw;
  raw.stored.file = 1;
  raw.stored.offset = 16;
  raw.stored.bytes = raw.stored.decoded_bytes = 8;
  raw.origin = {0, 0};
  raw.extent = {2, 4};
  raw.stride_bytes = {4, 1};
  piece turned = raw;
  turned.stride_bytes = {1, 2};
  for (entry& each : second.entries.tensors) each.shape = {2, 4};
  // 'b' is contiguous in the external file, 'c' is in the external file with another order of
  // elements, and 'd' is in the file itself.
  second.entries.tensors[0].stored = std::make_shared<stored_form>(stored_form{{raw}, 0, {}});
  second.entries.tensors[1].stored = std::make_shared<stored_form>(stored_form{{turned}, 0, {}});

  const auto all = assemble_all({first, second});
  REQUIRE(all.has_value());
  CHECK(all->catalog.files.size() == 3);
  CHECK(all->catalog.files[2].path == "weights.bin");
  CHECK(names_of(all->catalog) == names{"a", "c", "d", "b"});
  REQUIRE(all->stored.size() == 4);

  const tensor_info& b = all->catalog.tensors[3];
  CHECK(all->stored[3] == nullptr);
  CHECK(b.file == 2);
  CHECK(b.offset == 16);
  CHECK(b.encoding.empty());
  CHECK(b.stored_bytes == 8);

  const tensor_info& c = all->catalog.tensors[1];
  REQUIRE(all->stored[1] != nullptr);
  CHECK(all->stored[1]->pieces[0].stored.file == 2);
  CHECK(c.file == 1);
  CHECK(c.encoding == "strided");
  CHECK(c.stored_bytes == 8);
}

TEST_CASE("assemble: the encoding says what is undone, in that order") {
  file_content file = file_of("1", {"a"});
  entry& t = file.entries.tensors[0];
  t.dtype = dtype::i16;
  t.shape = {2, 2};
  piece half;
  half.stored.offset = 8;
  half.stored.bytes = 5;
  half.stored.decoded_bytes = 4;
  half.stored.stored_codec = codec::zlib;
  half.stored.shuffle_bytes = 2;
  half.origin = {0, 0};
  half.extent = {1, 2};
  half.stride_bytes = {4, 2};
  piece other = half;
  other.stored.offset = 20;
  other.origin = {1, 0};
  t.stored = std::make_shared<stored_form>(stored_form{{half, other}, 2, {}});
  const auto all = assemble_all({file});
  REQUIRE(all.has_value());
  CHECK(all->catalog.tensors[0].encoding == "zlib+shuffle+big_endian+chunked");
  CHECK(all->catalog.tensors[0].stored_bytes == 10);
  CHECK(all->catalog.tensors[0].bytes == 8);
}

TEST_CASE("assemble: bytes past the end of a file beside are refused by name") {
  const auto model_of = [](std::uint64_t offset, std::uint64_t bytes) {
    file_content model = file_of("m.onnx", {"w"});
    model.entries.external_files = {"weights.bin"};
    model.external_files = {{"weights.bin", 64, "onnx"}};
    piece raw;
    raw.stored.file = 1;
    raw.stored.offset = offset;
    raw.stored.bytes = raw.stored.decoded_bytes = bytes;
    raw.origin = {0};
    raw.extent = {bytes};
    raw.stride_bytes = {1};
    entry& w = model.entries.tensors[0];
    w.shape = {bytes};
    w.bytes = bytes;
    w.stored = std::make_shared<stored_form>(stored_form{{raw}, 0, {}});
    return model;
  };
  CHECK(assemble_all({model_of(0, 64)}).has_value());
  CHECK(assemble_all({model_of(63, 1)}).has_value());
  shard_index index;
  index.shards = {"m.onnx"};
  index.tensors = {{"w", 0}};
  for (const auto& [offset, bytes] : {std::pair<std::uint64_t, std::uint64_t>{0, 65},
                                      {64, 1},
                                      {65, 1},
                                      {UINT64_MAX - 1, 2},
                                      {1, UINT64_MAX}}) {
    CAPTURE(offset);
    const auto refused = assemble_all({model_of(offset, bytes)});
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == errc::extent_outside_file);
    const std::string text = message_of(refused.error());
    CHECK(text.starts_with("m.onnx: tensor 'w'"));
    CHECK(text.ends_with("of weights.bin, which has 64 bytes"));
    CHECK(assemble_listed({model_of(offset, bytes)}, index).error().code ==
          errc::extent_outside_file);
  }
}
