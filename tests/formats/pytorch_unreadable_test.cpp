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

TEST_CASE("pytorch: very many unreadable tensors are refused") {
  std::string many =
      "](" + pickled::call(pickled::global("torch._utils", "_rebuild_qtensor"), {}) + "q\0"s;
  for (std::size_t i = 0; i < torch_tensors_max; ++i) many += "h\0"s;
  const auto refused = parsed_archive(holding(many + "e"));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::header_too_large);
}
