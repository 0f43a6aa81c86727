// SPDX-License-Identifier: Apache-2.0
#include "catalog/gguf_split.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <ringload/source.hpp>
#include <string>
#include <vector>

#include "catalog/resolve_source.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;

namespace {

using names = std::vector<std::string>;

file_content part(const std::string& no, const std::string& count, const std::string& tensors) {
  file_content out;
  out.info.path = "part" + no;
  out.info.format = "gguf";
  out.entries.tensors.resize(2);
  out.entries.metadata = {
      {"split.no", no}, {"split.count", count}, {"split.tensors.count", tensors}};
  return out;
}

boost::system::error_code code_of(const std::vector<file_content>& files) {
  const auto bad = check_gguf_split(files);
  return bad ? bad->code : boost::system::error_code{};
}

}  // namespace

TEST_CASE("gguf_split: the first file of a series stands for all") {
  CHECK(gguf_series("m-00001-of-00003.gguf") ==
        names{"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"});
  CHECK(gguf_series("m-00002-of-00003.gguf").empty());
  CHECK(gguf_series("m-00001-of-00000.gguf").empty());
  CHECK(gguf_series("m-00001-of-000x3.gguf").empty());
  CHECK(gguf_series("-00001-of-00003.gguf").empty());
  CHECK(gguf_series("m-00001-of-00003.safetensors").empty());
  CHECK(gguf_series("m.gguf").empty());
  CHECK(gguf_series("").empty());
}

TEST_CASE("gguf_split: files say which of how many they are, and how many tensors there are") {
  CHECK_FALSE(code_of({part("0", "2", "4"), part("1", "2", "4")}));
  CHECK(code_of({part("0", "3", "4"), part("1", "3", "4")}) == errc::incomplete_series);
  CHECK(code_of({part("1", "2", "4"), part("0", "2", "4")}) == errc::incomplete_series);
  CHECK(code_of({part("0", "2", "4"), part("0", "2", "4")}) == errc::incomplete_series);
  CHECK(code_of({part("0", "2", "5"), part("1", "2", "5")}) == errc::missing_tensor);
  file_content named = part("1", "2", "4");  // The user named only this file, by its number.
  CHECK(code_of({named}) == errc::incomplete_series);
  for (const char* const path : {"a/m-00002-of-00002.gguf", "m-00002-of-00002.gguf"}) {
    named.info.path = path;
    CHECK_FALSE(code_of({named}));
  }
  for (const char* const path : {"m.gguf", "-00002-of-00002.gguf", "m-0x002-of-00002.gguf",
                                 "m-00002_of_00002.gguf", "m-00002-of-00002", ""}) {
    named.info.path = path;
    CHECK(code_of({named}) == errc::incomplete_series);
  }
  CHECK_FALSE(code_of({part("0", "1", "2")}));
  CHECK_FALSE(code_of({}));
  file_content other = part("7", "9", "1");
  other.info.format = "npz";
  CHECK_FALSE(code_of({other, other}));
}

TEST_CASE("gguf_split: a series opens by its folder and by its first file") {
  const std::filesystem::path data = std::filesystem::path(RINGLOAD_TEST_DATA_DIR) / "gguf";
  const catalog found = read_catalog((data / "split-00001-of-00003.gguf").native());
  CHECK(found.files.size() == 3);
  REQUIRE(found.tensors.size() == 5);
  CHECK(found.tensors[4].name == "t4");
  CHECK(read_catalog((data / "split-00002-of-00003.gguf").native()).tensors.size() == 2);

  ringload::testing::temporary_folder folder;
  for (int i = 1; i <= 3; ++i) {
    const std::string name = "split-0000" + std::to_string(i) + "-of-00003.gguf";
    std::filesystem::copy(data / name, folder.path() / name);
  }
  CHECK(read_catalog(folder.path().native()).tensors.size() == 5);
  ringload::testing::temporary_folder renamed;
  const auto model = renamed.path() / "model.gguf";
  std::filesystem::copy(data / "split-00001-of-00003.gguf", model);
  const auto plain = renamed.path() / "plain.gguf";
  for (const source& from :
       {source(renamed.path()), source(model), source(std::vector{model, plain})}) {
    try {
      read_catalog(from);
      FAIL("a part of a model was taken for the model");
    } catch (const error& bad) {
      CHECK(bad.code() == errc::incomplete_series);
    }
    std::filesystem::copy(data / "plain.gguf", plain, std::filesystem::copy_options::skip_existing);
  }
  open_options independent;
  independent.independent_files = true;
  CHECK(read_catalog(renamed.path(), independent).files.size() == 2);
  std::filesystem::copy_file(data / "split-00002-of-00003.gguf",
                             folder.path() / "split-00003-of-00003.gguf",
                             std::filesystem::copy_options::overwrite_existing);
  try {
    read_catalog(folder.path().native());
    FAIL("a file that is another one was accepted");
  } catch (const error& bad) {
    CHECK(bad.code() == errc::incomplete_series);
  }
}
