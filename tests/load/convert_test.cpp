// SPDX-License-Identifier: Apache-2.0

// load_options::dtype into host memory: what is converted, what is not, and what tensor and catalog
// report.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <ringload/loader.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/blocks_text.hpp"
#include "support/converted.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

std::string first_error(const model& loaded, dtype to) {
  const catalog& in = loaded.catalog();
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    const tensor t = loaded[i];
    std::string wrong = conversion_error(t, std::string(bytes_of(t)), in.tensors[i], in, to);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

TEST_CASE("convert: floating tensors are converted, at any offset in the file") {
  for (const auto engine : {read_engine::automatic, read_engine::threads}) {
    loader with(host(), small_options(4, engine));
    // With an offset of one byte, elements cross the borders of slots.
    for (const std::size_t spaces : {0U, 1U, 2U, 4093U}) {
      const made_file file(tensors_of_all_types(), spaces);
      for (const auto route : {read_route::automatic, read_route::buffered}) {
        for (const dtype to : conversion_targets) {
          load_options options = converting_to(to);
          options.route = route;
          make_cold(file.path());
          const model loaded = get(with.load_async(file.name(), options, use_future));
          CHECK(first_error(loaded, to) == "");
          CHECK(loaded.stats().bytes == loaded.catalog().size_bytes());
        }
      }
    }
  }
}

TEST_CASE("convert: the tensor has the converted type, the catalog the file's") {
  loader with(host(), small_options());
  const made_file file(std::vector<made_tensor>{
      f32("a", 10), {"none", 0, "F8_E5M2", 1}, {"i", 8, "I64", 8}, {"same", 6, "BF16", 2}});
  const model loaded = get(with.load_async(file.name(), converting_to(dtype::bf16), use_future));
  CHECK(loaded.at("a").dtype() == dtype::bf16);
  CHECK(loaded.at("a").size_bytes() == 20);
  CHECK(loaded.at("a").shape()[0] == 10);
  CHECK(loaded.catalog().tensors[0].dtype == dtype::f32);
  CHECK(loaded.catalog().tensors[0].bytes == 40);
  CHECK(loaded.at("none").dtype() == dtype::bf16);
  CHECK(loaded.at("none").size_bytes() == 0);
  CHECK(loaded.at("none").data() != nullptr);
  CHECK(loaded.at("i").dtype() == dtype::i64);
  CHECK(loaded.at("same").dtype() == dtype::bf16);
  CHECK(loaded.at("same").size_bytes() == 6);
}

TEST_CASE("convert: the predicate chooses, and is called for convertible tensors only") {
  loader with(host(), small_options());
  const made_file file(
      std::vector<made_tensor>{f32("w", 9), f32("norm", 5), {"i", 4, "I32", 4}, f32("v", 1)});
  std::vector<std::string> asked;
  load_options options = converting_to(dtype::f16);
  options.converts = [&asked](const tensor_info& which) {
    asked.push_back(which.name);
    return which.name != "norm";
  };
  const model loaded = get(with.load_async(file.name(), options, use_future));
  CHECK(asked == std::vector<std::string>{"w", "norm", "v"});
  CHECK(loaded.at("w").dtype() == dtype::f16);
  CHECK(loaded.at("norm").dtype() == dtype::f32);
  CHECK(loaded.at("i").dtype() == dtype::i32);
  CHECK(loaded.at("v").dtype() == dtype::f16);
  CHECK(difference(loaded.at("norm"), loaded.catalog().tensors[1], loaded.catalog()) == "");
}

TEST_CASE("convert: a fused tensor of which only some parts are converted is refused") {
  loader with(host(), small_options());
  const made_file file(std::vector<made_tensor>{f32("q", 8), f32("k", 8), f32("v", 8)});
  load_options options = converting_to(dtype::f16);
  options.select.fused("qkv", {"q", "k", "v"}, 0);
  options.converts = [](const tensor_info& info) { return info.name != "k"; };
  const auto failed = failure_of(with.load_async(file.name(), options, use_future));
  REQUIRE(failed.has_value());
  CHECK(failed->code() == errc::invalid_selection);
  CHECK(std::string(failed->what()).find("'k'") != std::string::npos);
  options.converts = [](const tensor_info&) { return true; };
  const model loaded = get(with.load_async(file.name(), options, use_future));
  CHECK(loaded.at("qkv").dtype() == dtype::f16);
  CHECK(loaded.at("qkv").size_bytes() == 48);
}

TEST_CASE("convert: a predicate that throws fails its load") {
  loader with(host(), small_options());
  const made_file file(std::vector<made_tensor>{f32("w", 9)});
  load_options options = converting_to(dtype::f16);
  options.converts = [](const tensor_info&) -> bool { throw std::runtime_error("no idea"); };
  const auto failed = failure_of(with.load_async(file.name(), options, use_future));
  REQUIRE(failed.has_value());
  CHECK(holds(failed->what(), "no idea"));
}

TEST_CASE("convert: a type that nothing can be converted to is refused by name") {
  loader with(host(), small_options());
  const made_file file(std::vector<made_tensor>{f32("w", 9)});
  for (const dtype to : {dtype::f8_e4m3fn, dtype::i8, dtype::f64}) {
    const auto failed = failure_of(with.load_async(file.name(), converting_to(to), use_future));
    REQUIRE(failed.has_value());
    CHECK(failed->code() == errc::unsupported_dtype);
    CHECK(holds(failed->what(),
                "tensors can be converted to F32, F16 and BF16, not to " + std::string(name(to))));
  }
}

TEST_CASE("convert: tensors that are not converted are still read without staging") {
  loader with(host(), small_options());
  const made_file file(std::vector<made_tensor>{{"i", 500'000}, f32("w", 1)});
  make_cold(file.path());
  const model loaded = get(with.load_async(file.name(), converting_to(dtype::f16), use_future));
  CHECK(first_error(loaded, dtype::f16) == "");
  CHECK(loaded.stats().bytes_unstaged >= 500'000);
}

TEST_CASE("convert: blocks of GGUF become the numbers that its reference library makes of them") {
  loader with(host(), small_options());
  const std::string path = std::string(RINGLOAD_TEST_DATA_DIR) + "/gguf/blocks.gguf";
  const model stored = get(with.load_async(path, use_future));
  const model loaded = get(with.load_async(path, converting_to(dtype::f32), use_future));
  int compared = 0;
  for (const tensor reference : loaded) {
    const std::string_view full = reference.name();
    if (!full.ends_with(".f32")) continue;
    const std::string of(full.substr(0, full.size() - 4));
    const tensor made = loaded.at(of);
    CAPTURE(of);
    CHECK(made.dtype() == dtype::f32);
    CHECK(std::ranges::equal(made.shape(), reference.shape()));
    CHECK(stored.at(of).dtype() == dtype::u8);
    CHECK((bytes_of(made) == bytes_of(reference)));
    ++compared;
  }
  CHECK(compared >= 13);
}

TEST_CASE("convert: parts of tensors of blocks are those of the whole, dequantised or stored") {
  const blocks_text made;
  const temporary_folder folder;
  const std::string path = (folder.path() / "blocks.gguf").string();
  write_file(path, made.file());
  loader with(host(), small_options());
  const checkpoint file = get(with.open_async(path, use_future));
  const model whole = get(with.load_async(file, converting_to(dtype::f32), use_future));
  const model stored = get(with.load_async(file, use_future));
  for (const blocks_text::row& type : made.types) {
    CAPTURE(type.name);
    // Planes 1 and 2, rows 2 to 4, and of each row blocks 1 and 2.
    const selection part =
        select()
            .names({type.name})
            .slice(type.name, 0, 1, 2)
            .slice(type.name, 1, 2, 3)
            .slice(type.name, 2, type.elements, 2 * std::uint64_t{type.elements});
    const auto part_of = [&](const tensor& of, std::uint64_t block_bytes) {
      std::string out;
      for (std::uint64_t p = 1; p < 3; ++p) {
        for (std::uint64_t r = 2; r < 5; ++r) {
          const std::uint64_t first = (p * made.rows + r) * made.blocks + 1;
          out += bytes_of(of).substr(first * block_bytes, 2 * block_bytes);
        }
      }
      return out;
    };
    const model wide =
        get(with.load_async(file, selecting(part, converting_to(dtype::f32)), use_future));
    CHECK(wide[0].dtype() == dtype::f32);
    CHECK(std::ranges::equal(wide[0].shape(), std::vector<std::uint64_t>{2, 3, 2 * type.elements}));
    CHECK((bytes_of(wide[0]) == part_of(whole.at(type.name), 4 * type.elements)));
    const model as_stored = get(with.load_async(file, part, use_future));
    CHECK(as_stored[0].dtype() == dtype::u8);
    CHECK((bytes_of(as_stored[0]) == part_of(stored.at(type.name), type.bytes)));

    const selection twice = select().except("*").fused("twice", {type.name, type.name}, 0);
    const model fused =
        get(with.load_async(file, selecting(twice, converting_to(dtype::f32)), use_future));
    const std::string once(bytes_of(whole.at(type.name)));
    CHECK((bytes_of(fused[0]) == once + once));
    CHECK(fused[0].shape()[0] == 2 * made.planes);
  }
  const selection unlike = select().fused("both", {"q4_0", "iq4_nl"}, 0);
  CHECK(code_of(with.load_async(file, unlike, use_future)) == errc::invalid_selection);
}

TEST_CASE("convert: a range that cuts a block is refused, by file and tensor") {
  loader with(host(), small_options());
  const std::string path = std::string(RINGLOAD_TEST_DATA_DIR) + "/gguf/blocks.gguf";
  const auto failed =
      failure_of(with.load_async(path, select().slice("q4_0", 1, 16, 16), use_future));
  REQUIRE(failed.has_value());
  CHECK(failed->code() == errc::invalid_selection);
  const std::string what = failed->what();
  CHECK(
      holds(what, "tensor 'q4_0': the range from 16 to 32 of dimension 1 cuts a quantised block"));
  CHECK(what.find("blocks.gguf") == what.rfind("blocks.gguf"));
}
