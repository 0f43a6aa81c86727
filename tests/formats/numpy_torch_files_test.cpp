// SPDX-License-Identifier: Apache-2.0

// Compares files of NumPy and PyTorch with the contents that these libraries report.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "expected_tensors.hpp"
#include "formats/npy/npy.hpp"
#include "formats/pytorch/pytorch.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

result<file_entries> parsed(const std::string& name, const std::string& content) {
  memory_input from(bytes_of(content));
  read_options how;
  how.nameless = {dtype::f8_e4m3fn, dtype::bf16};
  const std::size_t slash = name.rfind('/') + 1;
  const std::string stem = name.substr(slash, name.rfind('.') - slash);
  if (name.ends_with(".npy")) return parse_npy(from, stem, how);
  if (!content.starts_with("PK")) return parse_pytorch_legacy(from, {strictness::strict, stem});
  auto members = read_zip_directory(from);
  REQUIRE(members.has_value());
  if (!is_pytorch_archive(*members)) return parse_npz(from, *members, how);
  return parse_pytorch_zip(from, *members, {strictness::strict, stem});
}

void check(const std::string& name) {
  CAPTURE(name);
  const std::string path = data_path(name);
  const std::string content = content_of(path);
  const auto found = parsed(name, content);
  REQUIRE(found.has_value());
  check_expected(*found, path, {content});
}

std::string refusal(const std::string& name) {
  const auto found = parsed(name, content_of(data_path(name)));
  REQUIRE_FALSE(found.has_value());
  return message_of(found.error());
}

// The reason for the only unreadable object of the file.
std::string unreadable_reason(const std::string& name) {
  const auto found = parsed(name, content_of(data_path(name)));
  REQUIRE(found.has_value());
  REQUIRE(found->unreadable.size() == 1);
  return message_of(found->unreadable[0].cause);
}

}  // namespace

TEST_CASE("numpy files: every array is read as NumPy reads it") {
  for (const auto* name : {"stored.npz", "deflated.npz", "ml_dtypes.npz", "plain.npy",
                           "fortran.npy", "big_endian.npy"}) {
    check(std::string("numpy/") + name);
  }
}

TEST_CASE("torch files: every tensor is read as PyTorch reads it") {
  for (const auto* name : {"dtypes.pt",
                           "dtypes_legacy.pt",
                           "views.pt",
                           "views_legacy.pt",
                           "views_deflated.pt",
                           "nested.pt",
                           "nested_legacy.pt",
                           "module.pt",
                           "module_legacy.pt",
                           "big_endian.pt",
                           "lone.pt",
                           "sparse.pt",
                           "sparse_csr.pt",
                           "protocol_3.pt",
                           "protocol_3_legacy.pt",
                           "protocol_4.pt",
                           "protocol_4_legacy.pt",
                           "protocol_5.pt",
                           "protocol_5_legacy.pt",
                           "empty.pt",
                           "empty_legacy.pt"}) {
    check(std::string("torch/") + name);
  }
}

TEST_CASE("numpy and torch files: what is not read is refused by name") {
  CHECK(refusal("numpy/objects.npy").find("objects") != std::string::npos);
  CHECK(unreadable_reason("torch/quantised.pt").find("quantised") != std::string::npos);
  CHECK(unreadable_reason("torch/conjugate.pt").find("conjugate") != std::string::npos);
  CHECK(refusal("torch/namespace.pt").find("argparse.Namespace") != std::string::npos);
  CHECK(refusal("torch/script.pt").find("TorchScript") != std::string::npos);
}

TEST_CASE("torch files: tensors that are the same view are the same bytes") {
  const std::string content = content_of(data_path("torch/views.pt"));
  const auto found = parsed("torch/views.pt", content);
  REQUIRE(found.has_value());
  const auto at = [&](std::string_view name) {
    return std::ranges::find(found->tensors, name, &entry::name)->offset;
  };
  CHECK(at("whole") == at("again"));
  CHECK(at("part") == at("whole") + 20);
}
