// SPDX-License-Identifier: Apache-2.0

// The versions of a followed folder, and its failures.

#include "followed_folder.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ringload/loader.hpp>
#include <string>

#include "interrupts.hpp"
#include "support/safetensors_text.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using ringload::testing::temporary_folder;

namespace {

class version_files {
 public:
  version_files() {
    static const bool is_watching = [] {
      tool::watch_for_interrupts();  // The loads of a followed folder wait for interrupts.
      return true;
    }();
    (void)is_watching;
    std::filesystem::create_directory(run);
  }

  void add(std::uint64_t version) const {
    const std::string name = "v" + std::to_string(version) + ".safetensors";
    std::ofstream(run / name, std::ios::binary) << testing::one_tensor_text("t", "0123456789");
  }

 private:
  const temporary_folder folder_;

 public:
  const std::filesystem::path run = folder_.path() / "run";
  const std::filesystem::path moved = folder_.path() / "moved";
  loader host_loader;
  tool::followed_folder followed{host_loader, {}, run.string(), std::chrono::milliseconds(1), {}};
};

}  // namespace

TEST_CASE("followed folder: a version is returned until it is marked as published") {
  version_files files;
  files.add(0);
  for (int attempt = 0; attempt < 3; ++attempt) CHECK(files.followed.load_newest());
  CHECK(files.followed.version() == 0);
  files.followed.mark_published();
  CHECK_FALSE(files.followed.load_newest());

  files.add(1);
  CHECK(files.followed.load_newest());
  files.add(2);
  CHECK(files.followed.load_newest());
  CHECK(files.followed.version() == 2);
  // The folder cannot be listed, but the last version can still be published.
  std::filesystem::rename(files.run, files.moved);
  CHECK(files.followed.load_newest());
  CHECK(files.followed.failure());
  files.followed.mark_published();
  CHECK_FALSE(files.followed.load_newest());
}

TEST_CASE("followed folder: a second outage with the same message is reported") {
  version_files files;
  files.add(0);
  REQUIRE(files.followed.load_newest());
  files.followed.mark_published();
  std::string first_message;
  for (int outage = 0; outage < 2; ++outage) {
    std::filesystem::rename(files.run, files.moved);
    CHECK_FALSE(files.followed.load_newest());
    const std::string message = files.followed.take_message();
    CHECK_FALSE(message.empty());
    if (outage == 0) first_message = message;
    CHECK(message == first_message);
    // The same outage is reported once.
    CHECK_FALSE(files.followed.load_newest());
    CHECK(files.followed.take_message().empty());
    std::filesystem::rename(files.moved, files.run);
    CHECK_FALSE(files.followed.load_newest());
    CHECK_FALSE(files.followed.failure());
    CHECK(files.followed.take_message().empty());
  }
}
