// SPDX-License-Identifier: Apache-2.0

// Changes that a delta cannot describe, and destinations that a delta cannot update. The operation
// fails, and names the tensor or the object.

#include <ringload/delta.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <ringload/error.hpp>
#include <ringload/writer.hpp>
#include <string>
#include <vector>

#include "delta/versions.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace ringload::testing::delta_tests;

namespace {

object_info object_g() {
  object_info object;
  object.name = "g";
  object.layout = "group";
  object.shape = {8};
  object.attributes = {{"scale", 1}};
  return object;
}

// Writes the objects. Each object has the part `part` with the elements `bytes`.
std::string save_objects(const place& at, const char* name, const std::vector<object_info>& objects,
                         const std::string& part, const std::string& bytes) {
  writer out(at.path(name));
  for (const object_info& object : objects) {
    out.declare_async(object, future).get();
    out.add_part_async(object.name, tensor_ref(part, bytes.data(), dtype::u8, {bytes.size()}),
                       object_options(), future)
        .get();
  }
  // The tensors of all versions have the same names, so that only the objects differ.
  out.add_async(tensor_ref("t", bytes.data(), dtype::u8, {bytes.size()}), object_options(), future)
      .get();
  out.finish_async(future).get();
  return at.path(name);
}

}  // namespace

TEST_CASE("delta: a change of a composite object is refused, and no file appears") {
  place at;
  const std::string before = noise(8, 1);
  const std::string base = save_objects(at, "a.zt", {object_g()}, "p", before);
  const auto refusal_of = [&](const std::string& from, const std::string& to) {
    std::string message;
    try {
      at.make("d.zt", from, to);
    } catch (const error& failure) {
      CHECK(failure.code() == errc::unsupported_feature);
      message = failure.what();
    }
    CHECK_FALSE(std::filesystem::exists(at.path("d.zt")));
    return message;
  };
  const std::vector<std::function<void(object_info&)>> changes = {
      [](object_info& object) { object.layout = "other"; },
      [](object_info& object) { object.shape = {2, 4}; },
      [](object_info& object) { object.attributes = {{"scale", 2}}; },
      [](object_info& object) { object.name = "h"; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    object_info object = object_g();
    changes[i](object);
    const std::string next = save_objects(at, "b.zt", {object}, "p", before);
    CHECK(refusal_of(base, next).find('\'' + object.name + '\'') != std::string::npos);
  }
  const std::string part = save_objects(at, "b.zt", {object_g()}, "q", before);
  CHECK(refusal_of(base, part).find("'g'") != std::string::npos);
  const std::string none = save_objects(at, "b.zt", {}, "p", before);
  CHECK(refusal_of(base, none).find("'g'") != std::string::npos);
  CHECK(refusal_of(none, base).find("'g'") != std::string::npos);

  // The elements of the part may change.
  const std::string next = save_objects(at, "b.zt", {object_g()}, "p", noise(8, 2));
  at.make("d.zt", base, next);
  const model applied = at.apply(at.load("a.zt"), "d.zt");
  CHECK(tensors_of(applied) == tensors_of(at.load("b.zt")));
  REQUIRE(applied.catalog().composites.size() == 1);
  const composite_info& object = applied.catalog().composites.front();
  CHECK(object.attributes == object_g().attributes);
  CHECK(applied.catalog().files.at(object.file).path == at.path("a.zt"));
}

TEST_CASE("delta: elements of less than 8 bits may change, but not appear or change their shape") {
  place at;
  for (const dtype type : {dtype::f4, dtype::f6_e2m3, dtype::f6_e3m2}) {
    const std::uint64_t bytes = 8192 * bits(type) / 8;
    version base;
    base["w"] = {type, {8192}, noise(bytes, 1)};
    version next = base;
    next["w"].bytes = noise(bytes, 2);
    const std::string from = at.save("a.safetensors", base);
    for (const int level : {0, 3}) {
      delta_options options;
      options.zstd_level = level;
      const delta_result made = at.make("d.zt", from, at.save("b.safetensors", next), options);
      CHECK(made.tensors_dense == 1);
      CHECK(tensors_of(at.apply(at.load("a.safetensors"), "d.zt")) == next);
    }
    std::filesystem::remove(at.path("d.zt"));
    version reshaped = base;
    reshaped["w"].shape = {2, 4096};
    version longer = base;
    longer["added"] = base["w"];
    for (const version& refused : {reshaped, longer}) {
      at.save("b.safetensors", refused);
      CHECK(code_of([&] { at.make("d.zt", from, at.path("b.safetensors")); }) ==
            errc::unsupported_feature);
      CHECK_FALSE(std::filesystem::exists(at.path("d.zt")));
    }
  }
}

TEST_CASE("delta: an empty model handle is refused as the base") {
  place at;
  version tensors;
  tensors["w"] = {dtype::u8, {3}, "abc"};
  const std::string base = at.save("v0.safetensors", tensors);
  tensors["w"].bytes = "abd";
  at.make("v1.delta.zt", base, at.save("next.safetensors", tensors));
  CHECK(code_of([&] { at.apply(model(), "v1.delta.zt"); }) == errc::no_such_tensor);

  std::filesystem::remove(base);
  version_options options;
  options.base = model();
  CHECK(code_of([&] {
          load_version_async(at.host_loader, at.folder.path(), options, future).get();
        }) == errc::no_such_tensor);
}

TEST_CASE("delta: a destination that the base lacks is refused, also without check_unchanged") {
  std::mt19937_64 random(7);
  place at;
  version base;
  base["a"] = {dtype::f32, {4, 4}, noise(64, 1)};
  version next = base;
  train(next["a"], 500, random);
  at.make("d.zt", at.save("a.safetensors", base), at.save("b.safetensors", next));
  version more = base;
  more["more"] = {dtype::u8, {3}, "abc"};
  owned_version memory(more);
  for (const bool check_unchanged : {true, false}) {
    CAPTURE(check_unchanged);
    apply_options options;
    options.check_unchanged = check_unchanged;
    CHECK(code_of([&] {
            update_async(at.host_loader, memory.destinations(), at.path("d.zt"), options, future)
                .get();
          }) == errc::wrong_digest);
    CHECK(memory.tensors == more);
  }
}
