// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <cstring>
#include <ringload/dlpack.hpp>
#include <ringload/loader.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

model loaded_from(const std::string& text) {
  const made_file file(made_file::as_it_is::text, text);
  loader with(host(), small_options());
  return get(with.load_async(file.name(), use_future));
}

std::vector<std::int64_t> of(const std::int64_t* at, std::int32_t ndim) { return {at, at + ndim}; }

using sizes = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("dlpack: shape and strides are row-major, in elements") {
  const model loaded = loaded_from(safetensors_text(
      header_text({tensor_text("a", "F32", "2,3,4", 0, 96), tensor_text("b", "BF16", "", 96, 98),
                   tensor_text("c", "I64", "5,0,7", 98, 98)}),
      noise(98, 1)));
  dlpack::managed_tensor_versioned* a = to_dlpack(loaded.at("a"));
  CHECK(a->version.major == 1);
  CHECK(a->flags == 0);
  CHECK(a->dl_tensor.ndim == 3);
  CHECK(of(a->dl_tensor.shape, 3) == sizes{2, 3, 4});
  CHECK(of(a->dl_tensor.strides, 3) == sizes{12, 4, 1});
  CHECK(a->dl_tensor.data == loaded.at("a").data());
  CHECK(a->dl_tensor.byte_offset == 0);
  CHECK(a->dl_tensor.device.type == dlpack::device_type::cpu);
  CHECK(a->dl_tensor.device.id == 0);
  a->deleter(a);

  dlpack::managed_tensor* b = to_legacy_dlpack(loaded.at("b"));
  CHECK(b->dl_tensor.ndim == 0);
  CHECK(b->dl_tensor.shape != nullptr);
  CHECK(b->dl_tensor.strides != nullptr);
  CHECK(b->dl_tensor.dtype.code == dlpack::type_code::bfloat);
  b->deleter(b);

  dlpack::managed_tensor_versioned* c = to_dlpack(loaded.at("c"));
  CHECK(c->dl_tensor.data == nullptr);
  CHECK(of(c->dl_tensor.shape, 3) == sizes{5, 0, 7});
  CHECK(c->dl_tensor.strides != nullptr);
  c->deleter(c);
}

TEST_CASE("dlpack: F4 is exported in pairs, as PyTorch has it: 2 lanes and half the columns") {
  const model loaded = loaded_from(safetensors_text(
      header_text({tensor_text("a", "F4", "3,2,6", 0, 18), tensor_text("b", "F4", "4,0", 18, 18),
                   tensor_text("c", "F4", "2,3", 18, 21)}),
      noise(21, 1)));
  dlpack::managed_tensor_versioned* a = to_dlpack(loaded.at("a"));
  CHECK(a->dl_tensor.dtype.code == dlpack::type_code::float4_e2m1fn);
  CHECK(a->dl_tensor.dtype.bits == 4);
  CHECK(a->dl_tensor.dtype.lanes == 2);
  CHECK(of(a->dl_tensor.shape, 3) == sizes{3, 2, 3});
  CHECK(of(a->dl_tensor.strides, 3) == sizes{6, 3, 1});
  a->deleter(a);

  dlpack::managed_tensor* b = to_legacy_dlpack(loaded.at("b"));
  CHECK(b->dl_tensor.dtype.lanes == 2);
  CHECK(of(b->dl_tensor.shape, 2) == sizes{4, 0});
  b->deleter(b);

  // A pair would span two rows, so the elements are exported one by one.
  dlpack::managed_tensor_versioned* c = to_dlpack(loaded.at("c"));
  CHECK(c->dl_tensor.dtype.bits == 4);
  CHECK(c->dl_tensor.dtype.lanes == 1);
  CHECK(of(c->dl_tensor.shape, 2) == sizes{2, 3});
  CHECK(of(c->dl_tensor.strides, 2) == sizes{3, 1});
  c->deleter(c);
}

TEST_CASE("dlpack: the memory stays until the deleter was called, in whatever thread") {
  dlpack::managed_tensor_versioned* a = nullptr;
  dlpack::managed_tensor* b = nullptr;
  const std::string data = noise(5000, 3);
  {
    const model loaded = loaded_from(one_tensor_text("a", data));
    a = to_dlpack(loaded.at("a"));
    b = to_legacy_dlpack(loaded.at("a"));
  }
  CHECK(std::memcmp(a->dl_tensor.data, data.data(), data.size()) == 0);
  a->deleter(a);
  CHECK(std::memcmp(b->dl_tensor.data, data.data(), data.size()) == 0);
  std::thread([b] { b->deleter(b); }).join();
}

TEST_CASE("dlpack: a dimension of more than 63 bits is refused") {
  const model loaded = loaded_from(
      safetensors_text(header_text({tensor_text("a", "U8", "0,18446744073709551615", 0, 0)})));
  try {
    dlpack::managed_tensor* never = to_legacy_dlpack(loaded.at("a"));
    never->deleter(never);
    FAIL("it was exported");
  } catch (const error& e) {
    CHECK(e.code() == errc::size_overflow);
  }
}

TEST_CASE("dlpack: each element type has DLPack's own code") {
  const auto is = [](dtype type, int code, int bits) {
    const dlpack::data_type t = dlpack::type_of(type);
    return static_cast<int>(t.code) == code && t.bits == bits && t.lanes == 1;
  };
  CHECK(is(dtype::boolean, 6, 8));
  CHECK(is(dtype::f4, 17, 4));
  CHECK(is(dtype::f6_e2m3, 15, 6));
  CHECK(is(dtype::f6_e3m2, 16, 6));
  CHECK(is(dtype::u8, 1, 8));
  CHECK(is(dtype::i8, 0, 8));
  CHECK(is(dtype::f8_e5m2, 12, 8));
  CHECK(is(dtype::f8_e4m3fn, 10, 8));
  CHECK(is(dtype::f8_e8m0, 14, 8));
  CHECK(is(dtype::f8_e4m3fnuz, 11, 8));
  CHECK(is(dtype::f8_e5m2fnuz, 13, 8));
  CHECK(is(dtype::i16, 0, 16));
  CHECK(is(dtype::u16, 1, 16));
  CHECK(is(dtype::f16, 2, 16));
  CHECK(is(dtype::bf16, 4, 16));
  CHECK(is(dtype::i32, 0, 32));
  CHECK(is(dtype::u32, 1, 32));
  CHECK(is(dtype::f32, 2, 32));
  CHECK(is(dtype::c64, 5, 64));
  CHECK(is(dtype::f64, 2, 64));
  CHECK(is(dtype::i64, 0, 64));
  CHECK(is(dtype::u64, 1, 64));
}
