// SPDX-License-Identifier: Apache-2.0
#include "formats/pytorch/pytorch.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "formats/pytorch/torch_state.hpp"
#include "pytorch_text.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace std::string_literals;
using pickled::saved_tensor;

namespace {

using dims = std::vector<std::uint64_t>;

boost::system::error_code code_of(const std::string& file) {
  const auto found = parsed_archive(file);
  if (found) return {};
  const std::string text = message_of(found.error());
  CHECK(text.find('\n') == std::string::npos);
  return found.error().code;
}

boost::system::error_code code_with(const saved_tensor& t) { return code_of(with_tensor(t)); }

std::string message(const std::string& file) {
  const auto found = parsed_archive(file);
  return found ? std::string() : message_of(found.error());
}

result<file_entries> parsed_legacy(const std::string& file,
                                   strictness strictness = strictness::strict) {
  memory_input from(bytes_of(file));
  return parse_pytorch_legacy(from, {strictness, "lone"});
}

boost::system::error_code legacy_code(const std::string& file) {
  const auto found = parsed_legacy(file);
  return found ? boost::system::error_code{} : found.error().code;
}

constexpr boost::system::error_code good;

}  // namespace

TEST_CASE("pytorch: a contiguous tensor is a run of its storage") {
  const std::string file = with_tensor({.offset = 2, .size = {2, 2}, .stride = {2, 1}});
  const auto found = parsed_archive(file);
  REQUIRE(found.has_value());
  REQUIRE(found->tensors.size() == 1);
  const entry& w = found->tensors[0];
  CHECK(w.name == "w");
  CHECK(w.dtype == dtype::f32);
  CHECK(w.shape == dims{2, 2});
  CHECK(w.bytes == 16);
  CHECK(w.offset == file.find(std::string(24, '\1')) + 8);
  CHECK(w.stored == nullptr);
}

TEST_CASE("pytorch: strides of dimensions of one element mean nothing") {
  const auto found = parsed_archive(with_tensor({.size = {1, 6, 1}, .stride = {999, 1, 77}}));
  REQUIRE(found.has_value());
  CHECK(found->tensors[0].stored == nullptr);
}

TEST_CASE("pytorch: a transposed tensor keeps its strides, and only its own bytes are read") {
  const auto found = parsed_archive(with_tensor({.offset = 1, .size = {2, 2}, .stride = {1, 2}}));
  REQUIRE(found.has_value());
  const entry& w = found->tensors[0];
  REQUIRE(w.stored != nullptr);
  const piece& whole = w.stored->pieces.at(0);
  CHECK(whole.stride_bytes == dims{4, 8});
  CHECK(whole.stored.bytes == 16);
  CHECK(whole.stored.offset == w.offset);
  CHECK(whole.first_byte == 0);
  CHECK(w.stored->swap_bytes == 0);
}

TEST_CASE("pytorch: a tensor outside of its storage is refused") {
  CHECK(code_with(saved_tensor{}) == good);
  CHECK(code_with({.offset = 1}) == errc::extent_outside_file);
  CHECK(code_with({.size = {3, 3}}) == errc::extent_outside_file);
  CHECK(code_with({.stride = {4, 1}}) == errc::extent_outside_file);
  CHECK(code_with({.size = {2, 3}, .stride = {1LL << 58, 1LL << 58}}) == errc::extent_outside_file);
  CHECK(code_with({.size = {1LL << 58, 1LL << 58}, .stride = {1, 1}}) == errc::size_overflow);
  CHECK(code_with({.size = {3, 3}, .stride = {1LL << 58, 1LL << 58}}) != good);
  CHECK(code_with({.offset = 7, .size = {1}, .stride = {1}}) == errc::extent_outside_file);
  CHECK(code_with({.offset = (1LL << 59) - 1}) == errc::extent_outside_file);
  CHECK(code_with({.offset = -1}) == errc::malformed_header);
  CHECK(code_with({.size = {-2, 3}}) == errc::malformed_header);
  CHECK(code_with({.stride = {-3, 1}}) == errc::malformed_header);
  CHECK(code_with({.stride = {1}}) == errc::malformed_header);
  CHECK(code_with({.size = std::vector<std::int64_t>(65, 1),
                   .stride = std::vector<std::int64_t>(65, 1)}) == errc::malformed_header);
}

TEST_CASE("pytorch: a tensor without elements may begin beyond its storage") {
  for (const std::int64_t offset :
       {std::int64_t{0}, std::int64_t{6}, std::int64_t{7}, (std::int64_t{1} << 59) - 1}) {
    CAPTURE(offset);
    const std::string file = with_tensor({.offset = offset, .size = {2, 0}, .stride = {1, 1}});
    const auto found = parsed_archive(file);
    REQUIRE(found.has_value());
    CHECK(found->tensors.at(0).bytes == 0);
    CHECK(found->tensors.at(0).shape == dims{2, 0});
    CHECK(found->tensors.at(0).offset == file.find(std::string(24, '\1')));
  }
}

TEST_CASE("pytorch: a storage has the size that the tensor says, and is there") {
  CHECK(code_with({.elements = 7}) == errc::wrong_tensor_bytes);
  CHECK(code_with({.elements = 5}) == errc::wrong_tensor_bytes);
  CHECK(code_with({.elements = 3, .storage = "DoubleStorage"}) == errc::extent_outside_file);
  CHECK(code_with({.elements = (1LL << 59) - 1, .storage = "ComplexDoubleStorage"}) ==
        errc::wrong_tensor_bytes);
  CHECK(code_with({.key = "1"}) == errc::missing_tensor);
  CHECK(code_with({.key = "../0"}) == errc::missing_tensor);
  CHECK(code_with({.elements = -6}) == errc::malformed_header);
}

TEST_CASE("pytorch: elements that are repeated have a bound") {
  const auto found = parsed_archive(with_tensor({.size = {1000, 6}, .stride = {0, 1}}));
  REQUIRE(found.has_value());
  CHECK(found->tensors[0].stored->pieces.at(0).stride_bytes == dims{0, 4});
  CHECK(found->tensors[0].bytes == 24'000);
  // A tensor of 8 GB in a storage of 24 bytes.
  CHECK(code_with({.size = {2'000'000'000, 1}, .stride = {0, 1}}) == errc::wrong_tensor_bytes);
  CHECK(code_with({.size = {(1LL << 57), 1}, .stride = {0, 1}}) == errc::wrong_tensor_bytes);
  CHECK(code_with({.size = {20'000'000}, .stride = {0}}) == errc::wrong_tensor_bytes);
  CHECK(code_with({.size = {16'000'000}, .stride = {0}}) == good);
  // Two tensors that are allowed alone exceed the limit together.
  const saved_tensor most{.size = {16'000'000}, .stride = {0}};
  CHECK(code_of(holding(pickled::dict({pickled::text("a"), most(), pickled::text("b"), most()}))) ==
        errc::wrong_tensor_bytes);
}

TEST_CASE("pytorch: the record of the byte order is obeyed") {
  const std::string object = pickled::pickle(pickled::dict(
      {pickled::text("f"), saved_tensor{}(), pickled::text("c"),
       saved_tensor{.elements = 3, .size = {3}, .stride = {1}, .storage = "ComplexFloatStorage"}(),
       pickled::text("i"),
       saved_tensor{.elements = 24, .size = {24}, .stride = {1}, .storage = "CharStorage"}()}));
  const auto swaps = [&](std::string_view order) {
    const auto found =
        parsed_archive(pickled::archive(object, {{"0", std::string(24, '\1')}}, order));
    REQUIRE(found.has_value());
    std::vector<int> out;
    for (const entry& each : found->tensors) {
      out.push_back(each.stored == nullptr ? 0 : each.stored->swap_bytes);
    }
    return out;
  };
  CHECK(swaps("") == std::vector<int>{0, 0, 0});
  CHECK(swaps("little") == std::vector<int>{0, 0, 0});
  CHECK(swaps("big") == std::vector<int>{4, 4, 0});
  CHECK(code_of(pickled::archive(object, {{"0", std::string(24, '\1')}}, "middle")) ==
        errc::malformed_header);
}

TEST_CASE("pytorch: names are keys and positions joined by dots") {
  const std::string t = saved_tensor{}();
  const auto found = parsed_archive(holding(pickled::dict(
      {pickled::text("state"), pickled::dict({"K\x07", pickled::list({t, pickled::tuple({t})})}),
       pickled::text("a.b"), t, pickled::text("epoch"), "K\x03", pickled::text("none"), "N"})));
  REQUIRE(found.has_value());
  std::vector<std::string> names;
  for (const entry& each : found->tensors) names.push_back(each.name);
  CHECK(names == std::vector<std::string>{"a.b", "state.7.0", "state.7.1.0"});
  REQUIRE(found->notes.size() == 1);
  CHECK(found->notes[0] ==
        "2 values that are not tensors are left out, the first is 'epoch', a number");
  CHECK(parsed_archive(holding(t))->tensors.at(0).name == "lone");
  CHECK(code_of(holding(pickled::dict({pickled::text("a"), pickled::dict({pickled::text("b"), t}),
                                       pickled::text("a.b"), t}))) == errc::duplicate_tensor);
  CHECK(code_of(holding(pickled::dict({pickled::text("a"), t, pickled::text("a"), t}))) ==
        errc::duplicate_tensor);
  CHECK(code_of(holding(pickled::dict({pickled::text("\xFF"), t}))) == errc::malformed_header);
}

TEST_CASE("pytorch: keys are called as Python prints them, or must hold no tensor") {
  const std::string t = saved_tensor{}();
  const std::string fraction = "G\x3F\xE0\0\0\0\0\0\0"s;
  const auto found = parsed_archive(holding(pickled::dict(
      {pickled::text("a"), pickled::dict({"\x88", t, "\x89", t, "N", t, fraction, "K\1",
                                          pickled::tuple({"K\1"}), pickled::list({"K\2"})})})));
  REQUIRE(found.has_value());
  std::vector<std::string> names;
  for (const entry& each : found->tensors) names.push_back(each.name);
  CHECK(names == std::vector<std::string>{"a.False", "a.None", "a.True"});
  REQUIRE(found->notes.size() == 1);
  CHECK(found->notes[0].find("2 values") != std::string::npos);

  const std::string held = holding(pickled::dict(
      {pickled::text("w"), t, pickled::text("a"), pickled::dict({fraction, pickled::list({t})})}));
  CHECK(unreadable_cause(held) == "it has tensors at a key that is neither text nor an integer");
  const auto lenient = parsed_archive(held, strictness::reference);
  REQUIRE(lenient.has_value());
  REQUIRE(lenient->tensors.size() == 1);
  CHECK(lenient->tensors[0].name == "w");
  CHECK(lenient->notes.size() == 1);
}

TEST_CASE("pytorch: dtypes and schemes of quantisation are values, whatever is read of them") {
  const std::string t = saved_tensor{}();
  for (const std::string_view word :
       {"per_tensor_affine", "per_tensor_symmetric", "per_channel_affine_float_qparams", "qint8",
        "quint4x2", "bits8", "int4", "uint7", "float8_e5m2", "complex32", "bcomplex32",
        "FloatTensor", "BFloat16Tensor"}) {
    CAPTURE(word);
    CHECK(code_of(holding(pickled::dict({pickled::text("w"), t, pickled::text("x"),
                                         pickled::global("torch", word)}))) == good);
  }
  CHECK(unreadable_cause(with_tensor({.elements = 24,
                                      .storage = "UntypedStorage",
                                      .metadata = pickled::global("torch", "uint4"),
                                      .function = "_rebuild_tensor_v3"}))
            .starts_with("its dtype is torch.uint4"));
  CHECK(unreadable_cause(with_tensor({.elements = 24,
                                      .storage = "UntypedStorage",
                                      .metadata = pickled::global("torch", "bcomplex32"),
                                      .function = "_rebuild_tensor_v3"}))
            .starts_with("its dtype is torch.bcomplex32"));
  CHECK(code_of(holding(pickled::global("torch", "int8_t"))) == errc::unsupported_feature);
}

TEST_CASE("pytorch: what a checkpoint does not need refuses the file, or is left out") {
  const std::string t = saved_tensor{}();
  for (const std::string& bad :
       {pickled::call(pickled::global("os", "system"), {pickled::text("true")}),
        pickled::global("builtins", "eval"), pickled::global("torch._utils", "_rebuild_anything"),
        pickled::call(pickled::global("argparse", "Namespace"), {}) + pickled::dict({}) + "b",
        pickled::global("numpy", "dtype"), pickled::global("torch", "load"),
        pickled::global("torch.hub", "FloatStorage")}) {
    const std::string file =
        holding(pickled::dict({pickled::text("w"), t, pickled::text("x"), bad}));
    CHECK(code_of(file) == errc::unsupported_feature);
    CHECK(message(file).find("ringload calls nothing in a pickle") != std::string::npos);
    const auto lenient = parsed_archive(file, strictness::reference);
    REQUIRE(lenient.has_value());
    CHECK(lenient->tensors.size() == 1);
    REQUIRE(lenient->notes.size() == 1);
    CHECK(lenient->notes[0].find("'x'") != std::string::npos);
  }
  // Also in a value that is not read.
  CHECK(code_of(holding(pickled::dict({pickled::text("w"), t}) +
                        pickled::call(pickled::global("os", "system"), {}) + "b")) ==
        errc::unsupported_feature);
}

TEST_CASE("pytorch: a tensor that is given another state is refused, an OrderedDict is not") {
  const std::string t = saved_tensor{}();
  const std::string state = pickled::tuple({"K\1", "K\2"}) + "b";
  const auto with = [](const std::string& value) {
    return holding(pickled::dict({pickled::text("w"), value}));
  };
  CHECK(code_of(with(t + state)) == errc::unsupported_feature);
  CHECK(message(with(t + state)).ends_with("the pickle changes a tensor after building it"));
  CHECK(code_of(with(
            pickled::call(pickled::global("torch._utils", "_rebuild_parameter"), {t, "\x89", "N"}) +
            state)) == errc::unsupported_feature);
  const std::string ordered = pickled::call(pickled::global("collections", "OrderedDict"), {});
  CHECK(code_of(with(ordered + pickled::dict({pickled::text("_metadata"), "N"}) + "b")) == good);
}

TEST_CASE("pytorch: bytes of an untyped storage are what the dtype says") {
  saved_tensor t{.elements = 24,
                 .size = {12},
                 .stride = {1},
                 .storage = "UntypedStorage",
                 .metadata = pickled::global("torch", "uint16"),
                 .function = "_rebuild_tensor_v3"};
  const auto found = parsed_archive(with_tensor(t));
  REQUIRE(found.has_value());
  CHECK(found->tensors[0].dtype == dtype::u16);
  CHECK(found->tensors[0].bytes == 24);
  t.offset = 1;
  CHECK(code_with(t) == errc::extent_outside_file);
  t.metadata = pickled::global("torch", "float4_e2m1fn_x2");
  t.offset = 0;
  const auto pairs = parsed_archive(with_tensor(t));
  REQUIRE(pairs.has_value());
  CHECK(pairs->tensors[0].dtype == dtype::f4);
  CHECK(pairs->tensors[0].shape == dims{24});
  CHECK(pairs->tensors[0].bytes == 12);
  t.size = {3, 0};
  t.stride = {1, 1};
  const auto empty = parsed_archive(with_tensor(t));
  REQUIRE(empty.has_value());
  REQUIRE(empty->tensors.size() == 1);
  CHECK(empty->tensors[0].dtype == dtype::f4);
  CHECK(empty->tensors[0].shape == dims{3, 0});
  CHECK(empty->tensors[0].bytes == 0);
  t.metadata = "N";
  CHECK(code_with(t) == errc::malformed_header);
}

TEST_CASE("pytorch: classes of tensors and of storages are values") {
  const std::string t = saved_tensor{}();
  for (const std::string_view module :
       {"torch", "torch.cuda", "torch.sparse", "torch.cuda.sparse"}) {
    CAPTURE(module);
    const auto found = parsed_archive(holding(pickled::dict(
        {pickled::text("w"), t, pickled::text("x"), pickled::global(module, "HalfTensor")})));
    REQUIRE(found.has_value());
    CHECK(found->tensors.size() == 1);
    CHECK(found->unreadable.empty());
  }
  CHECK(code_of(holding(pickled::dict({pickled::text("w"), t, pickled::text("x"),
                                       pickled::global("torch.storage", "TypedStorage")}))) ==
        good);
  CHECK(code_of(holding(pickled::global("torch.hub", "HalfTensor"))) == errc::unsupported_feature);
}

TEST_CASE("pytorch: sets and counters of protocol 2 are read like lists and dictionaries") {
  const std::string t = saved_tensor{}();
  for (const std::string_view module : {"__builtin__", "builtins"}) {
    CAPTURE(module);
    const std::string set = pickled::global(module, "set");
    const auto found = parsed_archive(holding(pickled::dict(
        {pickled::text("s"), pickled::call(set, {pickled::list({"K\1", t})}), pickled::text("c"),
         pickled::call(pickled::global("collections", "Counter"),
                       {pickled::dict({pickled::text("k"), t})}),
         pickled::text("e"), pickled::call(set, {})})));
    REQUIRE(found.has_value());
    REQUIRE(found->tensors.size() == 2);
    CHECK(found->tensors[0].name == "c.k");
    CHECK(found->tensors[1].name == "s.1");
    REQUIRE(found->notes.size() == 1);
    CHECK(found->notes[0].starts_with("2 values"));
  }
}

TEST_CASE("pytorch: a tensor with more than 64 entries of metadata is refused") {
  const auto code = [](int entries) {
    std::string metadata = "}(";
    for (int i = 0; i < entries; ++i) metadata += pickled::text(std::to_string(i)) + "\x89";
    return code_with({.metadata = metadata + "u"});
  };
  CHECK(code(64) == good);
  CHECK(code(65) == errc::header_too_large);
}

TEST_CASE("pytorch: the strides of very many tensors count as descriptions") {
  saved_tensor t{.size = std::vector<std::int64_t>(64, 1),
                 .stride = std::vector<std::int64_t>(64, 1)};
  t.size[0] = t.stride[0] = 2;
  std::string many = "](" + t() + "q\0"s;
  for (int i = 1; i < 20'000; ++i) many += "h\0"s;
  const std::string file = holding(many + "e");
  CHECK(code_of(file) == errc::header_too_large);
  CHECK(message(file).find("than strict reading allows") != std::string::npos);
  const auto found = parsed_archive(file, strictness::reference);
  REQUIRE(found.has_value());
  CHECK(found->tensors.size() == 20'000);
}

TEST_CASE("pytorch: objects that hold themselves, or are met again and again, are refused") {
  // A list that contains itself.
  CHECK(code_of(holding("]q\0h\0a"s)) == errc::malformed_header);
  // Thirty lists, each with two references to the previous list: 2^30 paths.
  std::string bomb = "]q\0"s;
  for (char i = 1; i < 31; ++i) {
    bomb += "](h"s + static_cast<char>(i - 1) + "h" + static_cast<char>(i - 1) + "eq" + i;
  }
  std::string stack_of = bomb.substr(0, 3);
  // Only the last value stays on the stack. The others are in one list without other references.
  CHECK(code_of(holding("(" + bomb + "t")) == errc::header_too_large);
  // Deeply nested, but finite.
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "](";
  deep += "N";
  for (int i = 0; i < 1000; ++i) deep += "e";
  CHECK(code_of(holding(deep)) == errc::malformed_header);
  std::string parameters;
  for (int i = 0; i < 1000; ++i)
    parameters += pickled::global("torch._utils", "_rebuild_parameter") + "(";
  parameters += "N";
  for (int i = 0; i < 1000; ++i) parameters += "tR";
  CHECK(code_of(holding(parameters)) == errc::malformed_header);
}

TEST_CASE("pytorch: one tensor under very many, or very long, names is refused") {
  std::string many = "](" + saved_tensor{}() + "q\0"s;
  for (std::size_t i = 0; i < torch_tensors_max; ++i) many += "h\0"s;
  CHECK(code_of(holding(many + "e")) == errc::header_too_large);
  std::string long_names =
      "}(" + pickled::text(std::string(1'000'000, 'k')) + "](" + saved_tensor{}() + "q\0"s;
  for (int i = 0; i < 1000; ++i) long_names += "h\0"s;
  CHECK(code_of(holding(long_names + "eu")) == errc::header_too_large);
}

TEST_CASE("pytorch: sparse tensors are composites, their parts tensors") {
  const std::string t = saved_tensor{}();
  const std::string size =
      pickled::call(pickled::global("torch", "Size"), {pickled::numbers({4, 5})});
  const auto found = parsed_archive(holding(pickled::dict(
      {pickled::text("s"), sparse_tensor("torch.sparse_csr", {t, t, t, size}), pickled::text("o"),
       sparse_tensor("torch.sparse_coo", {t, t, size, "\x88"})})));
  REQUIRE(found.has_value());
  CHECK(found->tensors.size() == 5);
  REQUIRE(found->composites.size() == 2);
  CHECK(found->composites[0].name == "s");
  CHECK(found->composites[0].layout == "sparse_csr");
  CHECK(found->composites[0].shape == dims{4, 5});
  CHECK(found->composites[0].parts ==
        std::vector<std::string>{"crow_indices", "col_indices", "values"});
  CHECK(found->composites[1].layout == "sparse_coo");
  std::string of_1_13 = sparse_tensor("torch.sparse_csr", {t, t, t, size});
  of_1_13.replace(of_1_13.find("sparse_tensor"), 13, "sparse_csr_tensor");
  CHECK(parsed_archive(holding(pickled::dict({pickled::text("s"), of_1_13})))->composites.size() ==
        1);
  const auto code = [&](const std::string& value) {
    return code_of(holding(pickled::dict({pickled::text("s"), value})));
  };
  CHECK(code(sparse_tensor("torch.sparse_csr", {t, t, t})) == errc::malformed_header);
  CHECK(code(sparse_tensor("torch.sparse_csr", {t, "N", t, size})) == errc::malformed_header);
  CHECK(code_of(holding(pickled::dict(
            {pickled::text("x"),
             pickled::dict({pickled::text("y"), sparse_tensor("torch.sparse_coo", {t, t, size})}),
             pickled::text("x.y"), t}))) == errc::duplicate_tensor);
}

TEST_CASE("pytorch: archives of programs, and ones without an object, are refused by name") {
  const auto refused = [](const std::vector<zip_part>& parts) {
    const std::string file = zip_text(parts);
    memory_input from(bytes_of(file));
    auto members = read_zip_directory(from);
    REQUIRE(members.has_value());
    REQUIRE(is_pytorch_archive(*members));
    return message_of(parse_pytorch_zip(from, *members, {}).error());
  };
  CHECK(refused({{"m/data.pkl", "x"}, {"m/constants.pkl", "x"}}).find("TorchScript") !=
        std::string::npos);
  CHECK(refused({{"m/data.pkl", "x"}, {"m/code/a.py", "x"}}).find("TorchScript") !=
        std::string::npos);
  zip_part damaged{"m/data.pkl", pickled::pickle("N")};
  damaged.crc ^= 1;
  CHECK(refused({damaged}).find("checksum") != std::string::npos);
  CHECK(refused({{"m/data.pkl", pickled::pickle("N").substr(0, 3)}}).find("last byte") !=
        std::string::npos);
}

TEST_CASE("pytorch: the form before 1.6 has its storages behind its pickles") {
  const std::string object = pickled::dict({pickled::text("w"), saved_tensor{}()});
  const std::string data(24, '\2');
  const std::string file = pickled::legacy(object, {{"0", 6, data}});
  const auto found = parsed_legacy(file);
  REQUIRE(found.has_value());
  CHECK(found->tensors.at(0).offset == file.size() - 24);
  CHECK(found->tensors.at(0).stored == nullptr);
  CHECK(found->notes.empty());
  CHECK(parsed_legacy(file + "more")->notes.size() == 1);

  for (std::size_t bytes = 0; bytes < file.size(); ++bytes) {
    CAPTURE(bytes);
    CHECK(legacy_code(file.substr(0, bytes)) != good);
  }
  CHECK(legacy_code(pickled::legacy(object, {{"0", 7, data + "1234"}})) ==
        errc::wrong_tensor_bytes);
  CHECK(legacy_code(pickled::legacy(object, {{"0", 7, data}})) == errc::extent_outside_file);
  CHECK(legacy_code(pickled::legacy(object, {{"0", ~std::uint64_t{0}, data}})) ==
        errc::extent_outside_file);
  CHECK(legacy_code(pickled::legacy(object, {{"0", 1ULL << 62, data}})) ==
        errc::extent_outside_file);
  CHECK(legacy_code(pickled::legacy(object, {})) == errc::missing_tensor);
  CHECK(legacy_code(pickled::legacy(object, {{"1", 6, data}})) == errc::malformed_header);
  CHECK(legacy_code(pickled::legacy(object, {{"0", 6, data}, {"0", 6, data}})) ==
        errc::malformed_header);
  const std::string both =
      pickled::dict({pickled::text("w"), saved_tensor{}(), pickled::text("x"),
                     saved_tensor{.elements = 3, .storage = "DoubleStorage"}()});
  CHECK(legacy_code(pickled::legacy(both, {{"0", 6, data}})) == errc::malformed_header);
}

TEST_CASE("pytorch: a pickle that is no checkpoint") {
  CHECK(legacy_code(pickled::pickle("N")) == errc::not_a_checkpoint);
  CHECK(legacy_code(pickled::pickle(pickled::call(pickled::global("os", "system"), {}))) ==
        errc::not_a_checkpoint);
  CHECK(legacy_code("") != good);
}
