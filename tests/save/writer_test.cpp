// SPDX-License-Identifier: Apache-2.0

// ringload::writer: the content of a new file.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <numeric>
#include <random>
#include <span>

#include "support/distant_device.hpp"
#include "support/temporary_folder.hpp"
#include "support/written_file.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace writer_tests {

struct place {
  temporary_folder folder;
  std::string path = (folder.path() / "out.zt").string();
  std::size_t files() const {
    const auto all = std::filesystem::directory_iterator(folder.path());
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
};

std::string zeros_view_bytes(std::size_t bytes) { return std::string(bytes, '\0'); }

}  // namespace writer_tests

TEST_CASE("writer: a file without tensors has 48 bytes") {
  const writer_tests::place at;
  writer out(at.path);
  CHECK(finish(out).bytes == 48);
  CHECK(file_text(at.path).size() == 48);
  CHECK(loaded_bytes(at.path).empty());
}

TEST_CASE("writer: an assigned writer completes its steps in the executor of its options") {
  const writer_tests::place at;
  asio::io_context context;
  writer_options options;
  options.executor = context.get_executor();
  writer out;
  out = writer(at.path, options);
  CHECK(out.get_executor() == options.executor);
  int calls = 0;
  out.finish_async([&](boost::system::error_code failed, const write_result& written) {
    CHECK(!failed);
    CHECK(written.bytes == 48);
    ++calls;
  });
  context.run();
  CHECK(calls == 1);
}

TEST_CASE("writer: tensors of all types and sizes, raw and packed, come back") {
  const writer_tests::place at;
  std::mt19937_64 random(7);
  std::map<std::string, std::string> expected;
  {
    writer_options how;
    how.zstd_threads = 3;
    writer out(at.path, how);
    for (unsigned i = 0; i < 60; ++i) {
      const auto type = static_cast<dtype>(random() % dtype_count);
      if (bits(type) < 8) continue;
      const std::uint64_t sizes[] = {0, 1, 7, 4096, 100'001};
      const tensor_ref view =
          noise_view("t" + std::to_string(i), type, {sizes[random() % 5], 1 + random() % 3}, i);
      const std::optional<digest_algorithm> digest =
          random() % 2 == 0 ? std::optional(digest_algorithm::crc32c) : std::nullopt;
      add(out, view, packed(static_cast<int>(random() % 3), digest));
      expected[view.name] = text_of(view);
    }
    const write_result done = finish(out);
    CHECK(done.bytes == std::filesystem::file_size(at.path));
  }
  CHECK(loaded_bytes(at.path) == expected);
}

TEST_CASE("writer: many blocks and frames, in the order of adding") {
  const writer_tests::place at;
  const tensor_ref raw = noise_view("raw", dtype::u8, {11'000'003}, 3);
  tensor_ref flat("flat", nullptr, dtype::f32, {2'500'000});
  const auto memory = std::make_shared<std::string>(writer_tests::zeros_view_bytes(10'000'000));
  flat.data = memory->data();
  flat.owner = memory;
  writer out(at.path);
  auto first = out.add_async(flat, packed(1), use_future);
  auto second = out.add_async(raw, use_future);
  auto third =
      out.add_async(tensor_ref(noise_view("tail", dtype::u16, {5})), packed(1), use_future);
  get(std::move(first));
  get(std::move(second));
  get(std::move(third));
  const write_result done = finish(out);
  CHECK(done.bytes < 11'100'000);
  const catalog found = read_catalog(at.path);
  CHECK(found.tensors.at(0).name == "flat");
  CHECK(found.tensors.at(0).encoding == "zstd");
  CHECK(found.tensors.at(1).name == "raw");
  const auto bytes = loaded_bytes(at.path);
  CHECK(bytes.at("raw") == text_of(raw));
  CHECK(bytes.at("flat") == *memory);
}

TEST_CASE("writer: the bytes of a file do not depend on the number of threads") {
  std::string files[2];
  for (unsigned threads : {1U, 4U}) {
    writer_options how;
    how.zstd_threads = threads;
    writer out = writer::in_memory(how);
    for (unsigned i = 0; i < 9; ++i) {
      add(out, noise_view("t" + std::to_string(i), dtype::u8, {1'000'000}, i), packed(2));
    }
    const write_result done = finish(out);
    CHECK(done.file.size() == done.bytes);
    files[threads / 4].assign(reinterpret_cast<const char*>(done.file.data()), done.file.size());
  }
  CHECK(files[0] == files[1]);
}

TEST_CASE("writer: a strided view is written row-major") {
  const writer_tests::place at;
  std::vector<std::uint16_t> memory(12);
  std::iota(memory.begin(), memory.end(), std::uint16_t{0});
  tensor_ref view("t", memory.data(), dtype::u16, {4, 3});
  view.strides = {1, 4};
  writer out(at.path);
  add(out, view);
  finish(out);
  loader with(host(), small_options());
  const model all = get(with.load_async(at.path, use_future));
  const auto values = all.at("t").as<std::uint16_t>();
  CHECK(std::vector<std::uint16_t>(values.begin(), values.end()) ==
        std::vector<std::uint16_t>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
}

TEST_CASE("writer: sparse objects, attributes, and a second name for the same bytes") {
  const writer_tests::place at;
  const std::uint64_t indices[] = {0, 3, 1};
  const std::uint64_t indptr[] = {0, 2, 3};
  const tensor_ref dense = noise_view("dense", dtype::bf16, {3, 4});
  writer out(at.path);
  object_info csr;
  csr.name = "s";
  csr.layout = "sparse_csr";
  csr.shape = {2, 4};
  csr.attributes = {{"k", 5}};
  get(out.declare_async(csr, use_future));
  const auto part = [&](tensor_ref view) {
    return get(out.add_part_async("s", std::move(view), packed(3), use_future));
  };
  part(noise_view("values", dtype::f32, {3}));
  part(tensor_ref("indices", indices, dtype::u64, {3}));
  part(tensor_ref("indptr", indptr, dtype::u64, {3}));
  add(out, dense, packed(3));
  get(out.add_alias_async("again", "dense", use_future));
  get(out.set_attribute_async("model", "tiny", use_future));
  finish(out);
  const catalog found = read_catalog(at.path);
  REQUIRE(found.composites.size() == 1);
  CHECK(found.composites[0].layout == "sparse_csr");
  CHECK(found.metadata == decltype(found.metadata){{"model", "tiny"}});
  const auto bytes = loaded_bytes(at.path);
  CHECK(bytes.size() == 5);
  CHECK(bytes.at("again") == text_of(dense));
  std::uint64_t offsets[2] = {};
  for (const tensor_info& each : found.tensors) {
    if (each.name == "again") offsets[0] = each.offset;
    if (each.name == "dense") offsets[1] = each.offset;
  }
  CHECK(offsets[0] == offsets[1]);
}

TEST_CASE("first_of_same: the same memory, type, shape and strides; never what is empty") {
  std::vector<float> words(12);
  const auto view = [&](std::size_t first, std::vector<std::uint64_t> shape, dtype type) {
    return tensor_ref("t", &words[first], type, std::move(shape));
  };
  const std::vector<std::uint64_t> square = {3, 4};
  tensor_ref turned = view(0, {4, 3}, dtype::f32);
  turned.strides = {1, 4};
  const std::vector<tensor_ref> all = {view(0, square, dtype::f32),
                                       view(0, square, dtype::f32),
                                       view(0, square, dtype::i32),
                                       view(0, {4, 3}, dtype::f32),
                                       turned,
                                       view(4, {4}, dtype::f32),
                                       view(0, {0, 4}, dtype::f32),
                                       view(0, {0, 4}, dtype::f32),
                                       turned,
                                       view(0, square, dtype::f32)};
  CHECK(first_of_same(all) == std::vector<std::size_t>{0, 0, 2, 3, 4, 5, 6, 7, 4, 0});
  CHECK(first_of_same({}).empty());
}

TEST_CASE("writer: parts that do not fit each other are refused at the end, and nothing appears") {
  const writer_tests::place at;
  writer out(at.path);
  object_info coo;
  coo.name = "s";
  coo.layout = "sparse_coo";
  coo.shape = {2, 4};
  get(out.declare_async(coo, use_future));
  get(out.add_part_async("s", noise_view("values", dtype::f32, {3}), object_options(), use_future));
  CHECK(code_of_call([&] { finish(out); }) == errc::malformed_header);
  CHECK(at.files() == 0);
}

TEST_CASE("writer: tensors begin where they are wanted") {
  const writer_tests::place at;
  writer_options how;
  how.alignment = 4096;
  writer out(at.path, how);
  add(out, noise_view("a", dtype::u8, {5}));
  add(out, noise_view("b", dtype::u8, {5}));
  finish(out);
  for (const tensor_info& each : read_catalog(at.path).tensors) CHECK(each.offset % 4096 == 0);
  how.alignment = 32;
  CHECK(code_of_call([&] { writer(at.path, how); }) == errc::invalid_saving);
}

TEST_CASE("writer: a step that is refused leaves the file as it was, and the next may succeed") {
  const writer_tests::place at;
  writer out(at.path);
  const tensor_ref a = noise_view("a", dtype::u8, {5});
  add(out, a, packed(1));
  const auto refused = [&](const tensor_ref& what, object_options how = {}) {
    return code_of_call([&] { add(out, what, std::move(how)); });
  };
  CHECK(refused(a) == errc::duplicate_tensor);
  CHECK(refused(noise_view("b", dtype::u8, {5}), packed(30)) == errc::invalid_saving);
  CHECK(refused(noise_view("b", dtype::u8, {5}), packed(0, digest_algorithm::sha256)) ==
        errc::digest_unavailable);
  CHECK(refused(noise_view("\xFF", dtype::u8, {5})) == errc::header_not_utf8);
  tensor_ref small = noise_view("b", dtype::u8, {5});
  small.bytes = 4;
  CHECK(refused(small) == errc::invalid_tensor);
  object_options wrong;
  wrong.type = "complex64";
  CHECK(refused(noise_view("b", dtype::u8, {8}), wrong) == errc::malformed_header);
  wrong = {};
  wrong.attributes = {{"\xFF", 1}};
  CHECK(refused(noise_view("b", dtype::u8, {5}), wrong) == errc::header_not_utf8);
  wrong.attributes = {{"key", 1}, {"other", 2}, {"key", 1}};
  CHECK(refused(noise_view("b", dtype::u8, {5}), wrong) == errc::invalid_saving);
  const auto alias = [&](const char* name, const char* of) {
    return code_of_call([&] { get(out.add_alias_async(name, of, use_future)); });
  };
  CHECK(alias("a", "a") == errc::duplicate_tensor);
  CHECK(alias("b", "nobody") == errc::no_such_tensor);
  const auto replaced = [&](const tensor_ref& by) {
    return code_of_call([&] { get(out.replace_async(by, use_future)); });
  };
  CHECK(replaced(a) == errc::unsupported_feature);
  CHECK(replaced(noise_view("nobody", dtype::u8, {5})) == errc::no_such_tensor);
  const auto copied = [&](const std::string& file) {
    return code_of_call([&] { get(out.copy_async(file, nullptr, copy_options(), use_future)); });
  };
  CHECK(copied(at.path + ".none") == boost::system::errc::no_such_file_or_directory);
  const tensor_ref b = noise_view("b", dtype::u8, {5}, 2);
  add(out, b);
  const write_result done = finish(out);
  CHECK(done.writes > 0);
  CHECK(done.seconds > 0);
  CHECK(loaded_bytes(at.path) ==
        std::map<std::string, std::string>{{"a", text_of(a)}, {"b", text_of(b)}});
}

TEST_CASE("writer: objects are copied all or none if a name is there already") {
  const writer_tests::place at;
  const std::string from = at.path + ".from.zt";
  writer first(from);
  add(first, noise_view("a", dtype::u8, {5}));
  add(first, noise_view("z", dtype::u8, {5}));
  finish(first);
  writer out(at.path);
  add(out, noise_view("z", dtype::u8, {5}));
  const auto copied = [&](std::function<bool(std::string_view)> chosen) {
    return code_of_call(
        [&] { get(out.copy_async(from, std::move(chosen), copy_options(), use_future)); });
  };
  CHECK(copied(nullptr) == errc::duplicate_tensor);
  CHECK_FALSE(copied([](std::string_view name) { return name == "a"; }));
  finish(out);
  CHECK(loaded_bytes(at.path).size() == 2);
}

TEST_CASE("writer: what it cannot write is refused by name") {
  const writer_tests::place at;
  const auto refused = [&](tensor_ref what, object_options how = {}) {
    writer out(at.path);
    return code_of_call([&] { add(out, std::move(what), std::move(how)); });
  };
  CHECK(refused(tensor_ref("t", nullptr, dtype::u8, {5})) == errc::invalid_tensor);
  CHECK(refused(tensor_ref("t", "x", dtype::f4, {2})) == errc::unsupported_dtype);
  CHECK(refused(noise_view("t", dtype::u8, {5}), packed(23)) == errc::invalid_saving);
  CHECK(refused(noise_view("t", dtype::u8, {5}), packed(0, digest_algorithm::sha256)) ==
        errc::digest_unavailable);
  CHECK(refused(noise_view("\xFF", dtype::u8, {5})) == errc::header_not_utf8);
  tensor_ref small = noise_view("t", dtype::u8, {5});
  small.bytes = 4;
  CHECK(refused(small) == errc::invalid_tensor);
  CHECK(at.files() == 0);
}

TEST_CASE("writer: a file that is there stays, unless it may be replaced") {
  const writer_tests::place at;
  write_file(at.path, "before");
  writer_options how;
  how.replace = false;
  const auto exists = boost::system::error_code(EEXIST, boost::system::system_category());
  CHECK(code_of_call([&] { writer(at.path, how); }) == exists);
  std::filesystem::remove(at.path);
  writer late(at.path, how);
  write_file(at.path, "before");
  CHECK(code_of_call([&] { finish(late); }) == exists);
  CHECK(file_text(at.path) == "before");
  writer over(at.path);
  add(over, noise_view("a", dtype::u8, {5}));
  CHECK(file_text(at.path) == "before");
  finish(over);
  CHECK(loaded_bytes(at.path).size() == 1);
  CHECK(at.files() == 1);
}

TEST_CASE("writer: one that is dropped, or cancelled, leaves what was there") {
  const writer_tests::place at;
  write_file(at.path, "before");
  {
    writer dropped(at.path);
    dropped.add_async(noise_view("a", dtype::u8, {20'000'000}), [](auto&&, auto) {});
  }
  CHECK(file_text(at.path) == "before");
  // The hash of the first bytes waits for the cancellation.
  std::promise<void> begun;
  std::promise<void> emitted;
  writer_options how;
  how.sha256 = [&] {
    hasher one;
    one.update = [&, waited = false](std::span<const std::byte>) mutable {
      if (std::exchange(waited, true)) return;
      begun.set_value();
      get(emitted.get_future());
    };
    one.finish = [] { return std::vector<std::byte>(32); };
    return one;
  };
  writer out(at.path, how);
  asio::cancellation_signal stop;
  std::promise<boost::system::error_code> ended;
  out.add_async(noise_view("b", dtype::u8, {9'000'000}), packed(0, digest_algorithm::sha256),
                asio::bind_cancellation_slot(stop.slot(), [&](boost::system::error_code failed,
                                                              auto) { ended.set_value(failed); }));
  get(begun.get_future());
  stop.emit(asio::cancellation_type::terminal);
  emitted.set_value();
  CHECK(get(ended.get_future()) == asio::error::operation_aborted);
  CHECK(code_of_call([&] { finish(out); }) == asio::error::operation_aborted);
  CHECK(file_text(at.path) == "before");
  CHECK(at.files() == 1);
}

TEST_CASE("writer: a writer that is assigned has the executor of its source") {
  const writer_tests::place at;
  asio::io_context context;
  writer_options options;
  options.executor = context.get_executor();
  writer out;
  out = writer(at.path, options);
  CHECK(out.get_executor() == asio::any_io_executor(context.get_executor()));
  int calls = 0;
  out.add_async(noise_view("a", dtype::u8, {5}), [&](boost::system::error_code failed, auto) {
    CHECK_FALSE(failed);
    ++calls;
  });
  context.run_for(patience);
  CHECK(calls == 1);
}

TEST_CASE("writer: digests for a checksum list are of the tensors' own bytes") {
  const writer_tests::place at;
  writer_options how;
  how.result_digest = digest_algorithm::crc32c;
  writer out(at.path, how);
  const tensor_ref view = noise_view("t", dtype::f32, {3'000'000});
  add(out, view, packed(1, digest_algorithm::crc32c));
  const write_result done = finish(out);
  REQUIRE(done.digests.size() == 1);
  checksum_list listed;
  listed.tensors = done.digests;
  load_options checked;
  checked.verify = &listed;
  loader with(host(), small_options());
  CHECK(get(with.load_async(at.path, checked, use_future)).size() == 1);
}

TEST_CASE("writer: a safetensors file, in the order that was planned") {
  const writer_tests::place at;
  const std::string path = at.path + ".safetensors";
  const tensor_ref a = noise_view("a", dtype::f32, {1'500'000});
  const tensor_ref b = noise_view("b", dtype::u8, {3});
  const std::vector<planned_tensor> plan = {{"a", a.dtype, a.shape}, {"b", b.dtype, b.shape}};
  writer out(path, plan, {{"k", "v"}});
  add(out, a);
  add(out, b);
  const write_result done = finish(out);
  CHECK(done.bytes == std::filesystem::file_size(path));
  const auto bytes = loaded_bytes(path);
  CHECK(bytes.at("a") == text_of(a));
  CHECK(bytes.at("b") == text_of(b));
  CHECK(read_catalog(path).metadata == decltype(catalog().metadata){{"k", "v"}});

  const auto refused = [&](const tensor_ref& what, object_options how = {}) {
    writer again(path, plan, {});
    return code_of_call([&] { add(again, what, std::move(how)); });
  };
  CHECK(refused(b) == errc::unexpected_tensor);
  CHECK(refused(noise_view("a", dtype::f32, {7})) == errc::wrong_shape);
  CHECK(refused(noise_view("a", dtype::i32, {1'500'000})) == errc::wrong_dtype);
  CHECK(refused(a, packed(1)) == errc::unsupported_feature);
  writer early(path, plan, {});
  add(early, a);
  CHECK(code_of_call([&] { finish(early); }) == errc::missing_tensor);
  CHECK(loaded_bytes(path) == bytes);
}

TEST_CASE("writer: in memory a file has the bytes that it has on a drive") {
  const writer_tests::place at;
  const tensor_ref a = noise_view("a", dtype::f32, {1'500'000});
  const tensor_ref b = noise_view("b", dtype::u8, {3});
  const std::vector<planned_tensor> plan = {{"a", a.dtype, a.shape}, {"b", b.dtype, b.shape}};
  const auto fill = [&](writer to) {
    add(to, a);
    add(to, b);
    return finish(to);
  };
  const auto same = [&](const write_result& in_memory, const std::string& path) {
    const std::string there = file_text(path);
    return in_memory.bytes == there.size() &&
           std::ranges::equal(in_memory.file, std::as_bytes(std::span<const char>(there)));
  };
  const std::string path = at.path + ".safetensors";
  fill(writer(path, plan, {{"k", "v"}}));
  CHECK(same(fill(writer::in_memory(plan, {{"k", "v"}})), path));
  fill(writer(at.path));
  CHECK(same(fill(writer::in_memory()), at.path));
}

TEST_CASE("writer: tensors of another device are copied to the host, strided ones too") {
  const writer_tests::place at;
  tensor_ref rows = noise_view("rows", dtype::f32, {700, 2000});
  tensor_ref columns = noise_view("columns", dtype::u16, {300, 900});
  columns.strides = {1, 300};
  const auto fill = [&](const std::string& path, bool distant) {
    writer out(path);
    for (tensor_ref view : {rows, columns}) {
      if (distant) {
        view.data = on_distant(view.data);
        view.device = distant_device();
      }
      add(out, view, packed(view.name == "rows" ? 0 : 1, digest_algorithm::crc32c));
    }
    finish(out);
    return file_text(path);
  };
  const int before = copies_to_host;
  CHECK(fill(at.path, true) == fill(at.path + "2", false));
  CHECK(copies_to_host > before);
  writer out(at.path);
  rows.data = on_distant(rows.data);
  rows.device = distant_device();
  copies_until_failure = 1;
  CHECK(code_of_call([&] { add(out, rows); }) == errc::device_unavailable);
  copies_until_failure = -1;
}

TEST_CASE("writer: a file that could not be read is not published") {
  const std::string long_text((std::size_t{9} << 20) + 1, 'x');
  const writer_tests::place at;
  writer with_attribute(at.path);
  get(with_attribute.set_attribute_async("a", long_text, use_future));
  get(with_attribute.set_attribute_async("b", long_text, use_future));
  CHECK(code_of_call([&] { finish(with_attribute); }) == errc::header_too_large);
  writer with_name(at.path);
  get(with_name.add_async(noise_view("a" + long_text, dtype::u8, {1}), use_future));
  get(with_name.add_async(noise_view("b" + long_text, dtype::u8, {1}), use_future));
  CHECK(code_of_call([&] { finish(with_name); }) == errc::header_too_large);
  CHECK(at.files() == 0);
}
