// SPDX-License-Identifier: Apache-2.0

// After loads by the public API, the device has the bytes of the file. Runs on the stand-in, and on
// a GPU if the machine has one.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <future>
#include <ringload/selection.hpp>
#include <ringload/writer.hpp>
#include <vector>

#include "cuda/any_runtime.hpp"
#include "cuda/on_device.hpp"
#include "support/blocks_text.hpp"
#include "support/safetensors_text.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

std::vector<made_tensor> odd_tensors() {
  std::vector<made_tensor> all = {f32("weights", 70'001), {"none", 0}, {"one", 1}, {"odd", 777}};
  for (unsigned i = 0; i < 40; ++i) {
    all.push_back({"t" + std::to_string(i), 1 + std::uint64_t{i} * i * 97});
  }
  all.push_back({"last", 300'000});
  return all;
}

}  // namespace

TEST_CASE("cuda: tensors of any size and place in the file land as they are") {
  if (!has_device()) return;
  for (const auto engine : {read_engine::automatic, read_engine::threads}) {
    loader with(last_cuda_device(), small_options(4, engine));
    for (const std::size_t spaces : {0U, 1U, 100U, 4000U}) {
      const made_file file(odd_tensors(), spaces);
      for (const auto route : {read_route::automatic, read_route::buffered}) {
        const model loaded = get(with.load_async(file.name(), by(route), use_future));
        CHECK(first_difference_on_device(loaded) == "");
        CHECK(loaded.stats().bytes_unstaged == 0);
      }
    }
  }
}

TEST_CASE("cuda: tensors of a multiple of 256 bytes and of none are the same") {
  if (!has_device()) return;
  loader with(last_cuda_device(), small_options());
  const made_file file(equal_tensors(600, 1024));
  CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
  const made_file nothing(std::vector<made_tensor>{{"a", 0}, {"b", 0}});
  const model loaded = get(with.load_async(nothing.name(), use_future));
  CHECK(loaded.at("b").data() != nullptr);
  CHECK(loaded.at("b").size_bytes() == 0);
  CHECK(first_difference_on_device(loaded) == "");
}

TEST_CASE("cuda: thousands of small tensors land as they are") {
  if (!has_device()) return;
  loader with(last_cuda_device(), small_options());
  const made_file file(equal_tensors(3000, 100));
  CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
}

TEST_CASE("cuda: slots that are larger than a copy may be") {
  if (!has_device()) return;
  loader_options within = small_options(2);
  within.slot_bytes = std::uint64_t{32} << 20;
  loader with(last_cuda_device(), within);
  const made_file file(only("large", std::uint64_t{40} << 20));
  CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
}

TEST_CASE("cuda: loads side by side share the slots and keep their bytes apart") {
  if (!has_device()) return;
  loader with(last_cuda_device(), small_options(3));
  const made_file file(odd_tensors());
  const made_file other(made_file::as_it_is::text,
                        checkpoint_text(equal_tensors(9, 100'000), 5, 77));
  std::vector<std::future<model>> loads;
  for (int i = 0; i < 6; ++i) {
    loads.push_back(with.load_async((i % 2 == 0 ? file : other).name(), use_future));
  }
  for (auto& each : loads) CHECK(first_difference_on_device(get(std::move(each))) == "");
}

TEST_CASE("cuda: a tensor that is awaited is there when it is given") {
  if (!has_device()) return;
  loader with(last_cuda_device(), small_options(2));
  const made_file file(equal_tensors(20, 100'000));
  load_operation load = get(with.start_async(file.name(), use_future));
  const catalog& in = load.catalog();
  const tensor last = get(load.tensor_async("t19", use_future));
  CHECK(difference_on_device(last, in.tensors[19], in) == "");
  std::size_t count = 0;
  for (auto next = get(load.next_async(use_future)); next;
       next = get(load.next_async(use_future))) {
    count += 1;
    const auto at = std::stoul(std::string(next->name().substr(1)));
    CHECK(difference_on_device(*next, in.tensors[at], in) == "");
  }
  CHECK(count == 20);
  CHECK(first_difference_on_device(get(load.finish_async(use_future))) == "");
}

TEST_CASE("cuda: part of a tensor can be read back") {
  if (!has_device()) return;
  loader with(last_cuda_device(), small_options());
  const made_file file(only("a", 1000));
  const model loaded = get(with.load_async(file.name(), use_future));
  const std::string whole = bytes_on_device(loaded.at("a"));
  std::string part(10, '\0');
  copy_to_host(loaded.at("a"), 990, std::as_writable_bytes(std::span(part)));
  CHECK(part == whole.substr(990));
}

TEST_CASE("cuda: tensors are checked on the device, and one that differs fails the load") {
  if (!has_device()) return;
  const made_file file({f32("weights", 70'001), {"none", 0}, {"odd", 777}, {"last", 3'000'000}});
  checksum_list m;
  const catalog what = read_catalog(file.name());
  for (const tensor_info& t : what.tensors) {
    const std::string bytes = file_bytes(file.name(), t.offset, t.bytes);
    const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
    tensor_digest one;
    one.name = t.name;
    one.algorithm = digest_algorithm::crc32c;
    for (int shift = 24; shift >= 0; shift -= 8) {
      one.bytes.push_back(static_cast<std::byte>(crc >> shift));
    }
    m.tensors.push_back(std::move(one));
  }
  load_options how;
  how.verify = &m;
  loader with(last_cuda_device(), small_options());
  const model loaded = get(with.load_async(file.name(), how, use_future));
  CHECK(first_difference_on_device(loaded) == "");
  CHECK(loaded.stats().bytes_verified == what.size_bytes());

  m.tensors[3].bytes[0] ^= std::byte{1};
  const auto failed = failure_of(with.load_async(file.name(), how, use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::wrong_digest);
  CHECK(holds(failed->what(), "tensor 'last'"));
}

namespace {

// A checkpoint has the same tensors on the device and on the host.
void check_same_as_host(const std::string& path, const selection& wanted = {},
                        const load_options& how = {}) {
  CAPTURE(path);
  loader into_host(host(), small_options());
  loader into_device(last_cuda_device(), small_options());
  const model reference = get(into_host.load_async(path, selecting(wanted, how), use_future));
  const model loaded = get(into_device.load_async(path, selecting(wanted, how), use_future));
  REQUIRE(loaded.size() == reference.size());
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    CAPTURE(std::string(reference[i].name()));
    CHECK(loaded[i].dtype() == reference[i].dtype());
    CHECK(std::ranges::equal(loaded[i].shape(), reference[i].shape()));
    CHECK((bytes_on_device(loaded[i]) == testing::bytes_of(reference[i])));
  }
}

std::string data_file(const char* name) { return std::string(RINGLOAD_TEST_DATA_DIR) + "/" + name; }

}  // namespace

TEST_CASE("cuda: slices along any dimension land as they do in the host's memory") {
  if (!has_device()) return;
  begin_afresh();
  const temporary_folder folder;
  const std::string path = (folder.path() / "m.safetensors").string();
  const std::string header = header_text({tensor_text("w", "F32", "60,70,50", 0, 840'000),
                                          tensor_text("h", "BF16", "333,500", 840'000, 1'173'000)});
  write_file(path, safetensors_text(header, noise(1'173'000, 5)));
  check_same_as_host(path, select().slice("w", 2, 7, 30));
  check_same_as_host(path, select().slice("w", 1, 13, 21).slice("w", 2, 49, 1));
  check_same_as_host(path, select().slice("w", 0, 5, 9).slice("w", 1, 1, 3).slice("w", 2, 2, 40));
  check_same_as_host(path, select().names({"w", "h"}).shard("*", 1, 1, 3));
  load_options narrow;
  narrow.dtype = dtype::f16;
  check_same_as_host(path, select().slice("w", 2, 7, 30).slice("h", 1, 9, 99), narrow);
}

TEST_CASE("cuda: Fortran order, big-endian numbers and strided views land as on the host") {
  if (!has_device()) return;
  begin_afresh();
  // On the stand-in, a copy destroys its source, including gaps. Therefore compressed tensors must
  // not share a read with other tensors.
  for (const char* const name :
       {"numpy/fortran.npy", "numpy/big_endian.npy", "numpy/stored.npz", "numpy/deflated.npz",
        "torch/big_endian.pt", "gguf/plain_be.gguf"}) {
    check_same_as_host(data_file(name));
  }
}

TEST_CASE(
    "cuda: blocks are dequantised on the device to what the host makes of them, in parts too") {
  if (!has_device()) return;
  begin_afresh();
  const temporary_folder folder;
  const std::string path = (folder.path() / "blocks.gguf").string();
  write_file(path, blocks_text().file());
  for (const dtype to : {dtype::f32, dtype::f16, dtype::bf16}) {
    load_options how;
    how.dtype = to;
    check_same_as_host(data_file("gguf/blocks.gguf"), {}, how);
    check_same_as_host(data_file("gguf/wild_blocks.gguf"), {}, how);
    check_same_as_host(path, {}, how);
    check_same_as_host(path, select().matching("q*").shard("*", 1, 1, 2), how);
    check_same_as_host(path, select().slice("q4_k", 2, 256, 512).slice("q5_0", 2, 32, 64), how);
  }
}

TEST_CASE("cuda: digests that a file holds are compared, of what is decoded and what is not") {
  if (!has_device()) return;
  begin_afresh();
  load_options how;
  how.verify = embedded_digests::if_present;
  how.verify.sha256 = [] {
    hasher one;
    one.update = [](std::span<const std::byte>) {};
    one.finish = [] { return std::vector<std::byte>(32); };
    return one;
  };
  loader with(last_cuda_device(), small_options());
  const std::string path = data_file("zt/all.zt");
  const selection by_crc = select().matching("*_crc");
  const model loaded = get(with.load_async(path, selecting(by_crc, how), use_future));
  CHECK(loaded.stats().bytes_verified == loaded.catalog().size_bytes());
  CHECK(code_of(with.load_async(path, selecting(select().matching("hashed"), how), use_future)) ==
        errc::wrong_digest);
}

TEST_CASE("cuda: what was loaded is saved as it was, turned and converted too") {
  if (!has_device()) return;
  const made_file file(odd_tensors(), 3);
  const temporary_folder folder;
  const std::string path = (folder.path() / "saved.safetensors").string();
  loader with(last_cuda_device(), small_options(4));
  loader on_host(host(), small_options(4));
  const model loaded = get(with.load_async(file.name(), use_future));
  const model same = get(on_host.load_async(file.name(), use_future));
  const auto save_and_load = [&](loader& by, std::vector<tensor_ref> tensors, save_options how) {
    get(by.save_async(path, std::move(tensors), std::move(how), use_future));
    return get(on_host.load_async(path, use_future));
  };
  save_options how;
  how.read_back = true;
  how.digest = digest_algorithm::crc32c;
  const model again = save_and_load(with, refs_of(loaded), how);
  REQUIRE(again.size() == same.size());
  for (const tensor& one : same) {
    const bool equal = bytes_of(again.at(one.name())) == bytes_of(one);
    CHECK(equal);
  }
  // All of the 70,001 elements except the last one, as a matrix.
  const auto turned = [](const tensor& of) {
    tensor_ref view(of);
    view.shape = {700, 100};
    view.strides = {1, 700};
    return view;
  };
  how.dtype = dtype::f16;
  const model from_device = save_and_load(with, {turned(loaded.at("weights"))}, how);
  const std::string wanted(bytes_of(from_device.at("weights")));
  const model from_host = save_and_load(on_host, {turned(same.at("weights"))}, how);
  const bool equal = bytes_of(from_host.at("weights")) == wanted;
  CHECK(equal);
}

TEST_CASE("cuda: what was loaded becomes one .zt file, by a save and by a writer") {
  if (!has_device()) return;
  const made_file file(odd_tensors(), 3);
  const temporary_folder folder;
  const std::string saved_path = (folder.path() / "saved.zt").string();
  const std::string written_path = (folder.path() / "written.zt").string();
  loader with(last_cuda_device(), small_options(4));
  loader on_host(host(), small_options(4));
  const model loaded = get(with.load_async(file.name(), use_future));
  const model same = get(on_host.load_async(file.name(), use_future));
  std::vector<tensor_ref> tensors = refs_of(loaded);
  tensors.emplace_back("again", loaded.at("weights"));
  get(with.save_async(saved_path, tensors, use_future));
  writer out(written_path);
  for (const tensor_ref& each : refs_of(loaded)) get(out.add_async(each, use_future));
  get(out.add_alias_async("again", "weights", use_future));
  get(out.finish_async(use_future));
  const auto text = [](const std::string& path) {
    return file_bytes(path, 0, std::filesystem::file_size(path));
  };
  CHECK(text(saved_path) == text(written_path));
  const model again = get(on_host.load_async(saved_path, use_future));
  REQUIRE(again.size() == same.size() + 1);
  for (const tensor& one : same) {
    const bool equal = bytes_of(again.at(one.name())) == bytes_of(one);
    CHECK(equal);
  }
  const bool equal = bytes_of(again.at("again")) == bytes_of(same.at("weights"));
  CHECK(equal);
}
