// SPDX-License-Identifier: Apache-2.0

// Version folders: a chain of deltas is loaded as a whole, and each error names the link.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ringload/delta.hpp>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "delta/versions.hpp"
#include "support/effort.hpp"
#include "support/memory_store.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace ringload::testing::delta_tests;

namespace {

// A folder with the full version 0 and a delta for each further version.
struct chain_folder : place {
  explicit chain_folder(unsigned count) {
    std::mt19937_64 random(36);
    versions.push_back(random_version(random, 5));
    versions.back()["w"] = {dtype::bf16, {4000}, noise(8'000, 1)};
    std::string base = save("v0.safetensors", versions.back());
    std::filesystem::create_directory(path("full"));
    for (unsigned v = 1; v <= count; ++v) {
      version next = versions.back();
      train(next["w"], 20, random);
      if (v == 2) next["added"] = {dtype::u8, {3}, "abc"};
      const std::string number = std::to_string(v);
      const std::string full = save("full/" + number + ".safetensors", next);
      make("v" + number + ".delta.zt", base, full);
      base = full;
      versions.push_back(std::move(next));
    }
  }

  model load_newest() { return load_version_async(host_loader, folder.path(), future).get(); }
  model load_version(std::uint64_t number) {
    version_options options;
    options.version = number;
    return load_version_async(host_loader, folder.path().string(), options, future).get();
  }
  // Returns the error of loading the newest version.
  std::string failure() {
    try {
      load_newest();
      return "loaded";
    } catch (const error& e) {
      return e.what();
    }
  }
  void rename(const std::string& from, const std::string& to) {
    std::filesystem::rename(path(from), path(to));
  }

  std::vector<version> versions;
};

bool contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

// A store that answers only a stop request.
class silent_listing_store final : public byte_store {
 public:
  bool has_name(std::string_view source) const noexcept override {
    return source.starts_with("silent://");
  }
  found_source find(std::string_view, const std::stop_token& stop) override {
    const int number = stop.stop_requested() ? ECANCELED : ETIMEDOUT;
    throw error(system_code(number), "silent", {});
  }
};

}  // namespace

TEST_CASE("version folder: a stop request ends the listing of a store") {
  const std::vector<extension> extensions = {extension(std::make_shared<silent_listing_store>())};
  const auto list = [&](const std::stop_token& stop) {
    return code_of([&] { list_versions("silent://run", extensions, stop); });
  };
  std::stop_source stopping;
  CHECK(list(stopping.get_token()) == system_code(ETIMEDOUT));
  stopping.request_stop();
  CHECK(list(stopping.get_token()) == system_code(ECANCELED));
}

TEST_CASE("version folder: each version is loaded through its chain") {
  chain_folder at(4);
  CHECK(tensors_of(at.load_newest()) == at.versions[4]);
  for (unsigned v = 0; v <= 4; ++v) CHECK(tensors_of(at.load_version(v)) == at.versions[v]);
  const auto listed = list_versions(at.folder.path());
  REQUIRE(listed.size() == 5);
  CHECK(listed[0].full == at.path("v0.safetensors"));
  CHECK(listed[0].delta.empty());
  CHECK(listed[4].version == 4);
  CHECK(listed[4].delta == at.path("v4.delta.zt"));
}

TEST_CASE("version folder: the last full version is the start of the chain") {
  chain_folder at(4);
  at.rename("full/3.safetensors", "v3.safetensors");
  std::filesystem::remove(at.path("v0.safetensors"));
  std::filesystem::remove(at.path("v2.delta.zt"));
  std::filesystem::remove(at.path("v3.delta.zt"));
  CHECK(tensors_of(at.load_newest()) == at.versions[4]);
  CHECK(tensors_of(at.load_version(3)) == at.versions[3]);
  CHECK(code_of([&] { at.load_version(1); }) == errc::source_not_found);
}

TEST_CASE("version folder: names that are no version are ignored") {
  chain_folder at(1);
  for (const char* name : {"v01.delta.zt", "v.delta.zt", "v2.delta.zt.part", "x2.delta.zt",
                           "v99999999999999999999.delta.zt", "v-3.safetensors", "v7"}) {
    std::ofstream(at.path(name)) << "text";
  }
  CHECK(list_versions(at.folder.path().string()).size() == 2);
  CHECK(tensors_of(at.load_newest()) == at.versions[1]);
}

TEST_CASE("version folder: an error names the link") {
  chain_folder at(4);
  SUBCASE("missing") {
    std::filesystem::remove(at.path("v2.delta.zt"));
    CHECK(contains(at.failure(), "v2.delta.zt"));
    CHECK(code_of([&] { at.load_newest(); }) == errc::source_not_found);
  }
  SUBCASE("missing full version") {
    std::filesystem::remove(at.path("v0.safetensors"));
    CHECK(contains(at.failure(), "v0.delta.zt"));
  }
  SUBCASE("reordered") {
    at.rename("v2.delta.zt", "x");
    at.rename("v3.delta.zt", "v2.delta.zt");
    at.rename("x", "v3.delta.zt");
    CHECK(contains(at.failure(), "v2.delta.zt"));
    CHECK(code_of([&] { at.load_newest(); }) == errc::wrong_digest);
  }
  SUBCASE("another base") {
    version other = at.versions[0];
    other["w"].bytes[9] ^= 1;
    std::filesystem::remove(at.path("v0.safetensors"));
    at.save("v0.safetensors", other);
    CHECK(contains(at.failure(), "v1.delta.zt"));
    CHECK(code_of([&] { at.load_newest(); }) == errc::wrong_digest);
  }
  SUBCASE("cut") {
    std::filesystem::resize_file(at.path("v3.delta.zt"), 100);
    CHECK(contains(at.failure(), "v3.delta.zt"));
  }
  SUBCASE("a full version twice") {
    at.save("v0.zt", at.versions[0]);
    CHECK(contains(at.failure(), "v0.zt"));
    CHECK(contains(at.failure(), "v0.safetensors"));
    CHECK(code_of([&] { at.load_newest(); }) == errc::ambiguous_source);
  }
  SUBCASE("a folder without versions") {
    const temporary_folder empty;
    CHECK(list_versions(empty.path().string()).empty());
    CHECK(code_of([&] {
            load_version_async(at.host_loader, empty.path().string(), future).get();
          }) == errc::source_not_found);
    CHECK(code_of([&] { list_versions(at.path("absent")); }) ==
          boost::system::errc::no_such_file_or_directory);
  }
}

TEST_CASE("version folder: from a loaded version, only the later deltas are read") {
  chain_folder at(5);
  version_options options;
  options.base = at.load_version(2);
  options.base_version = 2;
  const auto load = [&] {
    return load_version_async(at.host_loader, at.folder.path(), options, future).get();
  };
  at.rename("v0.safetensors", "gone");
  at.rename("v1.delta.zt", "gone1");
  CHECK(tensors_of(load()) == at.versions[5]);
  options.version = 2;
  CHECK(load().storage() == options.base->storage());
  options.version = 1;
  CHECK(code_of([&] { load(); }) == errc::source_not_found);

  // A later full version is nearer than the loaded version.
  options.version.reset();
  std::filesystem::copy(at.path("full/4.safetensors"), at.path("v4.safetensors"));
  at.rename("v3.delta.zt", "gone3");
  CHECK(tensors_of(load()) == at.versions[5]);
  at.rename("v4.safetensors", "gone4");
  CHECK(code_of([&] { load(); }) == errc::source_not_found);

  // The digests refuse another version as the base.
  at.rename("gone3", "v3.delta.zt");
  options.base = at.host_loader.load_async(at.path("full/1.safetensors"), future).get();
  CHECK(code_of([&] { load(); }) == errc::wrong_digest);
}

TEST_CASE("version folder: a chain is loaded from a store, or from a list of links") {
  chain_folder at(4);
  memory_script script;
  const auto store = std::make_shared<memory_store>(script);
  for (const auto& entry : std::filesystem::directory_iterator(at.folder.path())) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename().string();
    store->put("run/" + name, text_of(entry.path().string()));
    store->put(name, text_of(entry.path().string()));
  }
  const std::vector<extension> extensions = {extension(store)};
  loader store_loader(host(), small_options(), extensions);
  const auto load = [&](const std::string& path) {
    return load_version_async(store_loader, path, future).get();
  };
  const auto failure = [&](const std::string& path) -> std::string {
    try {
      load(path);
      return "loaded";
    } catch (const error& e) {
      return e.what();
    }
  };
  store->put("v1.delta.zt", "another folder");
  const auto listed = list_versions("memory://run", extensions);
  REQUIRE(listed.size() == 5);
  CHECK(listed[0].full == "memory://run/v0.safetensors");
  CHECK(listed[3].delta == "memory://run/v3.delta.zt");
  CHECK(tensors_of(load("memory://run")) == at.versions[4]);
  CHECK(contains(failure("memory://run/v0.safetensors"), "expected a folder of versions"));
  CHECK(contains(failure("other://run"), "no extension of the loader supports such addresses"));

  const auto load_links = [&](std::vector<source> links) {
    return load_chain_async(store_loader, std::move(links), future).get();
  };
  const std::string prefix = "memory://run/";
  std::vector<source> links = {prefix + "v0.safetensors", prefix + "v1.delta.zt",
                               at.path("v2.delta.zt")};
  CHECK(tensors_of(load_links(links)) == at.versions[2]);
  CHECK(tensors_of(load_links({links[0]})) == at.versions[0]);
  std::swap(links[1], links[2]);
  CHECK(code_of([&] { load_links(links); }) == errc::wrong_digest);
  CHECK(code_of([&] { load_links({}); }) == errc::invalid_options);

  // Each broken link is named.
  store->put("run/v3.delta.zt", text_of(at.path("v2.delta.zt")));
  CHECK(contains(failure("memory://run"), "memory://run/v3.delta.zt"));
  store->put("run/v3.delta.zt", text_of(at.path("v3.delta.zt")).substr(0, 100));
  CHECK(contains(failure("memory://run"), "memory://run/v3.delta.zt"));
  store->put("run/v6.delta.zt", text_of(at.path("v4.delta.zt")));
  CHECK(contains(failure("memory://run"), "memory://run/v5.delta.zt: the folder has neither"));
  store->lists = false;
  CHECK(code_of([&] { load("memory://run"); }) == errc::unsupported_feature);
  CHECK(contains(failure("memory://run"), "cannot be listed"));
}

TEST_CASE("version folder: a delta is refused as the full version of a chain, by name") {
  chain_folder at(2);
  const auto refusal = [](const auto& work) -> std::string {
    try {
      work();
      return "loaded";
    } catch (const error& e) {
      CHECK(e.code() == errc::not_a_checkpoint);
      return e.what();
    }
  };
  const auto load_links = [&](std::vector<source> links) {
    return load_chain_async(at.host_loader, std::move(links), future).get();
  };
  const std::string first = at.path("v1.delta.zt");
  CHECK(
      contains(refusal([&] { load_links({first}); }), first + ": it is a delta, expected a full"));
  CHECK(contains(refusal([&] { load_links({first, at.path("v2.delta.zt")}); }), first));
  CHECK(contains(refusal([&] { at.apply(at.load("v1.delta.zt"), "v2.delta.zt"); }), "base"));
  version_options options;
  options.base = at.load("v1.delta.zt");
  options.base_version = 1;
  CHECK(contains(
      refusal([&] { load_version_async(at.host_loader, at.folder.path(), options, future).get(); }),
      "base"));

  // The name of the file says that the delta is a full version.
  at.rename("v1.delta.zt", "v1.zt");
  for (const std::uint64_t version : {std::uint64_t{1}, std::uint64_t{2}}) {
    CHECK(contains(refusal([&] { at.load_version(version); }), at.path("v1.zt")));
  }
}

TEST_CASE("version folder: with one allocation for changed tensors, a chain has few allocations") {
  chain_folder at(5);
  version_options options;
  options.apply.allocation = allocation::per_load;
  const model newest = load_version_async(at.host_loader, at.folder.path(), options, future).get();
  CHECK(tensors_of(newest) == at.versions[5]);
  CHECK(newest.regions().size() <= 3);

  const std::uint64_t count = 3 * effort_percent;
  version tensors;
  for (std::uint64_t i = 0; i < count; ++i) {
    tensors["t" + std::to_string(i)] = {dtype::u8, {5000}, noise(5000, i)};
  }
  std::string base = at.save("base.safetensors", tensors);
  model current = at.load("base.safetensors");
  for (std::uint64_t v = 0; v < count; ++v) {
    std::mt19937_64 random(v);
    train(tensors["t" + std::to_string(v)], 20, random);
    const std::string next = at.save("next" + std::to_string(v % 2) + ".safetensors", tensors);
    at.make("delta" + std::to_string(v), base, next);
    current = at.apply(current, "delta" + std::to_string(v), options.apply);
    CHECK(tensors_of(current) == tensors);
    std::uint64_t bytes = 0;
    for (const memory_region& region : current.regions()) bytes += region.bytes;
    // At least half of each allocation is in use. Sizes are rounded up to 64 bytes.
    CHECK(bytes <= 2 * count * 5056);
    CHECK(current.regions().size() <= 70);
    base = next;
  }
}
