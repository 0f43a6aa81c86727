// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <random>
#include <ringload/selection.hpp>
#include <string>
#include <vector>

#include "request/choose.hpp"
#include "request/chosen_catalog.hpp"

using namespace ringload;

namespace {

using names = std::vector<std::string>;
using shape = std::vector<std::uint64_t>;

catalog catalog_with(std::vector<std::pair<std::string, shape>> tensors,
                     ringload::dtype type = dtype::f32) {
  catalog made;
  made.files.push_back({"model.safetensors", 1 << 20});
  for (auto& [name, size] : tensors) {
    tensor_info info;
    info.name = name;
    info.dtype = type;
    info.shape = size;
    info.bytes = bits(type);
    for (const std::uint64_t each : size) info.bytes *= each;
    info.bytes /= 8;
    made.tensors.push_back(info);
  }
  return made;
}

names names_of(const catalog& from) {
  names out;
  for (const tensor_info& each : from.tensors) out.push_back(each.name);
  return out;
}

boost::system::error_code code_of(const catalog& from, const selection& wanted) {
  auto which = choose(from, name_index(from), wanted.requests());
  if (!which) return which.error().code;
  auto made = catalog_of(from, *which);
  return made ? boost::system::error_code() : made.error().code;
}

std::string sentence_of(const catalog& from, const selection& wanted) {
  try {
    chosen(from, wanted);
  } catch (const error& e) {
    return e.what();
  }
  return "";
}

const catalog llama = catalog_with({{"embed", {8, 4}},
                                    {"layers.0.k", {4, 4}},
                                    {"layers.0.q", {8, 4}},
                                    {"layers.1.k", {4, 4}},
                                    {"layers.1.q", {8, 4}},
                                    {"norm", {4}}});

// Follows the definition: a star tries every length.
bool matches_by_definition(std::string_view glob, std::string_view text) {
  if (glob.empty()) return text.empty();
  if (glob.front() == '*') {
    for (std::size_t n = 0; n <= text.size(); ++n) {
      if (matches_by_definition(glob.substr(1), text.substr(n))) return true;
    }
    return false;
  }
  if (text.empty()) return false;
  return (glob.front() == '?' || glob.front() == text.front()) &&
         matches_by_definition(glob.substr(1), text.substr(1));
}

}  // namespace

TEST_CASE("names: each is found, of equal ones the first, and others are not") {
  catalog many;
  CHECK(!name_index(many).find(""));
  for (int i = 0; i < 1000; ++i) many.tensors.emplace_back().name = "t" + std::to_string(i);
  many.tensors.emplace_back().name = "t7";
  many.tensors.emplace_back();
  const name_index all(many);
  for (std::uint32_t t = 0; t < 1000; ++t) CHECK(all.find(many.tensors[t].name) == t);
  CHECK(all.find("t7") == 7);
  CHECK(all.find("") == 1001);
  CHECK(!all.find("t1000"));
  CHECK(!all.find("t"));
}

TEST_CASE("glob: stars, question marks and sets, as fnmatch has them") {
  CHECK(matches("", ""));
  CHECK(!matches("", "a"));
  CHECK(matches("*", ""));
  CHECK(matches("model.layers.*.q_proj.weight", "model.layers.11.q_proj.weight"));
  CHECK(matches("model.layers.?.q", "model.layers.1.q"));
  CHECK(!matches("model.layers.?.q", "model.layers.11.q"));
  CHECK(matches("*.[qk]_proj", "a.q_proj"));
  CHECK(!matches("*.[qk]_proj", "a.v_proj"));
  CHECK(matches("*.[!qk]_proj", "a.v_proj"));
  CHECK(matches("l.[0-9]", "l.7"));
  CHECK(!matches("l.[0-9]", "l.x"));
  // A closing bracket directly after the opening one is an element of the set.
  CHECK(matches("l.[]]", "l.]"));
  CHECK(matches("l.[-9]", "l.-"));
  CHECK(matches("l.[0", "l.[0"));  // A set without a closing bracket matches itself.
}

TEST_CASE("glob: agrees with the definition on all short texts, and takes no exponential time") {
  std::mt19937 random(7);
  const std::string letters = "ab?*";
  for (int i = 0; i < 20000; ++i) {
    std::string glob;
    std::string text;
    for (auto n = random() % 6; n > 0; --n) glob += letters[random() % 4];
    for (auto n = random() % 7; n > 0; --n) text += letters[random() % 2];
    CAPTURE(glob);
    CAPTURE(text);
    REQUIRE(matches(glob, text) == matches_by_definition(glob, text));
  }
  std::string stars;
  for (int i = 0; i < 200; ++i) stars += "*a";
  CHECK(!matches(stars + "b", std::string(10000, 'a')));
}

TEST_CASE("selection: without a wish everything is chosen, whole") {
  auto which = choose(llama, name_index(llama), select().requests());
  REQUIRE(which.has_value());
  REQUIRE(which->size() == llama.tensors.size());
  for (const chosen_tensor& each : *which) {
    CHECK(each.boxes.size() == 1);
    CHECK(each.boxes.front().ranges.empty());
  }
  CHECK(names_of(chosen(llama, select())) == names_of(llama));
}

TEST_CASE("selection: names, globs and predicates add up, and stay in the catalog's order") {
  const selection some =
      select().names({"norm", "layers.1.q"}).matching("*.0.*").where([](const tensor_info& t) {
        return t.name == "embed";
      });
  CHECK(names_of(chosen(llama, some)) ==
        names{"embed", "layers.0.k", "layers.0.q", "layers.1.q", "norm"});
  CHECK(names_of(chosen(llama, selection(some).except("*.q"))) ==
        names{"embed", "layers.0.k", "norm"});
  CHECK(chosen(llama, select().names({})).tensors.empty());
}

TEST_CASE("selection: what no tensor has is an error, unless it may be missing") {
  CHECK(code_of(llama, select().names({"nrom"})) == errc::no_such_tensor);
  CHECK(sentence_of(llama, select().names({"nrom"})) == "tensor 'nrom': no such tensor");
  CHECK(code_of(llama, select().matching("layers.2.*")) == errc::no_such_tensor);
  CHECK(code_of(llama, select().slice("nrom", 0, 0, 1)) == errc::no_such_tensor);
  CHECK(code_of(llama, select().shard("*.v", 0, 0, 2)) == errc::no_such_tensor);
  CHECK(code_of(llama, select().fused("x", {"nrom"}, 0)) == errc::no_such_tensor);
  const selection some =
      select().names({"nrom", "norm"}).matching("x*").shard("*.v", 0, 0, 2).allow_missing();
  CHECK(names_of(chosen(llama, some)) == names{"norm"});
}

TEST_CASE("selection: experts are dealt out in blocks, the rest to the lowest ranks") {
  std::vector<std::pair<std::string, shape>> tensors = {{"mlp.gate", {4}}};
  for (int n = 0; n < 10; ++n) {
    tensors.push_back({"mlp.experts." + std::to_string(n) + ".up", {4}});
  }
  tensors.push_back({"mlp.shared_experts.up", {4}});
  // Without a number, so not a tensor of a routed expert.
  tensors.push_back({"mlp.experts.scale", {4}});
  const catalog moe = catalog_with(tensors);
  const auto of_rank = [&](std::uint64_t rank) {
    names out;
    for (const std::string& each : names_of(chosen(moe, select().experts(rank, 4)))) {
      if (each.starts_with("mlp.experts.") && each != "mlp.experts.scale") out.push_back(each);
    }
    return out;
  };
  CHECK(of_rank(0) == names{"mlp.experts.0.up", "mlp.experts.1.up", "mlp.experts.2.up"});
  CHECK(of_rank(1) == names{"mlp.experts.3.up", "mlp.experts.4.up", "mlp.experts.5.up"});
  CHECK(of_rank(2) == names{"mlp.experts.6.up", "mlp.experts.7.up"});
  CHECK(of_rank(3) == names{"mlp.experts.8.up", "mlp.experts.9.up"});
  CHECK(chosen(moe, select().experts(3, 4)).tensors.size() == 3 + 2);
  CHECK(chosen(moe, select().experts(0, 4, 16)).tensors.size() == 3 + 4);  // 0 to 3 of 16.
  CHECK(code_of(moe, select().experts(4, 4)) == errc::invalid_selection);
}

TEST_CASE("selection: an expert that is not below the stated number is refused, not lost") {
  std::vector<std::pair<std::string, shape>> tensors = {{"mlp.gate", {4}}};
  for (int n = 0; n < 8; ++n) tensors.push_back({"mlp.experts." + std::to_string(n) + ".up", {4}});
  const catalog moe = catalog_with(tensors);
  for (const std::uint64_t rank : {0U, 1U}) {
    CHECK(code_of(moe, select().experts(rank, 2, 4)) == errc::invalid_selection);
    CHECK(code_of(moe, select().experts(rank, 2, 7)) == errc::invalid_selection);
    CHECK(names_of(chosen(moe, select().experts(rank, 2, 8))).size() == 1 + 4);
  }
  CHECK(sentence_of(moe, select().experts(0, 2, 4)) ==
        "model.safetensors: tensor 'mlp.experts.4.up': it belongs to expert 4, but the selection "
        "has only 4 experts");
  // Experts that the selection removes otherwise may have any number.
  CHECK(names_of(chosen(moe, select().except("*.[4-7].*").experts(1, 2, 4))) ==
        names{"mlp.gate", "mlp.experts.2.up", "mlp.experts.3.up"});
}

TEST_CASE("selection: experts of a checkpoint without experts are an error") {
  CHECK(code_of(llama, select().experts(0, 2)) == errc::invalid_selection);
  CHECK(code_of(llama, select().experts(0, 2, 8)) == errc::invalid_selection);
  CHECK(chosen(llama, select().experts(0, 2).allow_missing()).tensors.size() ==
        llama.tensors.size());
}

TEST_CASE("selection: a slice is a range of one dimension, and chooses its tensor") {
  const selection some = select().names({"norm"}).slice("embed", 0, 2, 3).slice("embed", 1, 0, 2);
  const catalog made = chosen(llama, some);
  REQUIRE(names_of(made) == names{"embed", "norm"});
  CHECK(made.tensors[0].shape == shape{3, 2});
  CHECK(made.tensors[0].bytes == 3 * 2 * 4);
  const auto which = choose(llama, name_index(llama), some.requests());
  CHECK(which->front().boxes.front().ranges == std::vector<range>{{2, 5}, {0, 2}});

  CHECK(code_of(llama, select().slice("embed", 0, 8, 0)) == boost::system::error_code());
  CHECK(code_of(llama, select().slice("embed", 0, 8, 1)) == errc::invalid_selection);
  CHECK(code_of(llama, select().slice("embed", 0, ~0ULL, 2)) == errc::invalid_selection);
  CHECK(code_of(llama, select().slice("embed", 2, 0, 1)) == errc::invalid_selection);
  CHECK(code_of(llama, selection(some).slice("embed", 0, 0, 1)) == errc::invalid_selection);
  CHECK(sentence_of(llama, select().slice("norm", 0, 2, 3)) ==
        "model.safetensors: tensor 'norm': the range from 2 to 5 ends outside dimension 0, which "
        "has 4 elements");
}

TEST_CASE("selection: shards are blocks of the size divided by the ranks, rounded up") {
  const catalog odd = catalog_with({{"w", {5, 3}}});
  const auto rows = [&](std::uint64_t rank, std::uint64_t ranks) {
    return choose(odd, name_index(odd), select().shard("w", 0, rank, ranks).requests())
        ->front()
        .boxes.front()
        .ranges;
  };
  CHECK(rows(0, 2) == std::vector<range>{{0, 3}, {0, 3}});
  CHECK(rows(1, 2) == std::vector<range>{{3, 5}, {0, 3}});
  CHECK(rows(2, 4) == std::vector<range>{{4, 5}, {0, 3}});
  CHECK(rows(3, 4) == std::vector<range>{{5, 5}, {0, 3}});  // No row is left for this rank.
  CHECK(rows(~0ULL - 1, ~0ULL) == std::vector<range>{{5, 5}, {0, 3}});
  CHECK(code_of(odd, select().shard("w", 0, 2, 2)) == errc::invalid_selection);
  CHECK(code_of(odd, select().shard("w", 2, 0, 2)) == errc::invalid_selection);
  // The predicate is not called for tensors that are not chosen.
  CHECK(code_of(llama, select().matching("layers.*").shard("*", 1, 0, 2)) ==
        boost::system::error_code());
  // norm does not have the dimension.
  CHECK(code_of(llama, select().shard("*", 1, 0, 2)) == errc::invalid_selection);
}

TEST_CASE("selection: fused tensors are one behind the other, in the caller's order") {
  const selection some =
      select().shard("*.[qk]", 0, 1, 2).fused("layers.0.qk", {"layers.0.q", "layers.0.k"}, 0);
  const catalog made = chosen(llama, some);
  CHECK(names_of(made) == names{"embed", "layers.0.qk", "layers.1.k", "layers.1.q", "norm"});
  CHECK(made.tensors[1].shape == shape{4 + 2, 4});
  const auto which = choose(llama, name_index(llama), some.requests());
  const chosen_tensor& fused = (*which)[1];
  REQUIRE(fused.boxes.size() == 2);
  CHECK(fused.boxes[0].tensor == 2);
  CHECK(fused.boxes[0].ranges == std::vector<range>{{4, 8}, {0, 4}});
  CHECK(fused.boxes[1].tensor == 1);
  CHECK(fused.boxes[1].ranges == std::vector<range>{{2, 4}, {0, 4}});

  // A part that is selected by name is also loaded separately.
  CHECK(names_of(chosen(
            llama, select().names({"layers.0.k"}).fused("kk", {"layers.0.k", "layers.1.k"}, 1))) ==
        names{"layers.0.k", "kk"});
  CHECK(code_of(llama, select().fused("x", {"layers.0.q", "layers.0.k"}, 1)) ==
        errc::invalid_selection);  // 8 rows and 4 rows.
  CHECK(code_of(llama, select().fused("x", {"norm", "embed"}, 0)) == errc::invalid_selection);
  CHECK(code_of(llama, select().fused("embed", {"layers.0.q", "layers.1.q"}, 0)) ==
        errc::invalid_selection);  // Two tensors with one name.
}

TEST_CASE("selection: a fused tensor without parts is refused by its name") {
  const selection empty = select().fused("qk", {}, 0);
  CHECK(code_of(llama, empty) == errc::invalid_selection);
  CHECK(sentence_of(llama, empty).find("tensor 'qk': the fused tensor has no parts") !=
        std::string::npos);
  // Missing tensors may be allowed, but the list of names must not be empty.
  CHECK(code_of(llama, select().names({"norm"}).fused("qk", {}, 0).allow_missing()) ==
        errc::invalid_selection);
  CHECK_FALSE(code_of(llama, select().fused("qk", {"absent"}, 0).allow_missing()));
}

TEST_CASE("selection: of types of less than a byte, a range ends on a byte or is refused") {
  const catalog small = catalog_with({{"w", {4, 3}}}, dtype::f4);
  CHECK(chosen(small, select().slice("w", 0, 0, 2)).tensors[0].bytes == 3);
  CHECK(code_of(small, select().slice("w", 0, 0, 1)) == errc::fractional_bytes);
}

TEST_CASE("selection: of types of less than a byte, each row of a range is whole bytes") {
  const auto part = [](const shape& size, selection wanted) {
    return chosen(catalog_with({{"w", size}}, dtype::f6_e2m3), std::move(wanted)).tensors[0].bytes;
  };
  const auto refusal = [](const shape& size, const selection& wanted, ringload::dtype type) {
    return code_of(catalog_with({{"w", size}}, type), wanted);
  };
  // The range has 6 bytes, but its rows of 2 elements have 12 bits.
  const selection half = select().shard("w", 1, 0, 2);
  CHECK(refusal({4, 4}, half, dtype::f6_e2m3) == errc::fractional_bytes);
  CHECK(sentence_of(catalog_with({{"w", {4, 4}}}, dtype::f6_e2m3), half).find("tensor 'w'") !=
        std::string::npos);
  CHECK(part({4, 8}, half) == 12);
  CHECK(refusal({4, 8}, select().slice("w", 1, 2, 4), dtype::f6_e2m3) == errc::fractional_bytes);
  CHECK(part({4, 4}, select().slice("w", 0, 1, 2)) == 6);
  CHECK(part({4, 4}, select().slice("w", 1, 1, 0)) == 0);
  CHECK(part({2, 2, 4}, select().slice("w", 0, 1, 1).slice("w", 1, 1, 1)) == 3);
  // The stored rows have 12 bits, so the second row does not begin on a byte.
  CHECK(refusal({8, 3}, select().slice("w", 1, 0, 2), dtype::f4) == errc::fractional_bytes);
}

TEST_CASE("selection: a composite stays one if all of its parts are chosen, whole") {
  catalog sparse = catalog_with({{"s/col_indices", {4}}, {"s/values", {4}}, {"x", {2}}});
  sparse.composites.push_back({"s", "sparse_csr", "", {3, 3}, {"col_indices", "values"}, 0});
  CHECK(chosen(sparse, select()).composites.size() == 1);
  CHECK(chosen(sparse, select().matching("s/*")).composites.size() == 1);
  CHECK(chosen(sparse, select().matching("x")).composites.empty());
  CHECK(chosen(sparse, select().except("s/values")).composites.empty());
  CHECK(chosen(sparse, select().slice("s/values", 0, 0, 2)).composites.empty());
}

TEST_CASE("selection: ranges that contain the whole tensor select the tensor as a whole") {
  catalog some = catalog_with({{"w", {4, 3}}, {"s/indices", {4}}, {"s/values", {4}}});
  some.composites.push_back({"s", "sparse_coo", "", {3, 3}, {"indices", "values"}, 0});
  some.tensors[0].digest = "crc32c:00000000";
  for (const selection& wanted :
       {select().slice("w", 0, 0, 4), select().slice("w", 0, 0, 4).slice("w", 1, 0, 3),
        select().matching("w").shard("*", 0, 0, 1), select().shard("*", 0, 0, 1)}) {
    const auto which = choose(some, name_index(some), wanted.requests());
    REQUIRE(which.has_value());
    for (const chosen_tensor& each : *which) CHECK(each.boxes.front().ranges.empty());
    CHECK(chosen(some, wanted).tensors[0].digest == some.tensors[0].digest);
  }
  CHECK(chosen(some, select().shard("*", 0, 0, 1)).composites.size() == 1);
  CHECK(chosen(some, select().slice("w", 0, 0, 3)).tensors[0].digest.empty());

  catalog blocks = catalog_with({{"q", {36}}}, dtype::u8);
  blocks.tensors[0].type = "q4_0";
  blocks.tensors[0].original_shape = {2, 32};
  const tensor_info whole = chosen(blocks, select().slice("q", 0, 0, 2)).tensors[0];
  CHECK(whole.original_shape == shape{2, 32});
  CHECK(whole.shape == shape{36});
  CHECK(whole.bytes == 36);
}

TEST_CASE("selection: a part of a tensor of blocks counts elements, and cuts no block") {
  catalog blocks = catalog_with({{"q", {36}}}, dtype::u8);
  blocks.tensors[0].type = "q4_0";
  blocks.tensors[0].original_shape = {2, 32};
  CHECK(chosen(blocks, select()).tensors[0].original_shape == shape{2, 32});
  blocks.tensors[0].original_shape = {3, 64};
  blocks.tensors[0].shape = {108};
  blocks.tensors[0].bytes = 108;
  const auto part = [&](std::uint32_t dim, std::uint64_t first, std::uint64_t count) {
    return chosen(blocks, select().slice("q", dim, first, count)).tensors[0];
  };
  CHECK(part(0, 1, 2).original_shape == shape{2, 64});
  CHECK(part(0, 1, 2).shape == shape{72});
  CHECK(part(0, 1, 2).bytes == 72);
  CHECK(part(1, 32, 32).original_shape == shape{3, 32});
  CHECK(part(1, 32, 32).bytes == 54);
  CHECK(part(1, 32, 0).bytes == 0);
  CHECK(code_of(blocks, select().slice("q", 1, 16, 32)) == errc::invalid_selection);
  CHECK(code_of(blocks, select().slice("q", 1, 32, 16)) == errc::invalid_selection);
  CHECK(code_of(blocks, select().slice("q", 2, 0, 1)) == errc::invalid_selection);
  CHECK(chosen(blocks, select().shard("q", 0, 1, 2)).tensors[0].original_shape == shape{1, 64});
  CHECK(chosen(blocks, select().fused("f", {"q", "q"}, 1)).tensors[0].original_shape ==
        shape{3, 128});
}

TEST_CASE("selection: a part of packed elements has no logical type, and a note has the type") {
  catalog packed = catalog_with({{"w", {6}}, {"v", {6}}}, dtype::u8);
  for (tensor_info& each : packed.tensors) {
    each.type = "int4";
    each.original_shape = {3, 4};
    each.attributes = {{"logical_type", "int4"}, {"original_shape", "[3,4]"}, {"other", 1}};
  }
  const auto selected = [&](const selection& wanted) { return chosen(packed, wanted); };
  const tensor_info whole = selected(select().slice("w", 0, 0, 6)).tensors[0];
  CHECK(whole.type == "int4");
  CHECK(whole.original_shape == shape{3, 4});
  CHECK(whole.attributes.size() == 3);
  for (const selection& wanted :
       {select().names({"w"}).slice("w", 0, 2, 3), select().fused("w", {"w", "v"}, 0)}) {
    const catalog part = selected(wanted);
    REQUIRE(part.tensors.size() == 1);
    CHECK(part.tensors[0].type.empty());
    CHECK(part.tensors[0].original_shape.empty());
    CHECK(part.tensors[0].attributes == attributes{{"other", 1}});
    CHECK(part.notes ==
          std::vector<std::string>{"tensor 'w': the part is stored elements of type U8, without "
                                   "the logical type int4 of the whole tensor"});
  }

  // Tensors of different types cannot have one type.
  catalog types = catalog_with({{"a", {2}}, {"b", {2}}}, dtype::u8);
  types.tensors[0].type = "first";
  types.tensors[1].type = "second";
  CHECK(chosen(types, select().slice("a", 0, 0, 1)).tensors[0].type == "first");
  CHECK(chosen(types, select().fused("f", {"a", "a"}, 0)).tensors[0].type == "first");
  CHECK(chosen(types, select().fused("f", {"a", "b"}, 0)).tensors[0].type.empty());
}

TEST_CASE("selection: a part of a tensor with the name of blocks may count bytes") {
  catalog blocks = catalog_with({{"q", {108}}}, dtype::u8);
  blocks.tensors[0].type = "q4_0";
  const auto part = [&](std::uint32_t dim, std::uint64_t first, std::uint64_t count) {
    return chosen(blocks, select().slice("q", dim, first, count)).tensors[0];
  };
  // A tensor of another kind counts bytes, even with this name.
  blocks.tensors[0].original_shape = {3, 63};
  CHECK(part(0, 5, 7).bytes == 7);
}
