// SPDX-License-Identifier: Apache-2.0
#include "catalog/detect.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>

#include "support/safetensors_text.hpp"

using namespace ringload;
using namespace std::string_literals;
using namespace std::string_view_literals;
using ringload::testing::bytes_of;
using ringload::testing::safetensors_prefix;
using ringload::testing::safetensors_text;

namespace {

file_format by_bytes(std::string_view first) {
  const format_guess guess = format_of(bytes_of(first), "");
  CHECK_FALSE(guess.by_name_only);
  return guess.format;
}

file_format by_name(std::string_view name, std::string_view first = "") {
  const format_guess guess = format_of(bytes_of(first), name);
  CHECK(guess.by_name_only == (guess.format != file_format::unknown));
  return guess.format;
}

}  // namespace

TEST_CASE("detect: each format is known by its first bytes") {
  CHECK(by_bytes("GGUF\x03\0\0\0"sv) == file_format::gguf);
  CHECK(by_bytes("\x93NUMPY\x01\0"sv) == file_format::npy);
  CHECK(by_bytes("PK\x03\x04\x14\0\0\0"sv) == file_format::zip);
  CHECK(by_bytes("PK\x03\x04\0\0\x08\x08"sv) == file_format::zip);  // As torch.save writes it.
  CHECK(by_bytes("PK\x05\x06\0\0\0\0"sv) == file_format::zip);
  CHECK(by_bytes("\x89HDF\r\n\x1A\n\0\0\0\0"sv) == file_format::hdf5);
  CHECK(by_bytes("ZTEN1000"sv) == file_format::zt);
  CHECK(by_bytes("ZTEN0001"sv) == file_format::zt_0_1);
  CHECK(by_bytes("\x89ZT2\r\n\x1A\n"sv) == file_format::zt_2);
  CHECK(by_bytes("\x1F\x8B\x08\0"sv) == file_format::gzip);
  CHECK(by_bytes("\x28\xB5\x2F\xFD"sv) == file_format::zstd);
  CHECK(by_bytes("\xFD\x37zXZ\0"sv) == file_format::xz);
  CHECK(by_bytes("BZh91AY"sv) == file_format::bzip2);
  CHECK(by_bytes("version https://git-lfs.github.com/spec/v1\n"sv) == file_format::git_lfs_pointer);
  CHECK(by_bytes("<!DOCTYPE html>"sv) == file_format::html);
  CHECK(by_bytes("{\"weight_map\":{}}"sv) == file_format::json);
  CHECK(by_bytes(std::string(257, '\0') + "ustar\0"s) == file_format::tar);
  CHECK(by_bytes(safetensors_text("{}")) == file_format::safetensors);
}

TEST_CASE("detect: a magic number that is cut short is none") {
  CHECK(by_bytes("") == file_format::unknown);
  CHECK(by_bytes("GGU") == file_format::unknown);
  CHECK(by_bytes("\x93NUMP"sv) == file_format::unknown);
  CHECK(by_bytes("ZTEN100"sv) == file_format::unknown);
  CHECK(by_bytes("ZTEN1001"sv) == file_format::unknown);
  CHECK(by_bytes(std::string(257, '\0') + "usta") == file_format::unknown);
}

TEST_CASE("detect: a pickle begins with a protocol from 2 to 5 and an opcode") {
  CHECK(by_bytes("\x80\x02\x8A\x0AlJ\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.") == file_format::pickle);
  CHECK(by_bytes("\x80\x02}q\0."sv) == file_format::pickle);
  CHECK(by_bytes("\x80\x05\x95\x05\0\0\0\0\0\0\0"sv) == file_format::pickle);
  CHECK(by_bytes("\x80\x01}q\0."sv) == file_format::unknown);
  CHECK(by_bytes("\x80\x06}q\0."sv) == file_format::unknown);
  CHECK(by_bytes("\x80\x02"sv) == file_format::unknown);
}

TEST_CASE("detect: a safetensors header of 640 bytes begins like a pickle and is none") {
  const std::string prefix = safetensors_prefix(640);
  REQUIRE(prefix.starts_with("\x80\x02"));
  CHECK(by_bytes(prefix + "{") == file_format::safetensors);
  CHECK(by_bytes(prefix + " ") == file_format::safetensors);
  CHECK(by_bytes(prefix) == file_format::unknown);
  CHECK(by_bytes(prefix + "[") == file_format::unknown);
}

TEST_CASE("detect: the length of a safetensors header must be one that is allowed") {
  CHECK(by_bytes(safetensors_prefix(100'000'000) + "{") == file_format::safetensors);
  CHECK(by_bytes(safetensors_prefix(100'000'001) + "{") == file_format::unknown);
  CHECK(by_bytes(safetensors_prefix(UINT64_MAX) + "{") == file_format::unknown);
}

TEST_CASE("detect: an ONNX model begins with its version and another field of a model") {
  CHECK(by_bytes("\x08\x07\x12\x07pytorch"sv) == file_format::onnx);
  CHECK(by_bytes("\x08\x0A:\x80\x01"sv) == file_format::onnx);  // The graph is the first field.
  CHECK(by_bytes("\x08\x01\x12\x07pytorch"sv) == file_format::unknown);
  CHECK(by_bytes("\x08\x07\x13\x07pytorch"sv) == file_format::unknown);
  CHECK(by_bytes("\x08\x07"sv) == file_format::unknown);
  CHECK(by_bytes("\x08\x07\0"sv) == file_format::unknown);
}

TEST_CASE("detect: the name is asked only where the bytes say nothing") {
  CHECK(by_name("folder/model.safetensors") == file_format::safetensors);
  CHECK(by_name("model.onnx") == file_format::onnx);
  CHECK(by_name("MODEL.ONNX", "xyz") == file_format::onnx);
  CHECK(by_name("a.npz") == file_format::zip);
  CHECK(by_name("a.pth") == file_format::pickle);
  CHECK(by_name("a.hdf5") == file_format::hdf5);
  CHECK(by_name("a.zt") == file_format::zt);
  CHECK(by_name("zt") == file_format::unknown);
  CHECK(by_name("model.onnx.part") == file_format::unknown);
  CHECK(by_name("model.bin") == file_format::unknown);

  // A checkpoint with another extension, and a download whose content does not match its name.
  const auto renamed = format_of(bytes_of(safetensors_text("{}")), "model.pt");
  CHECK(renamed.format == file_format::safetensors);
  CHECK_FALSE(renamed.by_name_only);
  CHECK(format_of(bytes_of("GGUF"), "model.safetensors").format == file_format::gguf);
}

TEST_CASE("detect: every format has a noun, and the sentence says how it was known") {
  for (auto format = file_format::safetensors; format <= file_format::git_lfs_pointer;
       format = static_cast<file_format>(static_cast<std::uint8_t>(format) + 1)) {
    CHECK_FALSE(noun_of(format).empty());
    CHECK_FALSE(sentence_of({format, false}).empty());
  }
  CHECK(noun_of(file_format::unknown).empty());
  CHECK(sentence_of({}).empty());
  CHECK(sentence_of({file_format::hdf5, false}) == "this is an HDF5 file");
  CHECK(sentence_of({file_format::onnx, true}) ==
        "the name is that of an ONNX model, but the first bytes are not");
  CHECK(sentence_of({file_format::git_lfs_pointer, false}) ==
        "this is a git-lfs pointer and not the file itself: `git lfs pull` fetches the file");
}

TEST_CASE("detect: files that others wrote") {
  struct sample {
    const char* name;
    file_format format;
  };
  for (const auto& [name, format] :
       {sample{"mnist.safetensors", file_format::safetensors},
        sample{"voices.safetensors", file_format::safetensors},
        sample{"mnist.pt", file_format::zip}, sample{"simple_legacy.pt", file_format::pickle}}) {
    CAPTURE(name);
    std::ifstream in(std::string(RINGLOAD_DATA_DIR "/") + name, std::ios::binary);
    if (!in) {
      std::cout << "skipped: there is no " << name << '\n';
      continue;
    }
    std::string first(format_probe_bytes, '\0');
    in.read(first.data(), static_cast<std::streamsize>(first.size()));
    first.resize(static_cast<std::size_t>(in.gcount()));
    CHECK(by_bytes(first) == format);
  }
}
