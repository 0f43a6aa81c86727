// SPDX-License-Identifier: Apache-2.0
#include "source/assemble.hpp"

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
  out.path = std::move(path);
  std::uint64_t offset = 100;
  for (const std::string_view name : tensors) {
    entry& each = out.entries.tensors.emplace_back();
    each.name = name;
    each.offset = offset;
    each.bytes = 8;
    offset += 8;
  }
  out.bytes = offset;
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

TEST_CASE("assemble: tensors stand in the order of file and offset") {
  const auto all = assemble_all({file_of("1", {"z", "a"}), file_of("2", {"m"})});
  REQUIRE(all.has_value());
  CHECK(names_of(*all) == names{"z", "a", "m"});
  CHECK(all->tensors[1].file == 0);
  CHECK(all->tensors[1].offset == 108);
  CHECK(all->tensors[2].file == 1);
  CHECK(all->files[0].path == "1");
  CHECK(all->files[0].bytes == 116);
  CHECK(all->bytes() == 24);
  CHECK(all->notes.empty());
}

TEST_CASE("assemble: without an index a name in two files is duplicate_tensor") {
  const auto refused = assemble_all({file_of("1", {"z", "a"}), file_of("2", {"b", "a"})});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::duplicate_tensor);
  CHECK(message_of(refused.error()) ==
        "1: tensor 'a': it is also in 2, and there is no index that chooses one");
}

TEST_CASE("assemble: an index takes each tensor only from its own shard") {
  shard_index index;
  index.shards = {"1", "2"};
  index.tensors = {{"a", 1}, {"z", 0}};
  const auto all = assemble_listed({file_of("1", {"z", "a"}), file_of("2", {"b", "a"})}, index);
  REQUIRE(all.has_value());
  CHECK(names_of(*all) == names{"z", "a"});
  CHECK(all->tensors[1].file == 1);
  REQUIRE(all->notes.size() == 1);
  CHECK(all->notes[0] ==
        "tensors that the index does not list for the shard they are in, and that are not loaded: "
        "2, the first is 'a' of 1");
}

TEST_CASE("assemble: a listed tensor that its shard lacks is missing_tensor") {
  shard_index index;
  index.shards = {"1", "2"};
  index.tensors = {{"a", 0}, {"b", 0}, {"c", 1}};
  const auto refused = assemble_listed({file_of("1", {"a"}), file_of("2", {"b", "c"})}, index);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::missing_tensor);
  CHECK(message_of(refused.error()) ==
        "1: tensor 'b': the index lists it for this shard, but it is not there");
}

TEST_CASE("assemble: a total_size that is wrong is noted, and one that is right is not") {
  shard_index index;
  index.shards = {"1"};
  index.tensors = {{"a", 0}, {"b", 0}};
  index.total_bytes = 16;
  CHECK(assemble_listed({file_of("1", {"a", "b"})}, index)->notes.empty());
  index.total_bytes = 1'000'000;
  const auto all = assemble_listed({file_of("1", {"a", "b"})}, index);
  REQUIRE(all->notes.size() == 1);
  CHECK(all->notes[0] ==
        "the index gives a total_size of 1,000,000 bytes, but its tensors have 16");
}

TEST_CASE("assemble: metadata that shards repeat stands once, and what differs stands each time") {
  file_content first = file_of("1", {"a"});
  first.entries.metadata = {{"format", "pt"}, {"part", "1"}};
  first.entries.notes = {"something odd"};
  file_content second = file_of("2", {"b"});
  second.entries.metadata = {{"part", "2"}, {"format", "pt"}};
  const auto all = assemble_all({first, second});
  REQUIRE(all.has_value());
  CHECK(all->metadata == std::vector<std::pair<std::string, std::string>>{
                             {"format", "pt"}, {"part", "1"}, {"part", "2"}});
  CHECK(all->notes == names{"1: something odd"});
}
