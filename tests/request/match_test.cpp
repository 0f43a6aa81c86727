// SPDX-License-Identifier: Apache-2.0
#include "request/match.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "request/footprint.hpp"

using namespace ringload;

namespace {

using shape = std::vector<std::uint64_t>;
using names = std::vector<std::string>;

alignas(64) std::array<std::byte, 4096> memory;

catalog catalog_with(std::vector<std::pair<std::string, shape>> tensors, dtype type = dtype::f32) {
  catalog made;
  made.files.push_back({"m.safetensors", 1 << 20});
  for (auto& [name, size] : tensors) {
    tensor_info info;
    info.name = name;
    info.dtype = type;
    info.shape = size;
    made.tensors.push_back(info);
  }
  return made;
}

destination at(std::string name, std::size_t byte, shape size, dtype type = dtype::f32) {
  return {std::move(name), memory.data() + byte, type, std::move(size)};
}

destination strided(std::string name, std::size_t byte, shape size,
                    std::vector<std::int64_t> strides) {
  destination made = at(std::move(name), byte, std::move(size));
  made.strides = std::move(strides);
  return made;
}

bool floats_only(dtype from, dtype to) {
  return (from == dtype::f32 || from == dtype::f16) && (to == dtype::f32 || to == dtype::f16);
}

result<matching> matched(const catalog& from, const std::vector<destination>& into,
                         const fill_options& how = {}) {
  return match(from, into, how, floats_only);
}

std::string refusal(const catalog& from, const std::vector<destination>& into,
                    const fill_options& how = {}) {
  const auto found = matched(from, into, how);
  return found ? "" : to_error(found.error()).what();
}

boost::system::error_code code(const catalog& from, const std::vector<destination>& into,
                               const fill_options& how = {}) {
  const auto found = matched(from, into, how);
  return found ? boost::system::error_code() : found.error().code;
}

const catalog two = catalog_with({{"a", {2, 3}}, {"b", {4}}});

// Lists every byte of a strided block.
std::multiset<std::int64_t> bytes_of(std::int64_t address, std::int64_t width,
                                     const std::vector<std::uint64_t>& size,
                                     const std::vector<std::int64_t>& stride) {
  std::multiset<std::int64_t> out;
  std::vector<std::uint64_t> index(size.size());
  for (const std::uint64_t each : size) {
    if (each == 0) return out;
  }
  for (;;) {
    std::int64_t element = address;
    for (std::size_t d = 0; d < size.size(); ++d) {
      element += static_cast<std::int64_t>(index[d]) * stride[d];
    }
    for (std::int64_t b = 0; b < width; ++b) out.insert(element + b);
    std::size_t d = size.size();
    while (d > 0 && ++index[d - 1] == size[d - 1]) index[--d] = 0;
    if (d == 0) return out;
  }
}

}  // namespace

TEST_CASE("footprint: meets exactly what shares a byte, and refuses what overlaps itself") {
  std::mt19937 random(11);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  struct block {
    std::optional<footprint> print;
    std::multiset<std::int64_t> bytes;
  };
  const auto any_block = [&] {
    const std::size_t dims = below(4);
    const std::int64_t width = 1 + static_cast<std::int64_t>(below(4));
    std::vector<std::uint64_t> size;
    std::vector<std::int64_t> stride;
    for (std::size_t d = 0; d < dims; ++d) {
      size.push_back(below(5));
      stride.push_back(static_cast<std::int64_t>(below(40)) - 12);
    }
    const auto address = static_cast<std::int64_t>(1000 + below(100));
    return block{footprint::make(static_cast<std::uint64_t>(address),
                                 static_cast<std::uint64_t>(width), size, stride),
                 bytes_of(address, width, size, stride)};
  };
  int meeting = 0;
  int apart = 0;
  for (int i = 0; i < 200000; ++i) {
    const block a = any_block();
    const block b = any_block();
    const std::set<std::int64_t> a_once(a.bytes.begin(), a.bytes.end());
    // Only nested dimensions are accepted. Interleaved dimensions without a shared byte are refused
    // too. Therefore a refusal does not prove an overlap, but an overlap is never accepted.
    if (a.print) REQUIRE(a_once.size() == a.bytes.size());
    if (!a.print || !b.print) continue;
    bool meets = false;
    for (const std::int64_t byte : b.bytes) meets = meets || a_once.contains(byte);
    CAPTURE(i);
    REQUIRE(a.print->overlaps(*b.print) == meets);
    REQUIRE(b.print->overlaps(*a.print) == meets);
    ++(meets ? meeting : apart);
  }
  CHECK(meeting > 1000);
  CHECK(apart > 1000);
}

TEST_CASE("footprint: rows without a gap are one run, and what leaves 64 bits is refused") {
  const auto dense = footprint::make(64, 4, shape{3, 5}, std::vector<std::int64_t>{20, 4});
  REQUIRE(dense.has_value());
  CHECK(dense->begin() == 64);
  CHECK(dense->end() == 64 + 60);
  CHECK(dense->runs() == 1);
  CHECK(footprint::make(64, 4, shape{3, 5}, std::vector<std::int64_t>{24, 4})->runs() == 3);
  CHECK(footprint::make(64, 4, shape{3}, std::vector<std::int64_t>{-4})->begin() == 56);
  CHECK(!footprint::make(4, 4, shape{3}, std::vector<std::int64_t>{-4}).has_value());
  CHECK(!footprint::make(~0ULL - 8, 4, shape{3}, std::vector<std::int64_t>{4}).has_value());
  CHECK(!footprint::make(0, 4, shape{~0ULL}, std::vector<std::int64_t>{8}).has_value());
  CHECK(!footprint::make(64, 4, shape{2}, std::vector<std::int64_t>{0}).has_value());
  CHECK(footprint::make(64, 4, shape{0, ~0ULL}, std::vector<std::int64_t>{9, 9})->empty());
}

TEST_CASE("match: each destination takes the tensor of its name, in the catalog's order") {
  const auto found = matched(two, {at("b", 0, {4}), at("a", 16, {2, 3})});
  REQUIRE(found.has_value());
  REQUIRE(found->tensors.size() == 2);
  CHECK(found->tensors[0].tensor == 0);
  CHECK(found->tensors[0].destination == 1);
  CHECK(found->tensors[0].stride_bytes == std::vector<std::int64_t>{12, 4});
  CHECK(found->tensors[1].destination == 0);
  CHECK(found->missing.empty());
  CHECK(found->unexpected.empty());
}

TEST_CASE("match: a destination without a tensor is an error, or is reported") {
  const std::vector<destination> into = {at("a", 0, {2, 3}), at("c", 32, {1})};
  CHECK(refusal(two, into) == "destination 'c': the checkpoint has no tensor 'c'");
  CHECK(code(two, into) == errc::no_such_tensor);
  fill_options report;
  report.missing = fill_options::on_missing::report;
  CHECK(matched(two, into, report)->missing == names{"c"});
}

TEST_CASE("match: a tensor without a destination is passed over, reported, or an error") {
  const std::vector<destination> into = {at("b", 0, {4})};
  fill_options how;
  CHECK(matched(two, into, how)->unexpected.empty());
  how.unexpected = fill_options::on_unexpected::report;
  CHECK(matched(two, into, how)->unexpected == names{"a"});
  how.unexpected = fill_options::on_unexpected::error;
  CHECK(code(two, into, how) == errc::unexpected_tensor);
  CHECK(refusal(two, into, how) == "m.safetensors: tensor 'a': the tensor has no destination");
}

TEST_CASE("match: another element type is refused, or converted where that can be") {
  const std::vector<destination> half = {at("b", 0, {4}, dtype::f16)};
  fill_options how;
  CHECK(code(two, half, how) == errc::wrong_dtype);
  CHECK(refusal(two, half, how) ==
        "m.safetensors: tensor 'b': the checkpoint has F32, but destination 'b' has F16");
  how.dtype = fill_options::on_dtype::convert;
  CHECK(matched(two, half, how)->tensors.size() == 1);
  CHECK(code(two, {at("b", 0, {4}, dtype::c64)}, how) == errc::unsupported_dtype);
}

TEST_CASE("match: another shape is refused, or repeated by PyTorch's rule") {
  fill_options how;
  CHECK(code(two, {at("b", 0, {2, 2})}, how) == errc::wrong_shape);
  CHECK(refusal(two, {at("b", 0, {3, 4})}, how) ==
        "m.safetensors: tensor 'b': the checkpoint has shape [4], but destination 'b' has [3, 4]");
  how.shape = fill_options::on_shape::broadcast;
  const auto rows = matched(two, {at("b", 0, {3, 4})}, how);
  REQUIRE(rows.has_value());
  CHECK(rows->tensors[0].repeated == std::vector<bool>{true, false});
  CHECK(code(two, {at("b", 0, {4, 3})}, how) == errc::wrong_shape);
  CHECK(code(two, {at("b", 0, {1})}, how) == errc::wrong_shape);
  CHECK(code(two, {at("a", 0, {3})}, how) == errc::wrong_shape);  // Fewer dimensions.
  const catalog scalar = catalog_with({{"s", {}}});
  CHECK(matched(scalar, {at("s", 0, {2, 2})}, how)->tensors[0].repeated ==
        std::vector<bool>{true, true});
}

TEST_CASE("match: names may differ by a rule, and two destinations may take one tensor") {
  fill_options how;
  how.rename = [](std::string_view name) { return std::string(name.substr(name.find('.') + 1)); };
  const auto found = matched(two, {at("x.b", 0, {4}), at("y.b", 64, {4})}, how);
  REQUIRE(found.has_value());
  CHECK(found->tensors.size() == 2);
  CHECK(found->tensors[0].tensor == 1);
  CHECK(found->tensors[1].tensor == 1);
  CHECK(code(two, {at("b", 0, {4}), at("b", 64, {4})}) == errc::invalid_destination);
}

TEST_CASE("match: an unreadable tensor is its own error, found by the name after the renaming") {
  std::vector<std::string> asked;
  const auto find_unreadable = [&](std::string_view name) -> std::optional<fault> {
    asked.emplace_back(name);
    if (name != "u") return std::nullopt;
    return fault{errc::unsupported_feature, "tensor 'u'", "unknown type"};
  };
  fill_options how;
  const auto code_of = [&](const std::string& target) {
    const auto found =
        match(two, std::vector{at(target, 0, {4})}, how, floats_only, find_unreadable);
    return found ? boost::system::error_code() : found.error().code;
  };
  for (const auto missing : {fill_options::on_missing::error, fill_options::on_missing::report}) {
    how.missing = missing;
    how.rename = {};
    CHECK(code_of("u") == errc::unsupported_feature);
    how.rename = [](std::string_view) { return std::string("b"); };
    CHECK_FALSE(code_of("u"));
    how.rename = [](std::string_view) { return std::string("u"); };
    CHECK(code_of("b") == errc::unsupported_feature);
  }
  CHECK(asked == names{"u", "u", "u", "u"});
}

TEST_CASE("match: destinations may interleave, and may not overlap") {
  // Columns 0 to 2 and 3 of a matrix of 4 columns.
  const catalog columns = catalog_with({{"l", {5, 3}}, {"r", {5, 1}}});
  CHECK(matched(columns, {strided("l", 0, {5, 3}, {4, 1}), strided("r", 12, {5, 1}, {4, 1})})
            .has_value());
  CHECK(refusal(columns, {strided("l", 0, {5, 3}, {4, 1}), strided("r", 8, {5, 1}, {4, 1})}) ==
        "destination 'r': it overlaps destination 'l'");
  CHECK(code(two, {at("a", 0, {2, 3}), at("b", 20, {4})}) == errc::invalid_destination);
  CHECK(code(two, {at("a", 0, {2, 3}), at("b", 24, {4})}) == boost::system::error_code());
  CHECK(code(two, {strided("b", 0, {4}, {0})}) == errc::invalid_destination);
  CHECK(matched(two, {strided("b", 12, {4}, {-1})}).has_value());
}

TEST_CASE("match: memory that is not what it says is refused") {
  CHECK(code(two, {strided("b", 0, {4}, {1, 1})}) == errc::invalid_destination);
  destination nowhere = at("b", 0, {4});
  nowhere.data = nullptr;
  CHECK(code(two, {nowhere}) == errc::invalid_destination);
  destination small = at("b", 0, {4});
  small.bytes = 15;
  CHECK(refusal(two, {small}) ==
        "destination 'b': its shape and strides cover 16 bytes, but its memory has 15");
  small.bytes = 16;
  CHECK(matched(two, {small}).has_value());
  CHECK(refusal(two, {at("b", 0, {~0ULL, 8})}) ==
        "destination 'b': its size in bits must be a multiple of 8 and less than 2^64");
  CHECK(refusal(two, {strided("b", 0, {4}, {std::int64_t{1} << 61})}) ==
        "destination 'b': the stride of dimension 0 does not fit in 64 bits as a number of bytes");
  const catalog nibbles = catalog_with({{"n", {3}}}, dtype::f4);
  CHECK(code(nibbles, {at("n", 0, {3}, dtype::f4)}) == errc::invalid_destination);
  const catalog empty = catalog_with({{"e", {0, 3}}});
  nowhere.name = "e";
  nowhere.shape = {0, 3};
  CHECK(matched(empty, {nowhere}).has_value());
}

namespace {

struct described_tensor {
  dlpack::managed_tensor_versioned managed = {};
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> strides;
  int released = 0;

  described_tensor(std::vector<std::int64_t> s, std::vector<std::int64_t> st,
                   dlpack::data_type type)
      : size(std::move(s)), strides(std::move(st)) {
    managed.version = {1, 1};
    managed.manager_ctx = this;
    managed.deleter = [](dlpack::managed_tensor_versioned* self) {
      ++static_cast<described_tensor*>(self->manager_ctx)->released;
    };
    managed.dl_tensor = {memory.data(),
                         {dlpack::device_type::cpu, 0},
                         static_cast<std::int32_t>(size.size()),
                         type,
                         size.data(),
                         strides.empty() ? nullptr : strides.data(),
                         64};
  }
};

}  // namespace

TEST_CASE("destination_of: a DLPack tensor keeps its owner until the last copy is gone") {
  described_tensor given({2, 3}, {6, 2}, dlpack::type_of(dtype::f16));
  {
    const destination first = destination_of("w", &given.managed);
    const destination copy = first;
    CHECK(copy.data == memory.data() + 64);
    CHECK(copy.dtype == dtype::f16);
    CHECK(copy.shape == shape{2, 3});
    CHECK(copy.strides == std::vector<std::int64_t>{6, 2});
    CHECK(copy.device == host());
    CHECK(given.released == 0);
  }
  CHECK(given.released == 1);
}

TEST_CASE("destination_of: strides that are row-major are left away; pairs of nibbles are two") {
  described_tensor dense({2, 1, 3}, {3, 99, 1}, dlpack::type_of(dtype::f32));
  CHECK(destination_of("w", &dense.managed).strides.empty());
  dlpack::data_type pairs = dlpack::type_of(dtype::f4);
  pairs.lanes = 2;
  described_tensor nibbles({4, 8}, {8, 1}, pairs);
  const destination made = destination_of("w", &nibbles.managed);
  CHECK(made.dtype == dtype::f4);
  CHECK(made.shape == shape{4, 16});
  CHECK(made.strides.empty());
}

TEST_CASE("destination_of: what cannot be written to is refused, and let go of") {
  const auto refused = [](described_tensor& given) {
    try {
      destination_of("w", &given.managed);
    } catch (const error& e) {
      CHECK(given.released == 1);
      return e.code();
    }
    return boost::system::error_code();
  };
  described_tensor elsewhere({2}, {}, dlpack::type_of(dtype::f32));
  elsewhere.managed.dl_tensor.device = {dlpack::device_type::cuda, 0};
  CHECK(refused(elsewhere) == errc::device_unavailable);
  described_tensor unknown({2}, {}, {dlpack::type_code::complex, 32, 1});
  CHECK(refused(unknown) == errc::unsupported_dtype);
  described_tensor constant({2}, {}, dlpack::type_of(dtype::f32));
  constant.managed.flags = 1;
  CHECK(refused(constant) == errc::invalid_destination);
  described_tensor newer({2}, {}, dlpack::type_of(dtype::f32));
  newer.managed.version = {2, 0};
  CHECK(refused(newer) == errc::invalid_destination);
  described_tensor negative({-2}, {}, dlpack::type_of(dtype::f32));
  CHECK(refused(negative) == errc::invalid_destination);
}
