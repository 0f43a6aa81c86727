// SPDX-License-Identifier: Apache-2.0

// Objects of PyTorch's files that cannot be read. The other tensors of their file are read.

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "formats/pytorch/torch_state.hpp"
#include "pytorch_text.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace std::string_literals;
using pickled::saved_tensor;

TEST_CASE("pytorch: tensors under a key of bytes have no name") {
  const std::string object =
      pickled::dict({pickled::text("d"), pickled::dict({"C\1k"s, saved_tensor{}()}),
                     pickled::text("w"), saved_tensor{}()});
  for (const strictness how : {strictness::strict, strictness::reference}) {
    const auto found = parsed_archive(holding(object), how);
    REQUIRE(found.has_value());
    REQUIRE(found->tensors.size() == 1);
    CHECK(found->tensors[0].name == "w");
    CHECK(found->notes.size() == 1);
    REQUIRE(found->unreadable.size() == 1);
    CHECK(found->unreadable[0].name == "d");
    CHECK(found->unreadable[0].cause.code == errc::unsupported_feature);
    CHECK(found->unreadable[0].is_left_out == (how == strictness::reference));
  }
}

TEST_CASE("pytorch: a dictionary with several keys that are no names is one unreadable object") {
  const std::string t = saved_tensor{}();
  const auto found = parsed_archive(holding(
      pickled::dict({pickled::text("w"), t, pickled::text("m"),
                     pickled::dict({pickled::tuple({"K\1", "K\2"}), t, pickled::text("x"), t,
                                    pickled::tuple({"K\1", "K\3"}), pickled::list({t, t})})})));
  REQUIRE_MESSAGE(found.has_value(), message_of(found.error()));
  REQUIRE(found->tensors.size() == 2);
  CHECK(found->tensors[0].name == "m.x");
  CHECK(found->tensors[1].name == "w");
  REQUIRE(found->unreadable.size() == 1);
  CHECK(found->unreadable[0].name == "m");
  CHECK(found->unreadable[0].cause.code == errc::unsupported_feature);
}

TEST_CASE("pytorch: a tensor that is not read is refused by name, and the others are read") {
  const auto refused = [](const std::string& value, std::string_view word) {
    const std::string file =
        holding(pickled::dict({pickled::text("q"), value, pickled::text("w"), saved_tensor{}()}));
    for (const strictness how : {strictness::strict, strictness::reference}) {
      const auto found = parsed_archive(file, how);
      REQUIRE(found.has_value());
      REQUIRE(found->tensors.size() == 1);
      CHECK(found->tensors[0].name == "w");
      REQUIRE(found->unreadable.size() == 1);
      CHECK(found->unreadable[0].name == "q");
      CHECK(found->unreadable[0].is_left_out == (how == strictness::reference));
      REQUIRE(found->notes.size() == 1);
      CHECK(found->notes[0].find(": 1, the first is 'q', ") != std::string::npos);
    }
    const fault cause = parsed_archive(file)->unreadable[0].cause;
    CHECK(cause.code == errc::unsupported_feature);
    CHECK(cause.where() == "tensor 'q'");
    return cause.cause().find(word) != std::string::npos;
  };
  const auto utils = [](std::string_view name) {
    return pickled::call(pickled::global("torch._utils", name), {});
  };
  CHECK(refused(pickled::global("torch", "Tensor") + ")\x81", "filled after its construction"));
  CHECK(refused(utils("_rebuild_qtensor"), "quantised"));
  CHECK(refused(pickled::call(pickled::global("torch", "FloatTensor"), {}), "torch.FloatTensor"));
  CHECK(refused(utils("_rebuild_nested_tensor"), "nested"));
  CHECK(refused(utils("_rebuild_wrapper_subclass"), "subclass"));
  CHECK(refused(utils("_rebuild_meta_tensor_no_storage"), "meta"));
  CHECK(refused(saved_tensor{.elements = 24, .storage = "QInt8Storage"}(), "quantised"));
  for (const char* key : {"conj", "neg"}) {
    CHECK(refused(saved_tensor{.elements = 3,
                               .size = {3},
                               .stride = {1},
                               .storage = "ComplexFloatStorage",
                               .metadata = pickled::dict({pickled::text(key), "\x88"})}(),
                  "conjugate"));
  }
  CHECK(refused(saved_tensor{.elements = 24,
                             .storage = "UntypedStorage",
                             .metadata = pickled::global("torch", "complex32"),
                             .function = "_rebuild_tensor_v3"}(),
                "complex32"));
}

TEST_CASE("pytorch: a sparse tensor with a part that is not read is unreadable") {
  const std::string t = saved_tensor{}();
  const std::string size =
      pickled::call(pickled::global("torch", "Size"), {pickled::numbers({4, 5})});
  const auto unreadable = [&](const std::string& value) {
    const auto read = parsed_archive(
        holding(pickled::dict({pickled::text("s"), value, pickled::text("w"), saved_tensor{}()})));
    REQUIRE(read.has_value());
    CHECK(read->tensors.size() == 1);
    CHECK(read->composites.empty());
    REQUIRE(read->unreadable.size() == 1);
    CHECK(read->unreadable[0].name == "s");
    return read->unreadable[0].cause.cause();
  };
  CHECK(unreadable(sparse_tensor("torch.jagged", {t, t, size})).find("jagged") !=
        std::string::npos);
  const std::string negated =
      saved_tensor{.metadata = pickled::dict({pickled::text("neg"), "\x88"})}();
  CHECK(unreadable(sparse_tensor("torch.sparse_coo", {t, negated, size}))
            .find("its part 'values': ") == 0);
}

TEST_CASE("pytorch: a tensor of a device without storages is its copy on the CPU") {
  const auto saved = [](const std::string& copy, std::string_view type) {
    return holding(pickled::dict(
        {pickled::text("w"),
         pickled::call(pickled::global("torch._utils", "_rebuild_device_tensor_from_cpu_tensor"),
                       {copy, pickled::global("torch", type), pickled::text("xla:0"), "\x89"})}));
  };
  const std::string t = saved_tensor{}();
  const auto found = parsed_archive(saved(t, "float32"));
  REQUIRE(found.has_value());
  REQUIRE(found->tensors.size() == 1);
  CHECK(found->tensors[0].name == "w");
  CHECK(found->tensors[0].dtype == dtype::f32);
  CHECK(unreadable_cause(saved(t, "float16")) ==
        "its elements of type F32 would be converted to torch.float16, which is not supported");
  CHECK(unreadable_cause(saved(saved_tensor{.elements = 24, .storage = "QInt8Storage"}(), "qint8"))
            .find("quantised") != std::string::npos);
  const auto code = [](const std::string& file) { return parsed_archive(file).error().code; };
  CHECK(code(saved("K\1", "float32")) == errc::malformed_header);
  CHECK(code(saved(t, "FloatStorage")) == errc::malformed_header);
  CHECK(code(saved(pickled::call(pickled::global("builtins", "set"), {}), "float32")) ==
        errc::malformed_header);
}

TEST_CASE("pytorch: very many unreadable tensors are refused") {
  std::string many =
      "](" + pickled::call(pickled::global("torch._utils", "_rebuild_qtensor"), {}) + "q\0"s;
  for (std::size_t i = 0; i < torch_tensors_max; ++i) many += "h\0"s;
  const auto refused = parsed_archive(holding(many + "e"));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::header_too_large);
}

TEST_CASE("pytorch: a dictionary with a repeated key is refused") {
  const auto cause = [](pickled::list_of items) {
    const auto found = parsed_archive(holding(pickled::dict(items)));
    return found ? std::string() : found.error().cause();
  };
  const std::string tensor = saved_tensor{}();
  CHECK(cause({pickled::text("a"), tensor, pickled::text("a"), "N"}) == "its key 'a' is repeated");
  CHECK(cause({"K\x07", tensor, pickled::text("b"), "N", "K\x07", "N"}) == "its key 7 is repeated");
  CHECK(cause({pickled::text("a"), tensor, pickled::text("b"), "N"}) == "");
}

TEST_CASE("pytorch: a module in the form before 1.6 is refused by its name, or left out") {
  const std::string module_class =
      pickled::tuple({pickled::text("module"), pickled::global("torch.nn", "Linear"),
                      pickled::text("linear.py"), pickled::text("class Linear: ...")}) +
      "Q";
  const std::string module = module_class + pickled::tuple({}) + "\x81" +
                             pickled::dict({pickled::text("training"), "N"}) + "b";
  const std::string file = pickled::legacy(
      pickled::dict({pickled::text("w"), saved_tensor{}(), pickled::text("model"), module}),
      {{"0", 6, std::string(24, '\2')}});
  const auto parsed_legacy = [&](strictness strictness) {
    memory_input from(bytes_of(file));
    return parse_pytorch_legacy(from, {strictness, "lone"});
  };
  const auto refused = parsed_legacy(strictness::strict);
  REQUIRE_FALSE(refused.has_value());
  CHECK(message_of(refused.error()).find("torch.nn.Linear") != std::string::npos);
  const auto kept = parsed_legacy(strictness::reference);
  REQUIRE(kept.has_value());
  CHECK(kept->tensors.size() == 1);
  REQUIRE(kept->unreadable.size() == 1);
  CHECK(kept->unreadable[0].is_left_out);
}
