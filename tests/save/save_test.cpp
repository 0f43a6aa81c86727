// SPDX-License-Identifier: Apache-2.0

// Saves of tensors in any memory with every way of writing. Every byte is compared.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>
#include <ringload/ringload.hpp>

#include "support/distant_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/random_tensors.hpp"
#include "support/scripted_writer.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
namespace fs = std::filesystem;
using namespace ringload;
using namespace ringload::testing;

namespace {

std::vector<saved_tensor> random_tensors(std::mt19937_64& random, unsigned count,
                                         std::uint64_t bytes) {
  std::vector<saved_tensor> all;
  for (unsigned i = 0; i < count; ++i) {
    all.push_back(random_tensor(random, "t" + std::to_string(i), bytes));
  }
  return all;
}

std::vector<tensor_ref> views(const std::vector<saved_tensor>& of) {
  std::vector<tensor_ref> out;
  for (const saved_tensor& one : of) out.push_back(one.view);
  return out;
}

std::string whole(const fs::path& path) {
  return file_bytes(path.string(), 0, fs::file_size(path));
}

// Returns an empty string if the checkpoint has exactly these tensors. Otherwise returns the
// difference.
std::string wrong_in(const std::string& source, const std::vector<saved_tensor>& wanted) {
  const catalog found = read_catalog(source);
  if (found.tensors.size() != wanted.size()) return "another number of tensors";
  for (const saved_tensor& one : wanted) {
    const auto at = std::ranges::find(found.tensors, one.view.name, &tensor_info::name);
    if (at == found.tensors.end()) return one.view.name + ": missing";
    if (at->dtype != one.view.dtype || at->shape != one.view.shape) {
      return one.view.name + ": another type or shape";
    }
    if (file_bytes(found.files[at->file].path, at->offset, at->bytes) != one.dense) {
      return one.view.name + ": other bytes";
    }
  }
  return {};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

saved_tensor small(std::string name, std::string text) {
  saved_tensor one;
  one.dense = text;
  const auto owner = std::make_shared<std::string>(std::move(text));
  one.view = tensor_ref(std::move(name), owner->data(), dtype::u8, {owner->size()});
  one.view.owner = owner;
  return one;
}

}  // namespace

TEST_CASE("save: random tensors of every type and layout come back, through every way of writing") {
  std::mt19937_64 random(1);
  const temporary_folder folder;
  const temporary_folder in_memory("/dev/shm");
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    loader with(host(), small_options(3, engine));
    for (int round = 0; round < 40; ++round) {
      CAPTURE(round);
      const auto tensors = random_tensors(random, static_cast<unsigned>(random() % 12), 300'000);
      save_options how;
      how.read_back = random() % 2 == 0;
      how.sync = random() % 2 == 0;
      how.alignment = 8U << random() % 12;
      if (random() % 2 == 0) how.order = tensor_order::given;
      how.metadata = {{"format", "pt"}};
      const bool sharded = random() % 3 == 0;
      if (sharded) how.shard_bytes = 50'000;
      const fs::path place = random() % 4 == 0 ? in_memory.path() : folder.path();
      const std::string path = (place / (sharded ? "shards" : "one.safetensors")).string();
      const save_result done = get(with.save_async(path, views(tensors), how, use_future));
      CHECK(wrong_in(path, tensors) == "");
      std::uint64_t bytes = 0;
      for (const std::string& file : done.files) bytes += fs::file_size(file);
      CHECK(done.bytes == bytes);
      CHECK(done.bytes_direct <= bytes);
    }
  }
  for (const std::string& name : names_in(folder.path())) {
    const bool expected = name == "shards" || name == "one.safetensors";
    CHECK(expected);
  }
}

TEST_CASE("save: tensors of another device are copied to the host, strided and converted too") {
  std::mt19937_64 random(2);
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.safetensors").string();
  loader with(distant_device(), small_options(3));
  loader on_host(host(), small_options(3));
  for (int round = 0; round < 30; ++round) {
    auto tensors = random_tensors(random, 6, 200'000);
    std::vector<tensor_ref> given = views(tensors);
    for (tensor_ref& one : given) {
      if (random() % 4 == 0) continue;
      one.device = distant_device();
      one.data = on_distant(one.data);
    }
    save_options how;
    how.read_back = round % 2 == 0;
    how.digest = digest_algorithm::crc32c;
    if (round % 3 == 0) how.dtype = dtype::bf16;
    const save_result done = get(with.save_async(path, given, how, use_future));
    if (!how.dtype) {
      CHECK(wrong_in(path, tensors) == "");
    } else {
      const std::string beside = (folder.path() / "b.safetensors").string();
      get(on_host.save_async(beside, views(tensors), how, use_future));
      CHECK(whole(path) == whole(beside));
    }
  }
  CHECK(copies_to_host > 0);
}

TEST_CASE("save: a copy from the device that fails, fails the save, which leaves nothing") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.safetensors").string();
  loader with(distant_device(), small_options(2));
  saved_tensor one = small("a", noise(500'000, 1));
  one.view.device = distant_device();
  one.view.data = on_distant(one.view.data);
  copies_until_failure = 3;
  CHECK(code_of(with.save_async(path, {one.view}, use_future)) == errc::device_unavailable);
  copies_until_failure = -1;
  CHECK(names_in(folder.path()).empty());
  loader elsewhere(host(), small_options(2));
  CHECK(code_of(elsewhere.save_async(path, {one.view}, use_future)) == errc::device_unavailable);
}

TEST_CASE("save: a conversion gives the bytes that a converting load gives") {
  const temporary_folder folder;
  loader with(host(), small_options(3));
  std::mt19937_64 random(3);
  const std::string plain = (folder.path() / "plain.safetensors").string();
  const std::string converted = (folder.path() / "converted.safetensors").string();
  for (const dtype from : {dtype::f32, dtype::f16, dtype::bf16, dtype::f8_e4m3fn, dtype::f8_e5m2}) {
    const std::string memory = noise(131'072, random());
    const std::uint64_t columns = memory.size() / (bits(from) / 8) / 16;
    tensor_ref dense("dense", memory.data(), from, {columns, 16});
    tensor_ref turned("turned", memory.data(), from, {16, columns});
    turned.strides = {1, 16};
    // An odd number of bytes before the tensor, so that elements cross the borders of slots.
    const tensor_ref odd("odd", memory.data(), dtype::u8, {3});
    save_options how;
    how.order = tensor_order::given;
    get(with.save_async(plain, {odd, dense, turned}, how, use_future));
    for (const dtype to : {dtype::f32, dtype::f16, dtype::bf16}) {
      how.dtype = to;
      get(with.save_async(converted, {odd, dense, turned}, how, use_future));
      load_options options;
      options.dtype = to;
      const model wanted = get(with.load_async(plain, options, use_future));
      const model found = get(with.load_async(converted, use_future));
      for (const char* name : {"odd", "dense", "turned"}) {
        CHECK(found.at(name).dtype() == wanted.at(name).dtype());
        const bool same = bytes_of(found.at(name)) == bytes_of(wanted.at(name));
        CHECK(same);
      }
    }
  }
  save_options how;
  how.dtype = dtype::c64;
  CHECK(code_of(with.save_async(plain, {small("a", "b").view}, how, use_future)) ==
        errc::unsupported_dtype);
  how.dtype = dtype::f32;
  how.converts = [](const tensor_ref& one) { return one.name == "c"; };
  std::vector<tensor_ref> both = {small("a", "b").view, small("c", "\x03").view};
  get(with.save_async(plain, both, how, use_future));
  const model mixed = get(with.load_async(plain, use_future));
  CHECK(mixed.at("a").dtype() == dtype::u8);
  CHECK(mixed.at("c").as<float>()[0] == 3.0F);
}

TEST_CASE("save: what a load brought is saved as it was, and DLPack's tensors are let go of") {
  const made_file file({{"a", 999}, f32("b", 20'000), {"c", 150'000}}, 3);
  const temporary_folder folder;
  loader with(host(), small_options(3));
  const model loaded = get(with.load_async(file.name(), use_future));
  const std::string path = (folder.path() / "again.safetensors").string();
  get(with.save_async(path, refs_of(loaded), use_future));
  const model again = get(with.load_async(path, use_future));
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    const bool same = bytes_of(again.at(loaded[i].name())) == bytes_of(loaded[i]);
    CHECK(same);
  }
  std::vector<tensor_ref> given;
  given.push_back(view_of("x", to_dlpack(loaded.at("b"))));
  given.push_back(view_of("y", to_legacy_dlpack(loaded.at("c"))));
  const std::weak_ptr<const void> held = given[0].owner;
  get(with.save_async(path, std::move(given), use_future));
  CHECK(held.expired());
  const model third = get(with.load_async(path, use_future));
  const bool same = bytes_of(third.at("x")) == bytes_of(loaded.at("b"));
  CHECK(same);
}

TEST_CASE("save: aligned memory is written from where it lies") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.safetensors").string();
  loader with(host(), small_options(3));
  constexpr std::uint64_t bytes = 512 * 1024;
  const std::unique_ptr<std::byte, void (*)(void*)> memory(
      static_cast<std::byte*>(std::aligned_alloc(4096, bytes)), std::free);
  const std::string text = noise(bytes, 4);
  std::memcpy(memory.get(), text.data(), bytes);
  save_options how;
  how.alignment = 4096;
  const tensor_ref one("a", memory.get(), dtype::u8, {bytes});
  const save_result done = get(with.save_async(path, {one}, how, use_future));
  CHECK(file_bytes(path, 4096, bytes) == text);
  if (done.bytes_direct > 0) {
    CHECK(done.bytes_direct == 4096 + bytes);
    CHECK(done.bytes_unstaged >= bytes - small_slot);
  } else {
    CHECK(done.route_reason != "");
  }
}

TEST_CASE("save: digests are those that a checksum list of the file has") {
  std::mt19937_64 random(5);
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.safetensors").string();
  loader with(host(), small_options(3));
  const auto tensors = random_tensors(random, 9, 300'000);
  save_options how;
  how.digest = digest_algorithm::crc32c;
  const save_result done = get(with.save_async(path, views(tensors), how, use_future));
  REQUIRE(done.digests.size() == tensors.size());
  checksum_list listed;
  listed.tensors = done.digests;
  load_options options;
  options.verify.checksums = &listed;
  CHECK(get(with.load_async(path, options, use_future)).size() == tensors.size());
  how.digest = digest_algorithm::sha256;
  CHECK(code_of(with.save_async(path, views(tensors), how, use_future)) ==
        errc::digest_unavailable);
}

TEST_CASE("save: what was there is replaced by what is whole, or not at all") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.safetensors").string();
  loader with(host(), small_options(2));
  const saved_tensor first = small("a", "first");
  const saved_tensor second = small("a", "second");
  get(with.save_async(path, {first.view}, use_future));
  save_options how;
  how.replace = false;
  CHECK(code_of(with.save_async(path, {second.view}, how, use_future)).value() == EEXIST);
  CHECK(wrong_in(path, {first}) == "");
  how.replace = true;
  get(with.save_async(path, {second.view}, how, use_future));
  CHECK(wrong_in(path, {second}) == "");

  // The folder is replaced as a whole, including the old shards.
  const fs::path many = folder.path() / "many";
  how.shard_count = 3;
  const std::vector<saved_tensor> three = {first, small("b", "bb"), small("c", "ccc")};
  const save_result done = get(with.save_async(many, views(three), how, use_future));
  CHECK(done.files.size() == 4);
  CHECK(done.files.back() == (many / "model.safetensors.index.json").string());
  CHECK(wrong_in(many.string(), three) == "");
  get(with.save_async(many.string() + "/", {second.view}, use_future));
  CHECK(names_in(many) == std::vector<std::string>{"model.safetensors"});
  write_file(many / "config.json", "{}");
  const auto refused = failure_of(with.save_async(many, {first.view}, use_future));
  REQUIRE(refused);
  CHECK(refused->code().value() == EEXIST);
  CHECK(holds(refused->what(), "config.json"));
  CHECK(wrong_in(many.string(), {second}) == "");
}

TEST_CASE("save: a path says what is written, or the settings do") {
  const temporary_folder folder;
  loader with(host(), small_options(2));
  const saved_tensor one = small("a", "text");
  const auto saves_as = [&](const std::string& name, save_options how = {}) {
    const std::string path = (folder.path() / name).string();
    return get(with.save_async(path, {one.view}, std::move(how), use_future)).files.at(0);
  };
  CHECK(saves_as("x.safetensors") == (folder.path() / "x.safetensors").string());
  CHECK(saves_as("plain") == (folder.path() / "plain/model.safetensors").string());
  CHECK(saves_as("Qwen2.5/") == (folder.path() / "Qwen2.5/model.safetensors").string());
  save_options ordered;
  ordered.format = save_format::safetensors;
  CHECK(saves_as("Qwen3.5", ordered) == (folder.path() / "Qwen3.5/model.safetensors").string());
  const auto code = [&](const fs::path& path, save_options how = {}) {
    return code_of(with.save_async(path, {one.view}, std::move(how), use_future));
  };
  CHECK(code(folder.path() / "x.bin") == errc::invalid_saving);
  CHECK(code(folder.path() / "none/x.safetensors").value() == ENOENT);
  CHECK(code("/dev/null/x.safetensors").value() == ENOTDIR);
  save_options shards;
  shards.shard_count = 2;
  CHECK(code(folder.path() / "y.safetensors", shards) == errc::invalid_saving);
  fs::create_directory(folder.path() / "folder.safetensors");
  CHECK(code(folder.path() / "folder.safetensors").value() == EISDIR);
  CHECK(code(folder.path() / "..").value() == EINVAL);
}

TEST_CASE("save: tensors that are none are refused, and named") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.safetensors").string();
  loader with(host(), small_options(2));
  const auto refusal = [&](const tensor_ref& one) {
    const auto failed = failure_of(with.save_async(path, {one}, use_future));
    REQUIRE(failed);
    CHECK(holds(failed->what(), "tensor 'w'"));
    return failed->code();
  };
  const std::array<float, 4> memory = {};
  tensor_ref good("w", memory.data(), dtype::f32, {2, 2});
  tensor_ref bad = good;
  bad.strides = {1};
  CHECK(refusal(bad) == errc::invalid_tensor);
  bad = good;
  bad.data = nullptr;
  CHECK(refusal(bad) == errc::invalid_tensor);
  bad = good;
  bad.bytes = 15;
  CHECK(refusal(bad) == errc::invalid_tensor);
  bad.bytes = 16;
  get(with.save_async(path, {bad}, use_future));
  bad.strides = {2, 2};
  CHECK(refusal(bad) == errc::invalid_tensor);
  bad = good;
  bad.strides = {std::int64_t{1} << 62, 1};
  CHECK(refusal(bad) == errc::invalid_tensor);
  bad = tensor_ref("w", memory.data(), dtype::f4, {2, 2});
  bad.strides = {2, 1};
  CHECK(refusal(bad) == errc::invalid_tensor);
  bad = tensor_ref("w", memory.data(), dtype::c128, {1});
  CHECK(refusal(bad) == errc::unsupported_dtype);
  CHECK(code_of(with.save_async(path, {good, good}, use_future)) == errc::duplicate_tensor);
}

TEST_CASE("save: progress reaches the total, which is the size of the files") {
  const temporary_folder folder;
  loader with(host(), small_options(2));
  save_options how;
  how.progress = std::make_shared<save_progress>();
  const std::string path = (folder.path() / "a.safetensors").string();
  const save_result done =
      get(with.save_async(path, {small("a", noise(300'000, 1)).view}, how, use_future));
  CHECK(how.progress->bytes_total() == done.bytes);
  CHECK(how.progress->bytes() == done.bytes);
  CHECK(done.bytes == fs::file_size(path));
}

TEST_CASE("save: several at once, beside loads, all come back") {
  std::mt19937_64 random(6);
  const temporary_folder folder;
  const made_file file(equal_tensors(20, 100'000), 3);
  loader with(host(), small_options(4));
  std::vector<std::vector<saved_tensor>> all;
  std::vector<std::future<save_result>> saves;
  std::vector<std::future<model>> loads;
  for (int i = 0; i < 6; ++i) {
    all.push_back(random_tensors(random, 8, 200'000));
    const std::string path = (folder.path() / (std::to_string(i) + ".safetensors")).string();
    saves.push_back(with.save_async(path, views(all.back()), use_future));
    loads.push_back(with.load_async(file.name(), use_future));
  }
  for (auto& one : loads) CHECK(first_difference(get(std::move(one))) == "");
  for (int i = 0; i < 6; ++i) {
    get(std::move(saves[static_cast<std::size_t>(i)]));
    const std::string path = (folder.path() / (std::to_string(i) + ".safetensors")).string();
    CHECK(wrong_in(path, all[static_cast<std::size_t>(i)]) == "");
  }
}

TEST_CASE("save: a .zt file is the one that a writer makes, on the host and from a device") {
  std::mt19937_64 random(7);
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.zt").string();
  const std::string beside = (folder.path() / "b.zt").string();
  loader with(distant_device(), small_options(3));
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    auto tensors = random_tensors(random, static_cast<unsigned>(random() % 8), 200'000);
    std::erase_if(tensors, [](const saved_tensor& one) { return bits(one.view.dtype) % 8 != 0; });
    save_options how;
    how.metadata = {{"z", "1"}, {"a", "2"}};
    how.alignment = 8U << random() % 12;
    how.read_back = round % 2 == 0;
    how.sync = false;
    std::vector<tensor_ref> given = views(tensors);
    for (tensor_ref& one : given) {
      if (random() % 2 == 0) continue;
      one.device = distant_device();
      one.data = on_distant(one.data);
    }
    const save_result done = get(with.save_async(path, given, how, use_future));
    CHECK(wrong_in(path, tensors) == "");
    CHECK(done.bytes == fs::file_size(path));

    writer_options same;
    same.alignment = std::max(64U, how.alignment);
    same.sync = false;
    writer out(beside, same);
    for (const auto& [key, value] : how.metadata) {
      get(out.set_attribute_async(key, value, use_future));
    }
    for (const saved_tensor& one : tensors) get(out.add_async(one.view, use_future));
    get(out.finish_async(use_future));
    CHECK(whole(path) == whole(beside));
  }
}

TEST_CASE("save: memory that several tensors have is written to .zt once, under all their names") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.zt").string();
  const std::string memory = noise(4'000'000, 1);
  const char* const at = memory.data();
  const tensor_ref tied("tied", at, dtype::f32, {1000, 1000});
  tensor_ref flipped("flipped", at, dtype::f32, {1000, 1000});
  flipped.strides = {1, 1000};
  tensor_ref flipped_too = flipped;
  flipped_too.name = "flipped too";
  const std::vector<tensor_ref> given = {tensor_ref("first", at, dtype::f32, {1000, 1000}),
                                         tied,
                                         tensor_ref("flat", at, dtype::f32, {1'000'000}),
                                         tensor_ref("as integers", at, dtype::i32, {1000, 1000}),
                                         tensor_ref("half", at, dtype::f32, {500, 1000}),
                                         flipped,
                                         flipped_too,
                                         tensor_ref("nothing", at, dtype::f32, {0}),
                                         tensor_ref("nothing too", at, dtype::f32, {0})};
  loader with(host(), small_options(3));
  save_options how;
  how.digest = digest_algorithm::crc32c;
  CHECK(get(with.save_async(path, given, how, use_future)).digests.size() == given.size());
  CHECK(fs::file_size(path) > 14'000'000);
  CHECK(fs::file_size(path) < 14'010'000);
  const model back = get(with.load_async(path, use_future));
  REQUIRE(back.size() == given.size());
  for (const char* const name : {"first", "tied", "flat", "as integers"}) {
    CHECK(std::equal(memory.begin(), memory.end(), static_cast<const char*>(back.at(name).data())));
  }
  CHECK(back.at("flat").shape().size() == 1);
  CHECK(bytes_of(back.at("flipped")) == bytes_of(back.at("flipped too")));
  CHECK(bytes_of(back.at("flipped")) != bytes_of(back.at("first")));
  // safetensors has no second names.
  const std::string other = (folder.path() / "a.safetensors").string();
  get(with.save_async(other, {given[0], tied}, use_future));
  CHECK(fs::file_size(other) > 8'000'000);
}

TEST_CASE("save: what .zt does not have is refused, and nothing appears") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.zt").string();
  loader with(host(), small_options(2));
  const tensor_ref one = small("a", "text").view;
  const auto refused = [&](std::vector<tensor_ref> what, const save_options& how) {
    return code_of(with.save_async(path, std::move(what), how, use_future));
  };
  save_options wrong;
  wrong.shard_bytes = 100;
  CHECK(refused({one}, wrong) == errc::invalid_saving);
  wrong = save_options();
  wrong.metadata = {{"a", "1"}, {"a", "2"}};
  CHECK(refused({one}, wrong) == errc::invalid_saving);
  CHECK(refused({one, one}, {}) == errc::duplicate_tensor);
  CHECK(refused({tensor_ref("\xFF", one.data, dtype::u8, {4})}, {}) == errc::header_not_utf8);
  CHECK(refused({tensor_ref("a", one.data, dtype::f4, {8})}, {}) == errc::unsupported_dtype);
  CHECK(names_in(folder.path()).empty());
}
