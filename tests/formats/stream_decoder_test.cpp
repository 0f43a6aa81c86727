// SPDX-License-Identifier: Apache-2.0
#include "formats/codec/stream_decoder.hpp"

#include <doctest/doctest.h>
#include <isa-l/igzip_lib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "formats/codec/filter_chain.hpp"
#include "formats/codec/zstd_frame.hpp"

using namespace ringload;

namespace {

using bytes = std::vector<std::byte>;

bytes compressible(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  bytes out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = i > 300 && random() % 4 != 0 ? out[i - 1 - random() % 300]
                                          : static_cast<std::byte>(random() % 40);
  }
  return out;
}

bytes deflated(const bytes& from, bool zlib_wrapper) {
  bytes out(from.size() * 2 + 1024);
  ::isal_zstream stream = {};  // The init function leaves fields as they are.
  ::isal_deflate_stateless_init(&stream);
  stream.end_of_stream = 1;
  stream.gzip_flag = zlib_wrapper ? IGZIP_ZLIB : IGZIP_DEFLATE;
  stream.next_in = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(from.data()));
  stream.avail_in = static_cast<std::uint32_t>(from.size());
  stream.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  stream.avail_out = static_cast<std::uint32_t>(out.size());
  REQUIRE(::isal_deflate_stateless(&stream) == COMP_OK);
  out.resize(stream.total_out);
  return out;
}

bytes zstd_compressed(const bytes& from) {
  bytes out(::ZSTD_compressBound(from.size()));
  const std::size_t n = ::ZSTD_compress(out.data(), out.size(), from.data(), from.size(), 3);
  REQUIRE(!::ZSTD_isError(n));
  out.resize(n);
  return out;
}

// A frame without a content size, as in streams, that refers back up to 1 KiB. Decoding into
// separate buffers needs a window that is reused many times.
bytes zstd_streamed(const bytes& from) {
  const std::unique_ptr<::ZSTD_CCtx, decltype(&::ZSTD_freeCCtx)> with(::ZSTD_createCCtx(),
                                                                      ::ZSTD_freeCCtx);
  ::ZSTD_CCtx_setParameter(with.get(), ::ZSTD_c_contentSizeFlag, 0);
  ::ZSTD_CCtx_setParameter(with.get(), ::ZSTD_c_checksumFlag, 1);
  ::ZSTD_CCtx_setParameter(with.get(), ::ZSTD_c_windowLog, 10);
  bytes out(::ZSTD_compressBound(from.size()));
  ::ZSTD_inBuffer in = {from.data(), from.size(), 0};
  ::ZSTD_outBuffer to = {out.data(), out.size(), 0};
  REQUIRE(::ZSTD_compressStream2(with.get(), &to, &in, ::ZSTD_e_end) == 0);
  out.resize(to.pos);
  return out;
}

bytes shuffled(const bytes& from, std::size_t width) {
  const std::size_t count = from.size() / width;
  bytes out = from;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t b = 0; b < width; ++b) out[b * count + i] = from[i * width + b];
  }
  return out;
}

// Output buffers of varying size.
class pieces final : public decoded_output {
 public:
  explicit pieces(std::size_t most) : room_(most) {}
  std::span<std::byte> next_buffer() override {
    turn_ = turn_ % room_.size() + 1;
    return std::span(room_).first(turn_);
  }
  void filled(std::size_t count) override {
    got.insert(got.end(), room_.begin(), room_.begin() + static_cast<std::ptrdiff_t>(count));
  }
  bytes got;

 private:
  bytes room_;
  std::size_t turn_ = 0;
};

// One buffer for all decoded bytes.
class one_memory final : public decoded_output {
 public:
  explicit one_memory(std::uint64_t count) : all(static_cast<std::size_t>(count)) {}
  std::span<std::byte> next_buffer() override { return std::span(all).subspan(given); }
  void filled(std::size_t count) override { given += count; }
  bytes all;
  std::size_t given = 0;
};

stored_stream stored(codec how, const bytes& in, std::uint64_t decoded_bytes) {
  stored_stream what;
  what.stored_codec = how;
  what.bytes = in.size();
  what.decoded_bytes = decoded_bytes;
  return what;
}

struct outcome {
  bytes got;
  std::string fault;
  boost::system::error_code code;
};

outcome decoded(const stored_stream& what, const bytes& in, std::size_t in_step,
                decoded_output& out, decoded_into into, unsigned element_bytes) {
  outcome done;
  const auto failed = [&](const fault& why) {
    done.fault = message_of(why);
    done.code = why.code;
    return done;
  };
  auto with = stream_decoder::make(what, element_bytes, into);
  if (!with) return failed(with.error());
  for (std::size_t at = 0; at < in.size(); at += in_step) {
    const std::size_t n = std::min(in_step, in.size() - at);
    if (auto good = with->take(std::span(in).subspan(at, n), out); !good)
      return failed(good.error());
  }
  if (auto good = with->finish(out); !good) return failed(good.error());
  return done;
}

outcome decoded(const stored_stream& what, const bytes& in, std::size_t in_step,
                std::size_t out_most, unsigned element_bytes = 1) {
  pieces out(out_most);
  outcome done = decoded(what, in, in_step, out, decoded_into::pieces, element_bytes);
  if (!done.code) done.got = std::move(out.got);
  return done;
}

outcome decoded_in_place(const stored_stream& what, const bytes& in, std::size_t in_step) {
  one_memory out(what.decoded_bytes);
  outcome done = decoded(what, in, in_step, out, decoded_into::one_memory, 1);
  if (!done.code) done.got = std::move(out.all);
  return done;
}

std::uint32_t fletcher_by_definition(const bytes& of) {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  for (std::size_t i = 0; i < of.size(); i += 2) {
    const auto high = static_cast<std::uint64_t>(of[i]) << 8U;
    first += high + (i + 1 < of.size() ? static_cast<std::uint64_t>(of[i + 1]) : 0);
    first = first > 65535 ? first % 65535 + (first % 65535 == 0 ? 65535 : 0) : first;
    second += first;
    second = second > 65535 ? second % 65535 + (second % 65535 == 0 ? 65535 : 0) : second;
  }
  return static_cast<std::uint32_t>(second << 16U | first);
}

bytes with_sum(bytes of, std::uint32_t sum) {
  for (unsigned i = 0; i < 4; ++i) of.push_back(static_cast<std::byte>(sum >> (8U * i)));
  return of;
}

}  // namespace

TEST_CASE("stream_decoder: every codec gives back what was stored, cut anywhere") {
  for (const std::size_t count : {1U, 7U, 4096U, 200001U}) {
    const bytes original = compressible(count, count);
    for (const codec how : {codec::raw, codec::deflate, codec::zlib, codec::zstd}) {
      bytes in = original;
      if (how == codec::deflate || how == codec::zlib) in = deflated(original, how == codec::zlib);
      if (how == codec::zstd) in = zstd_compressed(original);
      const stored_stream what = stored(how, in, count);
      for (const auto& [in_step, out_most] : std::vector<std::pair<std::size_t, std::size_t>>{
               {1, 3}, {13, 70000}, {70000, 5}, {1 << 20, 1 << 20}}) {
        // Would take minutes without testing more.
        if (count > 100000 && in_step * out_most < 100000) continue;
        CAPTURE(static_cast<int>(how));
        CAPTURE(count);
        CAPTURE(in_step);
        const outcome done = decoded(what, in, in_step, out_most);
        CHECK(done.fault == "");
        CHECK(done.got == original);
        const outcome in_place = decoded_in_place(what, in, in_step);
        CHECK(in_place.fault == "");
        CHECK(in_place.got == original);
      }
    }
  }
}

TEST_CASE("stream_decoder: zstd frames of any kind follow each other, and look back into memory") {
  const bytes first = compressible(200001, 1);
  const bytes second = compressible(300, 2);
  const bytes third = compressible(300000, 3);
  // A skippable frame of five bytes, and an empty skippable frame.
  const bytes skipped = {std::byte{0x53}, std::byte{0x2A}, std::byte{0x4D}, std::byte{0x18},
                         std::byte{5},    std::byte{},     std::byte{},     std::byte{},
                         std::byte{1},    std::byte{2},    std::byte{3},    std::byte{4},
                         std::byte{5}};
  bytes in;
  for (const bytes& each : {zstd_streamed(first), skipped, zstd_compressed(second),
                            zstd_streamed({}), zstd_streamed(third), skipped}) {
    in.insert(in.end(), each.begin(), each.end());
  }
  bytes all = first;
  all.insert(all.end(), second.begin(), second.end());
  all.insert(all.end(), third.begin(), third.end());
  const stored_stream what = stored(codec::zstd, in, all.size());
  for (const std::size_t step : {std::size_t{1}, std::size_t{100}, std::size_t{1} << 20}) {
    CAPTURE(step);
    for (const outcome& done : {decoded(what, in, step, 70000), decoded_in_place(what, in, step)}) {
      CHECK(done.fault == "");
      CHECK(done.got == all);
    }
    // One byte less or more, at the end or in the middle of the last frame.
    for (const std::uint64_t said : {all.size() - 1, all.size() + 1, all.size() - 150000}) {
      const outcome done = decoded_in_place(stored(codec::zstd, in, said), in, step);
      CHECK(done.code == errc::malformed_stream);
      CHECK((done.fault.find("more") != std::string::npos) == (said < all.size()));
    }
  }
}

TEST_CASE("stream_decoder: integers of base 128 are cut to the width of an element") {
  // 1, 300, and -1 as ten bytes.
  const bytes in = {std::byte{1},    std::byte{0xAC}, std::byte{2},    std::byte{0xFF},
                    std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF},
                    std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF},
                    std::byte{1}};
  const auto as = [&](unsigned width) {
    const outcome done = decoded(stored(codec::varint, in, 3 * width), in, 1, 16, width);
    CHECK(done.fault == "");
    std::vector<std::uint64_t> out;
    for (std::size_t i = 0; i + width <= done.got.size(); i += width) {
      std::uint64_t value = 0;
      std::memcpy(&value, done.got.data() + i, width);
      out.push_back(value);
    }
    return out;
  };
  CHECK(as(8) == std::vector<std::uint64_t>{1, 300, ~0ULL});
  CHECK(as(4) == std::vector<std::uint64_t>{1, 300, 0xFFFFFFFF});
  CHECK(as(2) == std::vector<std::uint64_t>{1, 300, 0xFFFF});
  CHECK(as(1) == std::vector<std::uint64_t>{1, 300 - 256, 0xFF});
  const bytes endless(11, std::byte{0x80});
  CHECK(decoded(stored(codec::varint, endless, 8), endless, 11, 16, 8).code ==
        errc::malformed_stream);
  const bytes torn = {std::byte{0x80}};
  CHECK(decoded(stored(codec::varint, torn, 8), torn, 1, 16, 8).code == errc::malformed_stream);
}

TEST_CASE(
    "stream_decoder: an integer of base 128 that is cut off after the last element is refused") {
  const bytes whole = {std::byte{1}};
  const bytes torn = {std::byte{1}, std::byte{0x80}};
  for (const std::size_t step : {std::size_t{1}, std::size_t{2}}) {
    for (const unsigned width : {1U, 8U}) {
      CHECK(decoded(stored(codec::varint, whole, width), whole, step, 16, width).fault == "");
      CHECK(decoded(stored(codec::varint, torn, width), torn, step, 16, width).code ==
            errc::malformed_stream);
    }
  }
  CHECK(decoded(stored(codec::varint, {}, 0), {}, 1, 16, 8).fault == "");
}

TEST_CASE("stream_decoder: more or less than the header says is refused, and bytes left over") {
  const bytes original = compressible(10000, 3);
  for (const codec how : {codec::deflate, codec::zlib, codec::zstd}) {
    CAPTURE(static_cast<int>(how));
    bytes in =
        how == codec::zstd ? zstd_compressed(original) : deflated(original, how == codec::zlib);
    for (const std::uint64_t said : {9999U, 10001U, 0U}) {
      const outcome done = decoded(stored(how, in, said), in, 1000, 700);
      CHECK(done.code == errc::malformed_stream);
      CHECK(decoded_in_place(stored(how, in, said), in, 1000).code == errc::malformed_stream);
    }
    bytes torn(in.begin(), in.end() - 5);
    CHECK(decoded(stored(how, torn, 10000), torn, 1000, 700).code == errc::malformed_stream);
    CHECK(decoded_in_place(stored(how, torn, 10000), torn, 1000).code == errc::malformed_stream);
    in.insert(in.end(), 3, std::byte{0});
    CHECK(decoded_in_place(stored(how, in, 10000), in, 1000).code == errc::malformed_stream);
    CHECK(decoded(stored(how, in, 10000), in, 1000, 700).code == errc::malformed_stream);
    CHECK(decoded(stored(how, in, 10000), in, 1 << 20, 1 << 20).code == errc::malformed_stream);
  }
}

TEST_CASE("stream_decoder: damaged bytes are refused, or at least give no more than was said") {
  const bytes original = compressible(20000, 4);
  std::mt19937_64 random(5);
  int refused = 0;
  for (const codec how : {codec::deflate, codec::zlib, codec::zstd}) {
    const bytes whole =
        how == codec::zstd ? zstd_compressed(original) : deflated(original, how == codec::zlib);
    for (int i = 0; i < 500; ++i) {
      bytes in = whole;
      in[random() % in.size()] ^= static_cast<std::byte>(1U << random() % 8);
      const outcome done = decoded(stored(how, in, original.size()), in, 777, 4096);
      CHECK((done.code == errc::malformed_stream || done.got.size() == original.size()));
      if (done.code) ++refused;
      const outcome in_place = decoded_in_place(stored(how, in, original.size()), in, 777);
      CHECK((in_place.code == errc::malformed_stream || in_place.got == done.got));
      // The checksum of zlib detects every error.
      if (how == codec::zlib) CHECK((done.code || done.got == original));
    }
  }
  CHECK(refused > 400);
}

TEST_CASE("stream_decoder: the CRC-32 of a zip's member is compared") {
  bytes original;
  for (const char c : std::string("123456789")) original.push_back(static_cast<std::byte>(c));
  const bytes in = deflated(original, false);
  stored_stream what = stored(codec::deflate, in, original.size());
  what.crc32 = 0xCBF43926;  // The CRC's published check value.
  CHECK(decoded(what, in, 3, 2).got == original);
  what.crc32 = 0xCBF43927;
  CHECK(decoded(what, in, 3, 2).fault.find("CRC-32") != std::string::npos);
}

TEST_CASE("stream_decoder: shuffled chunks are put back, also with a part of an element left") {
  for (const std::size_t width : {2U, 3U, 4U, 8U, 16U}) {
    const bytes original = compressible(1003, width);
    const bytes in = deflated(shuffled(original, width), true);
    stored_stream what = stored(codec::zlib, in, original.size());
    what.shuffle_bytes = static_cast<std::uint8_t>(width);
    CHECK(decoded(what, in, 100, 333).got == original);
  }
}

TEST_CASE("stream_decoder: Fletcher's checksum stands behind the stored bytes") {
  for (const std::size_t count : {0U, 1U, 2U, 1001U, 70000U}) {
    bytes original = compressible(count, 6);
    if (count == 70000) std::ranges::fill(original, std::byte{0xFF});
    const std::uint32_t sum = fletcher_by_definition(original);
    const bytes in = with_sum(original, sum);
    stored_stream what = stored(codec::raw, in, count);
    what.fletcher32 = true;
    for (const std::size_t step : {1U, 3U, 100000U}) {
      CAPTURE(count);
      const outcome done = decoded(what, in, step, 1000);
      CHECK(done.fault == "");
      CHECK(done.got == original);
    }
    const bytes other = with_sum(original, sum ^ 1U);
    CHECK(decoded(what, other, 7, 1000).code == errc::malformed_stream);
  }
  const bytes one = {std::byte{1}};
  stored_stream what = stored(codec::raw, one, 1);
  what.fletcher32 = true;
  CHECK(decoded(what, one, 1, 1).code == errc::malformed_stream);
}

TEST_CASE("stream_decoder: filters of HDF5 are undone in any order, and damage is seen") {
  using kind = chain_filter::kind;
  filter_chain filters = {{kind::shuffle, 4}, {kind::zlib, 0}, {kind::fletcher32, 0}};
  const auto by_kind = [](const chain_filter& a, const chain_filter& b) {
    return a.filter < b.filter;
  };
  do {
    const bytes original = compressible(1003, 8);
    bytes in = original;
    for (const chain_filter& each : filters) {
      if (each.filter == kind::shuffle) in = shuffled(in, each.element_bytes);
      if (each.filter == kind::zlib) in = deflated(in, true);
      if (each.filter == kind::fletcher32) in = with_sum(in, fletcher_by_definition(in));
    }
    stored_stream what = stored(codec::zlib, in, original.size());
    what.chain = std::make_shared<const filter_chain>(filters);
    CHECK(decoded(what, in, 100, 333).got == original);
    CHECK(decoded(what, in, 1, 7).got == original);
    bytes broken = in;
    broken[in.size() / 2] ^= std::byte{4};
    CHECK(decoded(what, broken, 100, 333).code == errc::malformed_stream);
    stored_stream shorter = what;
    shorter.decoded_bytes -= 1;
    CHECK(decoded(shorter, in, 100, 333).code == errc::malformed_stream);
    stored_stream longer = what;
    longer.decoded_bytes += 1;
    CHECK(decoded(longer, in, 100, 333).code == errc::malformed_stream);
  } while (std::next_permutation(filters.begin(), filters.end(), by_kind));
}

TEST_CASE("zstd_frame_encoder: frames one after the other decode to the whole, at any level") {
  const bytes whole = compressible(300'000, 5);
  for (const int level : {zstd_level_min, zstd_level_default, 19}) {
    CAPTURE(level);
    const auto encoder = zstd_frame_encoder::make(level).value();
    bytes stored;
    bytes frame;
    for (std::size_t at = 0; at < whole.size(); at += 70'000) {
      const std::size_t step = std::min<std::size_t>(70'000, whole.size() - at);
      REQUIRE(encoder->encode(std::span(whole).subspan(at, step), frame).has_value());
      CHECK(::ZSTD_getFrameContentSize(frame.data(), frame.size()) == ZSTD_CONTENTSIZE_UNKNOWN);
      stored.insert(stored.end(), frame.begin(), frame.end());
    }
    CHECK(stored.size() < whole.size());
    bytes again(whole.size() + 1);
    const std::size_t n =
        ::ZSTD_decompress(again.data(), again.size(), stored.data(), stored.size());
    again.resize(whole.size());
    CHECK(n == whole.size());
    CHECK(again == whole);
  }
}

TEST_CASE("zstd_frame_encoder: no bytes are a frame of no bytes") {
  const auto encoder = zstd_frame_encoder::make(zstd_level_default).value();
  bytes frame;
  REQUIRE(encoder->encode({}, frame).has_value());
  CHECK_FALSE(frame.empty());
  CHECK(::ZSTD_decompress(nullptr, 0, frame.data(), frame.size()) == 0);
}
