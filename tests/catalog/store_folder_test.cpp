// SPDX-License-Identifier: Apache-2.0

// Folders and objects of a program's store: names with sub-folders, and objects of any size.

#include "catalog/store_folder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ringload/byte_source.hpp>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "catalog/folder_choice.hpp"
#include "catalog/parse_files.hpp"
#include "catalog/read_entries.hpp"
#include "support/checkpoint_folder.hpp"
#include "support/memory_store.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// An object whose bytes are all 1. Reads fail after the first 1,000 reads.
class endless_object final : public byte_source {
 public:
  explicit endless_object(std::uint64_t size) : bytes_(size) {}

  std::uint64_t bytes() const noexcept override { return bytes_; }
  std::string identity() const override { return "1"; }
  void read_async(const source_read& request, read_handler done) override {
    if (++reads_ > 1000) throw error(errc::remote_failed, "", "too many reads");
    std::ranges::fill(request.into, std::byte{1});
    std::move(done)(nullptr);
  }

 private:
  const std::uint64_t bytes_;
  int reads_ = 0;
};

class endless_folder final : public byte_folder {
 public:
  explicit endless_folder(std::uint64_t size) : bytes_(size) {}

  std::vector<std::string> names(const std::stop_token&) override { return {"x.bin"}; }
  std::shared_ptr<byte_source> open(const std::string&, const std::stop_token&) override {
    return std::make_shared<endless_object>(bytes_);
  }
  std::string path_of(const std::string& name) const override { return "endless://" + name; }

 private:
  const std::uint64_t bytes_;
};

}  // namespace

TEST_CASE("store_folder: an object of 2^63 bytes or more is refused when it is opened") {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 63, UINT64_MAX}) {
    const store_folder folder(std::make_shared<endless_folder>(bytes), {});
    const auto refused = folder.open_file("x.bin");
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == errc::size_overflow);
    CHECK(refused.error().cause().find("the limit is 9,223,372,036,854,775,807") !=
          std::string::npos);
  }
  const store_folder folder(std::make_shared<endless_folder>(INT64_MAX), {});
  CHECK(folder.open_file("x.bin").has_value());
}

TEST_CASE("store_folder: the search for an HDF5 user block ends for objects of any size") {
  for (const std::uint64_t bytes :
       {std::uint64_t{INT64_MAX}, (std::uint64_t{1} << 63) + 8, UINT64_MAX}) {
    source_file file;
    file.bytes = bytes;
    file.object = std::make_shared<endless_object>(bytes);
    const auto refused = read_entries(file, "x.bin", strictness::strict);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == errc::header_too_large);
  }
}

TEST_CASE("store_folder: a folder of a store has each sub-folder once, without the files in it") {
  memory_script script;
  const auto store = std::make_shared<memory_store>(script);
  for (const char* name : {"pytorch_model.bin", "vae-1/x.safetensors", "vae/x.safetensors",
                           "vae/y.safetensors", "vae/deep/z.safetensors"}) {
    store->put(std::string("f/") + name, "text");
  }
  const store_folder folder(store->find("memory://f", {}).folder, {});
  const auto names = folder.names();
  REQUIRE(names.has_value());
  CHECK(*names == std::vector<std::string>{"pytorch_model.bin", "vae", "vae-1"});
  const auto chosen = choose_checkpoint(*names);
  REQUIRE(chosen.has_value());
  CHECK(chosen->files == std::vector<std::string>{"pytorch_model.bin"});
  CHECK(folder.names_beneath().value().size() == 5);
}

TEST_CASE("store_folder: an index in a sub-folder lists shards of its sub-folder") {
  memory_script script;
  const auto store = std::make_shared<memory_store>(script);
  store->put("f/sub/model.safetensors.index.json", index_text({{"a", "s.safetensors"}}));
  store->put("f/sub/s.safetensors", tiny_tensors_text({"a", "b"}));
  store->put("f/s.safetensors", tiny_tensors_text({"a"}));
  const store_folder folder(store->find("memory://f", {}).folder, {});
  const source_options options = strictness::strict;
  const std::string name = "sub/model.safetensors.index.json";
  const auto found = parse_folder_file(folder, name, options);
  REQUIRE_MESSAGE(found.has_value(), message_of(found.error()));
  REQUIRE(found->catalog.files.size() == 1);
  CHECK(found->catalog.files[0].path == "memory://f/sub/s.safetensors");
  CHECK(store->expected == std::vector<std::string>{"sub/s.safetensors"});
  store->put("f/sub/model.safetensors.index.json", index_text({{"a", "gone.safetensors"}}));
  store->put("f/gone.safetensors", tiny_tensors_text({"a"}));
  CHECK(!parse_folder_file(folder, name, options).has_value());
}
