// SPDX-License-Identifier: Apache-2.0

// Digests in .zt files that the test builds. A tensor that does not match its digest is never
// returned, for any encoding and any conversion.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <ringload/ringload.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/checksum_list.hpp"
#include "formats/sparse_indices.hpp"
#include "formats/zt_text.hpp"
#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// Frames of stored blocks, which can be decoded even if their bytes are damaged.
std::string zstd_of_stored_blocks(const std::string& content) {
  constexpr std::size_t block_max = 100'000;
  std::string out("\x28\xB5\x2F\xFD\x00\x58", 6);
  std::size_t at = 0;
  do {
    const std::size_t size = std::min(block_max, content.size() - at);
    const bool last = at + size == content.size();
    const auto head = static_cast<std::uint32_t>(size << 3U | (last ? 1U : 0U));
    out += number_text(head).substr(0, 3) + content.substr(at, size);
    at += size;
  } while (at < content.size());
  return out;
}

std::string crc_digest(const std::string& stored) {
  char text[32];
  std::snprintf(text, sizeof text, "crc32c:0x%08X", crc32c(bytes_of(stored)));
  return text;
}

// A substitute for SHA-256, with 32 bytes, because the library has no SHA-256.
hasher thirty_two_bytes() {
  const auto crc = std::make_shared<std::uint32_t>(0);
  hasher one;
  one.update = [crc](std::span<const std::byte> bytes) { *crc = crc32c(bytes, *crc); };
  one.finish = [crc] {
    std::vector<std::byte> digest(32, std::byte{7});
    for (unsigned i = 0; i < 4; ++i) digest[i] = static_cast<std::byte>(*crc >> (8 * i));
    return digest;
  };
  return one;
}

std::string sha_digest(const std::string& stored) {
  const hasher pass = thirty_two_bytes();
  pass.update(bytes_of(stored));
  return "sha256:" + hex(pass.finish());
}

// A .zt file that is put together component by component.
class zt_maker {
 public:
  // A component with further fields, such as its digest.
  std::string component(std::string_view type, const std::string& stored, cbor_pairs more = {}) {
    while (blobs_.size() % zt_alignment != 0) blobs_ += '\0';
    const std::uint64_t offset = zt_alignment + blobs_.size();
    blobs_ += stored;
    return zt_component_text(type, offset, stored.size(), more);
  }
  std::string raw(std::string_view type, const std::string& content, const std::string& digest) {
    return component(type, content, {{"digest", cbor_text(digest)}});
  }
  std::string zstd(std::string_view type, const std::string& content, bool with_digest = true) {
    const std::string stored = zstd_of_stored_blocks(content);
    cbor_pairs more = {{"encoding", cbor_text("zstd")},
                       {"uncompressed_length", cbor_number(content.size())}};
    if (with_digest) more.emplace_back("digest", cbor_text(crc_digest(stored)));
    return component(type, stored, more);
  }
  void dense(const std::string& name, const std::vector<std::uint64_t>& shape,
             const std::string& data) {
    objects_.emplace_back(name, zt_object_text(shape, "dense", {{"data", data}}));
  }
  void object(const std::string& name, const std::vector<std::uint64_t>& shape,
              std::string_view format, const cbor_pairs& components) {
    objects_.emplace_back(name, zt_object_text(shape, format, components));
  }
  std::string text() const { return zt_text(zt_index_text(objects_), blobs_); }
  std::uint64_t blobs_end() const { return zt_alignment + blobs_.size(); }

 private:
  std::string blobs_;
  cbor_pairs objects_;
};

class zt_file {
 public:
  explicit zt_file(const std::string& text) { write_file(path_, text); }
  std::string name() const { return path_.string(); }

 private:
  const temporary_folder folder_;
  const std::filesystem::path path_ = folder_.path() / "model.zt";
};

std::string u64_text(const std::vector<std::uint64_t>& values) {
  std::string out;
  for (const std::uint64_t each : values) out += number_text(each);
  return out;
}

cbor_pairs csr_parts(zt_maker& to, const std::vector<std::uint64_t>& indices,
                     const std::vector<std::uint64_t>& indptr) {
  const std::string values(indices.size() * 2, 'v');
  return {{"values", to.raw("f16", values, crc_digest(values))},
          {"indices", to.zstd("u64", u64_text(indices))},
          {"indptr", to.raw("u64", u64_text(indptr), crc_digest(u64_text(indptr)))}};
}

// A .zt file in which everything has a digest.
zt_maker of_all_kinds() {
  zt_maker to;
  const std::string small = noise(40, 1);
  const std::string large = noise(400'000, 2);
  to.dense("raw", {10}, to.raw("f32", small, crc_digest(small)));
  to.dense("large", {2, 50'000}, to.raw("f32", large, crc_digest(large)));
  to.dense("hashed", {40}, to.raw("u8", small, sha_digest(small)));
  to.dense("packed", {5, 20'000}, to.zstd("f32", large));
  to.dense("packed_small", {40}, to.zstd("u8", small));
  to.dense("empty", {0, 3}, to.raw("f32", "", crc_digest("")));
  to.dense("packed_empty", {3, 0}, to.zstd("f32", ""));
  to.object("csr", {3, 9}, "sparse_csr", csr_parts(to, {8, 0, 5}, {0, 1, 1, 3}));
  const std::string coords = u64_text({0, 6, 1, 2});
  to.object("coo", {7, 3}, "sparse_coo",
            {{"values", to.raw("u8", "ab", crc_digest("ab"))},
             {"coords", to.raw("u64", coords, crc_digest(coords))}});
  return to;
}

load_options by_files(embedded_digests how) {
  load_options options;
  options.verify = verification(how, thirty_two_bytes);
  return options;
}

const load_options required = by_files(embedded_digests::require);
const load_options if_present = by_files(embedded_digests::if_present);

}  // namespace

TEST_CASE("stored digests: what matches is loaded, by each engine, and counted") {
  const zt_file file(of_all_kinds().text());
  for (const auto engine : {read_engine::automatic, read_engine::threads}) {
    loader with(host(), small_options(2, engine));
    const model plain = get(with.load_async(file.name(), use_future));
    CHECK(plain.stats().bytes_verified == 0);
    const model loaded = get(with.load_async(file.name(), required, use_future));
    CHECK(loaded.stats().bytes_verified == loaded.catalog().size_bytes());
    for (const tensor each : loaded) {
      CAPTURE(std::string(each.name()));
      CHECK((testing::bytes_of(each) == testing::bytes_of(plain.at(each.name()))));
    }
  }
  const catalog what = read_catalog(file.name());
  CHECK(what.tensors[0].digest.starts_with("crc32c "));
}

TEST_CASE("stored digests: any stored byte that is another fails the load, by file and tensor") {
  const zt_maker made = of_all_kinds();
  const std::string text = made.text();
  loader with(counted_host(), small_options());
  const catalog what = get(with.open_async(zt_file(text).name(), use_future)).catalog();
  for (const tensor_info& t : what.tensors) {
    for (const std::uint64_t at : {std::uint64_t{0}, t.stored_bytes / 2, t.stored_bytes - 1}) {
      if (t.stored_bytes == 0) continue;
      std::string flipped = text;
      flipped[t.offset + at] = static_cast<char>(flipped[t.offset + at] ^ 1);
      const zt_file file(flipped);
      CAPTURE(t.name);
      CAPTURE(at);
      const auto failed = failure_of(with.load_async(file.name(), if_present, use_future));
      REQUIRE(failed.has_value());
      const bool frame = holds(t.encoding, "zstd") && at == 0;  // The first byte of its magic.
      CHECK(failed->code() == (frame ? errc::malformed_stream : errc::wrong_digest));
      CHECK(holds(failed->what(), "model.zt: tensor '" + t.name + "': "));
      CHECK((frame || holds(failed->what(), ", but the digest in the file is ")));
      CHECK(arenas_taken == 0);
    }
  }
}

TEST_CASE("stored digests: without asking they are not looked at; a stored block is what it is") {
  const zt_maker made = of_all_kinds();
  std::string text = made.text();
  loader with(host(), small_options());
  const catalog what = read_catalog(zt_file(text).name());
  for (const tensor_info& t : what.tensors) {
    if (t.name == "large" || t.name == "packed") text[t.offset + t.stored_bytes / 2] ^= 1;
  }
  CHECK(get(with.load_async(zt_file(text).name(), use_future)).size() == what.tensors.size());
}

TEST_CASE("stored digests: of a compressed tensor without elements the stored bytes are hashed") {
  zt_maker to;
  to.dense("none", {0}, to.zstd("f32", ""));
  std::string text = to.text();
  loader with(host(), small_options());
  CHECK(get(with.load_async(zt_file(text).name(), required, use_future)).size() == 1);
  text[zt_alignment + 5] ^= 1;
  const auto failed = failure_of(with.load_async(zt_file(text).name(), required, use_future));
  REQUIRE(failed.has_value());
  CHECK(failed->code() == errc::wrong_digest);
  CHECK(holds(failed->what(), "model.zt: tensor 'none'"));
}

TEST_CASE("stored digests: required, each tensor must have one that is known and can be had") {
  loader with(host(), small_options());
  const std::string content = noise(40, 1);
  const auto failure = [&](const zt_maker& of, const load_options& how) {
    const auto failed = failure_of(with.load_async(zt_file(of.text()).name(), how, use_future));
    return failed ? std::string(failed->what()) + " " + failed->code().message() : "none";
  };
  zt_maker lacking;
  lacking.dense("a", {10}, lacking.raw("f32", content, crc_digest(content)));
  lacking.dense("b", {10}, lacking.component("f32", content));
  CHECK(holds(failure(lacking, required),
              "model.zt: tensor 'b': the file has no digest of the tensor"));
  CHECK(failure(lacking, if_present) == "none");

  zt_maker unknown;
  unknown.dense("x", {10}, unknown.raw("f32", content, "md5:00"));
  CHECK(holds(failure(unknown, required), "tensor 'x': the file has no digest of the tensor"));
  CHECK(failure(unknown, if_present) == "none");

  zt_maker hashed;
  hashed.dense("h", {10}, hashed.raw("f32", content, sha_digest(content)));
  for (const auto how : {embedded_digests::require, embedded_digests::if_present}) {
    load_options without;
    without.verify = how;
    CHECK(holds(failure(hashed, without),
                "tensor 'h': its digest is a sha256, but no sha256 hasher"));
  }
  CHECK(failure(hashed, required) == "none");
  load_options by_list = if_present;
  by_list.verify.sha256 = nullptr;
  checksum_list m;
  m.tensors.push_back({"h", digest_algorithm::crc32c, {}});
  const std::uint32_t crc = crc32c(bytes_of(content));
  for (unsigned shift = 32; shift > 0; shift -= 8) {
    m.tensors[0].bytes.push_back(static_cast<std::byte>(crc >> (shift - 8)));
  }
  m.sha256 = thirty_two_bytes;
  by_list.verify.checksums = &m;
  CHECK(failure(hashed, by_list) == "none");
  m.tensors[0].bytes[0] ^= std::byte{1};
  CHECK(holds(failure(hashed, by_list), "but the digest in checksum list is"));
}

TEST_CASE("stored digests: a part cannot be checked; required it is refused, else it is loaded") {
  const zt_file file(of_all_kinds().text());
  loader with(host(), small_options());
  const selection part = select().names({"large"}).slice("large", 0, 1, 1);
  CHECK(get(with.load_async(file.name(), selecting(part, if_present), use_future)).size() == 1);
  const auto failed =
      failure_of(with.load_async(file.name(), selecting(part, required), use_future));
  REQUIRE(failed.has_value());
  CHECK(failed->code() == errc::digest_unavailable);
  CHECK(holds(failed->what(), "model.zt: tensor 'large': the digest covers the whole tensor"));
  const selection all_of_it = select().names({"large"}).slice("large", 0, 0, 2);
  CHECK(get(with.load_async(file.name(), selecting(all_of_it, required), use_future))
            .stats()
            .bytes_verified == 400'000);
}

TEST_CASE("stored digests: of what is converted, fused, filled and passed through a window") {
  const zt_maker made = of_all_kinds();
  const std::string good = made.text();
  std::string bad = good;
  const catalog what = read_catalog(zt_file(good).name());
  for (const tensor_info& t : what.tensors) {
    if (t.name == "large") bad[t.offset + 399'999] ^= 1;
  }
  const zt_file files[] = {zt_file(good), zt_file(bad)};
  loader with(host(), small_options(3));
  const std::vector<std::string> names = {"large", "packed"};
  for (const zt_file& file : files) {
    const bool right = &file == &files[0];
    const auto check = [&](const boost::system::error_code& code) {
      CHECK(code == (right ? boost::system::error_code() : make_error_code(errc::wrong_digest)));
    };
    load_options converted = required;
    converted.dtype = dtype::bf16;
    check(code_of(
        with.load_async(file.name(), selecting(select().names(names), converted), use_future)));
    // Both have 100,000 elements but different shapes, so each is fused only with itself.
    const selection fused = select().except("*").fused("twice", {"large", "large"}, 0);
    check(code_of(with.load_async(file.name(), selecting(fused, required), use_future)));

    std::vector<float> memory(100'000);
    const checkpoint opened = get(with.open_async(file.name(), use_future));
    std::vector<destination> into;
    into.emplace_back("large", memory.data(), dtype::f32, std::vector<std::uint64_t>{2, 50'000},
                      host());
    fill_options how;
    how.unexpected = fill_options::on_unexpected::ignore;
    check(code_of(with.fill_async(opened, into, filling(how, required), use_future)));

    tensor_stream load = get(with.stream_async(file.name(), 4 << 20, required, use_future));
    boost::system::error_code code;
    for (bool more = true; more;) {
      auto next = load.next_async(use_future);
      try {
        more = get(std::move(next)).has_value();
      } catch (const error& e) {
        code = e.code();
        more = false;
      }
    }
    check(code);
  }
}

TEST_CASE("stored digests: of version 0.1, also where the bytes are swapped") {
  const std::string content = noise(4'000, 3);
  const auto file_of = [&](const std::string& digest) {
    const std::string index = cbor_array({cbor_map({{"name", cbor_text("b")},
                                                    {"offset", cbor_number(64)},
                                                    {"size", cbor_number(4'000)},
                                                    {"dtype", cbor_text("float32")},
                                                    {"shape", cbor_numbers({10, 100})},
                                                    {"data_endianness", cbor_text("big")},
                                                    {"checksum", cbor_text(digest)}})});
    return "ZTEN0001" + std::string(56, '\0') + content + index +
           number_text(std::uint64_t{index.size()});
  };
  loader with(host(), small_options());
  const zt_file right(file_of(crc_digest(content)));
  const model loaded = get(with.load_async(right.name(), required, use_future));
  CHECK(testing::bytes_of(loaded.at("b"))[0] == content[3]);
  CHECK(loaded.stats().bytes_verified == 4'000);
  const zt_file wrong(file_of("crc32c:0x00000001"));
  CHECK(code_of(with.load_async(wrong.name(), required, use_future)) == errc::wrong_digest);
}

TEST_CASE("stored digests: where they are asked for, the indices of sparse tensors are looked at") {
  loader with(host(), small_options());
  const auto csr = [&](const std::vector<std::uint64_t>& indices,
                       const std::vector<std::uint64_t>& indptr) {
    zt_maker to;
    to.object("s", {3, 9}, "sparse_csr", csr_parts(to, indices, indptr));
    const zt_file file(to.text());
    CHECK(get(with.load_async(file.name(), use_future)).size() == 3);
    const auto failed = failure_of(with.load_async(file.name(), if_present, use_future));
    if (!failed) return std::string("none");
    CHECK(failed->code() == errc::wrong_indices);
    return std::string(failed->what());
  };
  CHECK(csr({8, 0, 5}, {0, 1, 1, 3}) == "none");
  CHECK(holds(csr({8, 9, 5}, {0, 1, 1, 3}),
              "model.zt: tensor 's/indices': element 1 is 9, expected less than 9"));
  CHECK(
      holds(csr({8, 0, 5}, {1, 1, 1, 3}), "tensor 's/indptr': the first element is 1, expected 0"));
  CHECK(holds(csr({8, 0, 5}, {0, 2, 1, 3}),
              "tensor 's/indptr': element 2 is 1, expected at least 2"));
  CHECK(holds(csr({8, 0, 5}, {0, 1, 1, 2}),
              "tensor 's/indptr': the last element is 2, but there are 3 values"));

  const auto coo = [&](const std::vector<std::uint64_t>& coords) {
    zt_maker to;
    to.object(
        "c", {7, 3}, "sparse_coo",
        {{"values", to.component("u8", "ab")}, {"coords", to.component("u64", u64_text(coords))}});
    const auto failed =
        failure_of(with.load_async(zt_file(to.text()).name(), if_present, use_future));
    return failed ? std::string(failed->what()) : "none";
  };
  CHECK(coo({6, 0, 2, 0}) == "none");
  CHECK(holds(coo({7, 0, 2, 0}), "tensor 'c/coords': element 0 is 7, expected less than 7"));
  CHECK(holds(coo({6, 0, 0, 3}), "tensor 'c/coords': element 3 is 3, expected less than 3"));
}

TEST_CASE("stored digests: indices of each integer type are looked at") {
  loader with(host(), small_options());
  const auto csr = [&](const char* type, std::string_view indices, std::string_view indptr) {
    zt_maker to;
    to.object("s", {2, 100}, "sparse_csr",
              {{"values", to.component("u8", "ab")},
               {"indices", to.component(type, std::string(indices))},
               {"indptr", to.component(type, std::string(indptr))}});
    const auto failed =
        failure_of(with.load_async(zt_file(to.text()).name(), if_present, use_future));
    return failed ? std::string(failed->what()) : "none";
  };
  using namespace std::string_view_literals;
  for (const char* type : {"i8", "u8"}) {
    CAPTURE(type);
    CHECK(csr(type, "\x63\x00"sv, "\x00\x01\x02"sv) == "none");
    CHECK(holds(csr(type, "\x63\x64"sv, "\x00\x01\x02"sv),
                "tensor 's/indices': element 1 is 100, expected less than 100"));
    CHECK(holds(csr(type, "\x63\x00"sv, "\x00\x03\x02"sv),
                "'s/indptr': element 2 is 2, expected at least 3"));
  }
  CHECK(holds(csr("i8", "\x00\xff"sv, "\x00\x01\x02"sv), "tensor 's/indices': element 1 is -1"));
  CHECK(holds(csr("u8", "\x00\xff"sv, "\x00\x01\x02"sv), "tensor 's/indices': element 1 is 255"));
  for (const char* type : {"i32", "u32"}) {
    CAPTURE(type);
    CHECK(csr(type, "\x63\0\0\0\x01\0\0\0"sv, "\0\0\0\0\1\0\0\0\2\0\0\0"sv) == "none");
    CHECK(holds(csr(type, "\x63\0\0\0\x01\1\0\0"sv, "\0\0\0\0\1\0\0\0\2\0\0\0"sv),
                "tensor 's/indices': element 1 is 257, expected less than 100"));
  }
  CHECK(holds(csr("i16", "\xff\xff\x01\x00"sv, "\0\0\1\0\2\0"sv), "element 0 is -1"));
  CHECK(holds(csr("i64", "\0\0\0\0\0\0\0\x80\0\0\0\0\0\0\0\0"sv,
                  "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"sv),
              "element 0 is -9223372036854775808"));
}

TEST_CASE("stored range: a component that declares another decoded size is refused") {
  zt_maker to;
  const std::string content = noise(1'000, 5);
  const std::string stored = zstd_of_stored_blocks(content);
  to.dense("right", {1'000}, to.zstd("u8", content, false));
  to.dense("short", {600},
           zt_component_text(
               "u8", zt_alignment, stored.size(),
               {{"encoding", cbor_text("zstd")}, {"uncompressed_length", cbor_number(600)}}));
  const zt_file file(to.text());
  loader with(host(), small_options(2));
  const auto code_with = [&](std::vector<std::string> names) {
    return code_of(with.load_async(file.name(), select().names(std::move(names)), use_future));
  };
  CHECK_FALSE(code_with({"right"}));
  const boost::system::error_code alone = code_with({"short"});
  CHECK(alone);
  CHECK(code_with({"right", "short"}) == alone);
}

TEST_CASE("index rules: coordinates of PyTorch and of ONNX have their own order") {
  const auto fault_of = [](const char* layout, std::vector<std::string> parts, const char* part,
                           std::vector<std::uint64_t> shape, std::vector<std::uint64_t> indices) {
    composite_info whole;
    whole.layout = layout;
    whole.shape = {7, 3};
    whole.parts = std::move(parts);
    tensor_info tensor;
    tensor.dtype = dtype::i64;
    tensor.shape = std::move(shape);
    const auto rule = index_rule_of(whole, part, tensor, 2);
    REQUIRE(rule);
    index_checker checker(*rule);
    const std::string bytes = u64_text(indices);
    auto status = checker.take(std::as_bytes(std::span(bytes)));
    if (status) status = checker.finish();
    return status ? std::string() : status.error().cause();
  };
  const std::vector<std::string> torch = {"indices", "values"};
  CHECK(fault_of("sparse_coo", torch, "indices", {2, 2}, {6, 0, 2, 0}).empty());
  CHECK(holds(fault_of("sparse_coo", torch, "indices", {2, 2}, {6, 0, 0, 3}), "element 3 is 3"));
  CHECK(fault_of("sparse_coo", torch, "indices", {1, 2}, {6, 3}).empty());
  const std::vector<std::string> onnx = {"values", "indices"};
  CHECK(fault_of("sparse_coo", onnx, "indices", {2, 2}, {6, 0, 0, 2}).empty());
  CHECK(holds(fault_of("sparse_coo", onnx, "indices", {2, 2}, {0, 0, 2, 3}), "element 3 is 3"));
  CHECK(fault_of("sparse_coo", onnx, "indices", {2}, {20, 0}).empty());
  CHECK(holds(fault_of("sparse_coo", onnx, "indices", {2}, {0, 21}), "element 1 is 21"));
  const std::vector<std::string> csr = {"crow_indices", "col_indices", "values"};
  CHECK(holds(fault_of("sparse_csr", csr, "col_indices", {2}, {0, 3}), "element 1 is 3"));
  CHECK(
      holds(fault_of("sparse_csr", csr, "crow_indices", {3}, {0, 1, 1}), "the last element is 1"));
}
