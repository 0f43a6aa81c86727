// SPDX-License-Identifier: Apache-2.0

// Tensors that are mapped from their files.

#include <doctest/doctest.h>
#include <unistd.h>

#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <ringload/ringload.hpp>
#include <string>
#include <vector>

#include "support/aligned_file.hpp"
#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/npz_text.hpp"
#include "support/resident.hpp"
#include "support/scripted_loader.hpp"
#include "support/settled.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

load_options mapped_by(on_unmappable rest = on_unmappable::refuse, bool populate = false) {
  load_options options;
  options.memory = tensor_memory::mapped;
  options.unmappable = rest;
  options.populate = populate;
  return options;
}

std::vector<made_tensor> aligned_tensors() {
  return {f32("a", 70'000), {"none", 0}, f32("b", 3), {"c", 100'001}};
}

std::string why_refused(loader& with, const checkpoint& from, const selection& some,
                        load_options options) {
  const auto failed = failure_of(with.load_async(from, selecting(some, options), use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::not_mappable);
  return failed->what();
}

}  // namespace

TEST_CASE("mapped: tensors are where their file has them, and nothing is read") {
  const made_file file(aligned_tensors(), spaces_to_align(aligned_tensors()));
  for (const auto engine : {read_engine::automatic, read_engine::threads}) {
    loader with(host(), small_options(2, engine));
    std::optional<model> loaded = get(with.load_async(file.name(), mapped_by(), use_future));
    CHECK(first_difference(*loaded) == "");
    const load_stats& s = loaded->stats();
    CHECK(s.bytes_direct + s.bytes_buffered == 0);
    CHECK(s.reads == 0);
    CHECK(s.bytes == s.bytes_total);
    CHECK(s.bytes_mapped == s.bytes_total);
    CHECK(s.bytes_arrived() == s.bytes_total);
    CHECK(loaded->at("a").read_only());
    // The empty tensor has an address in memory.
    CHECK(settled_memory(with, file.name()).tensor_bytes <= 4096);
    CHECK(settled_memory(with, file.name()).mappings == 1);
    CHECK(settled_memory(with, file.name()).mapped_bytes >= 380'013);
    CHECK(loaded->regions().size() == 2);

    std::optional<tensor> kept = loaded->at("b");
    loaded.reset();
    CHECK(settled_memory(with, file.name()).mappings == 1);
    CHECK(settled_memory(with, file.name()).tensor_bytes == 0);
    CHECK(kept->as<float>().size() == 3);
    kept.reset();
    CHECK(settled_memory(with, file.name()).mappings == 0);
    CHECK(settled_memory(with, file.name()).mapped_bytes == 0);
  }
}

TEST_CASE("mapped: tensors outlive loader and file") {
  std::optional<model> loaded;
  std::string wanted;
  {
    const made_file file(aligned_tensors(), spaces_to_align(aligned_tensors()));
    loader with(host(), small_options());
    loaded = get(with.load_async(file.name(), mapped_by(), use_future));
    const tensor_info& info = loaded->catalog().tensors.back();
    wanted = file_bytes(file.name(), info.offset, info.bytes);
  }
  CHECK(bytes_of((*loaded)[loaded->size() - 1]) == wanted);
}

TEST_CASE("mapped: a file that is replaced is still the one that was mapped") {
  const made_file file(aligned_tensors(), spaces_to_align(aligned_tensors()));
  loader with(host(), small_options());
  const model loaded = get(with.load_async(file.name(), mapped_by(), use_future));
  const std::string before(bytes_of(loaded.at("c")));
  const std::string beside = file.name() + ".new";
  write_file(beside, checkpoint_text(aligned_tensors(), 0, 7));
  std::filesystem::rename(beside, file.path());
  CHECK(bytes_of(loaded.at("c")) == before);
  CHECK(first_difference(loaded) != "");
}

TEST_CASE("mapped: what is written to a copy on write is seen by nobody else") {
  const made_file file(aligned_tensors(), spaces_to_align(aligned_tensors()));
  loader with(host(), small_options());
  load_options options = mapped_by();
  options.access = mapped_access::copy_on_write;
  const model mine = get(with.load_async(file.name(), options, use_future));
  CHECK_FALSE(mine.at("a").read_only());
  const model other = get(with.load_async(file.name(), options, use_future));
  std::memset(mine.at("a").data(), 0xEE, mine.at("a").size_bytes());
  CHECK(mine.at("a").as<std::byte>()[4096] == std::byte{0xEE});
  CHECK(first_difference(other) == "");
  CHECK(bytes_of(mine.at("c")) == bytes_of(other.at("c")));
}

TEST_CASE("mapped: DLPack says that a tensor is read-only") {
  const made_file file(aligned_tensors(), spaces_to_align(aligned_tensors()));
  loader with(host(), small_options());
  load_options options = mapped_by();
  for (const auto access : {mapped_access::read_only, mapped_access::copy_on_write}) {
    options.access = access;
    const model loaded = get(with.load_async(file.name(), options, use_future));
    dlpack::managed_tensor_versioned* const given = to_dlpack(loaded.at("a"));
    CHECK((given->flags & dlpack::flag_read_only) ==
          (access == mapped_access::read_only ? dlpack::flag_read_only : 0));
    given->deleter(given);
  }
}

TEST_CASE("mapped: pages are brought in, if that is asked for, and a tensor waits for its own") {
  const made_file file(equal_tensors(5, 300'000), 7);
  for (const auto engine : {read_engine::automatic, read_engine::threads}) {
    loader with(host(), small_options(2, engine));
    make_cold(file.path());
    load_operation load =
        get(with.start_async(file.name(), mapped_by(on_unmappable::refuse, true), use_future));
    const tensor one = get(load.tensor_async("t3", use_future));
    const auto address = reinterpret_cast<std::uintptr_t>(one.data());
    std::byte* const page = reinterpret_cast<std::byte*>(address - address % 4096);
    if (can_populate()) CHECK(resident_pages({page, 4096 * 70}) == 70);
    const model loaded = get(load.finish_async(use_future));
    CHECK(first_difference(loaded) == "");
    CHECK(loaded.stats().reads > 5);
    CHECK(loaded.stats().bytes_direct + loaded.stats().bytes_buffered == 0);
    CHECK(loaded.stats().bytes_mapped == 1'500'000);
  }
}

TEST_CASE("mapped: a file that is truncated before its pages are there fails the load") {
  const made_file file(equal_tensors(5, 300'000));
  read_script script([](const io_request&, std::uint64_t) {
    return read_fate{.until_released = read_fate::hold::start};
  });
  scripted_loader with(script, small_options(2));
  auto load = with.load_async(file.name(), mapped_by(on_unmappable::refuse, true), use_future);
  REQUIRE(script.wait_until_held(2));
  REQUIRE(::truncate(file.name().c_str(), 20'000) == 0);
  script.release_all();
  const auto failed = failure_of(std::move(load));
  REQUIRE(failed);
  if (can_populate()) CHECK(failed->code() == errc::truncated_file);
}

TEST_CASE("mapped: a file that was truncated before is refused, as in other loads") {
  const made_file file(aligned_tensors(), spaces_to_align(aligned_tensors()));
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  REQUIRE(::truncate(file.name().c_str(), 20'000) == 0);
  CHECK(code_of(with.load_async(opened, mapped_by(), use_future)) == errc::truncated_file);
}

TEST_CASE("mapped: pages that cannot be read fail the load with their place") {
  const made_file file(equal_tensors(3, 200'000));
  read_script counting;
  std::uint64_t reads = 0;
  const load_options options = mapped_by(on_unmappable::refuse, true);
  {
    scripted_loader with(counting, small_options(1));
    reads = get(with.load_async(file.name(), options, use_future)).stats().reads;
  }
  for (std::uint64_t n = 0; n < reads; ++n) {
    read_script script([n](const io_request&, std::uint64_t nth) {
      return nth == n ? read_fate{-EIO} : read_fate{};
    });
    scripted_loader with(script, small_options(2));
    const auto failed = failure_of(with.load_async(file.name(), options, use_future));
    REQUIRE(failed);
    CHECK(holds(failed->what(), "tensor 't"));
    CHECK(holds(failed->what(), "Input/output error"));
    CHECK(first_difference(get(with.load_async(file.name(), mapped_by(), use_future))) == "");
  }
}

TEST_CASE("mapped: a load that is cancelled while its pages come keeps no mapping") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script([](const io_request&, std::uint64_t) {
    return read_fate{.until_released = read_fate::hold::completion};
  });
  scripted_loader with(script, small_options(2));
  load_operation load =
      get(with.start_async(file.name(), mapped_by(on_unmappable::refuse, true), use_future));
  REQUIRE(script.wait_until_held(2));
  auto end = load.finish_async(use_future);
  load.cancel();
  script.release_all();
  CHECK(code_of(std::move(end)) == boost::asio::error::operation_aborted);
}

TEST_CASE("mapped: what cannot be a view is refused by name and reason, or copied") {
  // Then no f32 tensor is aligned.
  const made_file file(aligned_tensors(), spaces_to_align(aligned_tensors()) + 3);
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  const std::string said = why_refused(with, opened, selection(), mapped_by());
  CHECK(holds(said, "tensor 'a'"));
  CHECK(holds(said, "expected a multiple of 4"));

  const model loaded = get(with.load_async(opened, mapped_by(on_unmappable::copy), use_future));
  CHECK(first_difference(loaded) == "");
  CHECK_FALSE(loaded.at("a").read_only());
  CHECK(loaded.at("c").read_only());
  CHECK(loaded.stats().bytes_mapped == 100'001);
  CHECK(settled_memory(with, file.name()).tensor_bytes >= 280'012);
}

TEST_CASE("mapped: conversions, fused tensors and slices of rows are no views") {
  const std::vector<made_tensor> tensors = {f32("a", 1000), f32("b", 1000)};
  const made_file file(tensors, spaces_to_align(tensors));
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  load_options converting = mapped_by();
  converting.dtype = dtype::f16;
  CHECK(holds(why_refused(with, opened, selection(), converting), "the tensor is converted"));
  const selection fused = select().fused("ab", {"a", "b"}, 0);
  CHECK(holds(why_refused(with, opened, fused, mapped_by()), "fused from several tensors"));

  // A range of the first dimension can be mapped.
  const model part = get(with.load_async(
      opened, selecting(select().names({"b"}).slice("b", 0, 10, 500), mapped_by()), use_future));
  CHECK(part.at("b").size_bytes() == 2000);
  CHECK(part.at("b").read_only());
  const tensor_info& b = opened.at("b");
  CHECK(bytes_of(part.at("b")) == file_bytes(file.name(), b.offset + 40, 2000));
}

TEST_CASE("mapped: members of an archive that are stored as they are, in order, are views") {
  const std::string numbers = noise(24, 3);
  const auto archive = [&](const zip_part& part) { return npz_file({part}); };
  loader with(host(), small_options());
  const npz_file plain = archive(member("a", npy_text("|u1", false, "4, 6", numbers), false));
  const model loaded = get(with.load_async(plain.name(), mapped_by(), use_future));
  CHECK(bytes_of(loaded.at("a")) == numbers);
  CHECK(loaded.at("a").read_only());

  const auto refused = [&](const npz_file& file) {
    return why_refused(with, get(with.open_async(file.name(), use_future)), selection(),
                       mapped_by());
  };
  CHECK(holds(refused(archive(member("a", npy_text("|u1", false, "4, 6", numbers), true))),
              "its bytes are stored encoded"));
  CHECK(holds(refused(archive(member("a", npy_text("|u1", true, "4, 6", numbers), false))),
              "its elements are not contiguous in the file"));
}

TEST_CASE("mapped: each tensor may have a mapping of its own") {
  const made_file file(equal_tensors(4, 50'000));
  loader with(host(), small_options());
  load_options options = mapped_by();
  options.allocation = allocation::per_tensor;
  std::optional<model> loaded = get(with.load_async(file.name(), options, use_future));
  CHECK(first_difference(*loaded) == "");
  CHECK(settled_memory(with, file.name()).mappings == 4);
  const tensor kept = loaded->at("t1");
  loaded.reset();
  CHECK(settled_memory(with, file.name()).mappings == 1);
  CHECK(settled_memory(with, file.name()).mapped_bytes < 60'000);
}

TEST_CASE("mapped: views are checked against a checksum list like all tensors") {
  const made_file file(equal_tensors(2, 100'000));
  checksum_list listed;
  for (const tensor_info& t : read_catalog(file.name()).tensors) {
    const std::string bytes = file_bytes(file.name(), t.offset, t.bytes);
    tensor_digest& one = listed.tensors.emplace_back();
    one.name = t.name;
    one.algorithm = digest_algorithm::crc32c;
    const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
    for (int shift = 24; shift >= 0; shift -= 8) {
      one.bytes.push_back(static_cast<std::byte>(crc >> shift));
    }
  }
  loader with(host(), small_options());
  load_options options = mapped_by();
  options.verify = &listed;
  CHECK(get(with.load_async(file.name(), options, use_future)).stats().bytes_verified == 200'000);
  listed.tensors[1].bytes[0] ^= std::byte{1};
  CHECK(code_of(with.load_async(file.name(), options, use_future)) == errc::wrong_digest);
}

TEST_CASE("mapped: options of mapped memory are refused for memory of the load's own") {
  const made_file file({f32("a", 3)});
  loader with(host(), small_options());
  std::vector<std::pair<std::string, load_options>> wrong(3);
  wrong[0].first = "access";
  wrong[0].second.access = mapped_access::copy_on_write;
  wrong[1].first = "unmappable";
  wrong[1].second.unmappable = on_unmappable::copy;
  wrong[2].first = "populate";
  wrong[2].second.populate = true;
  for (const auto& [name, options] : wrong) {
    const auto failed = failure_of(with.load_async(file.name(), options, use_future));
    REQUIRE(failed);
    CHECK(failed->code() == errc::invalid_options);
    CHECK(failed->place() == "load_options::" + name);
  }
}

TEST_CASE("mapped: a tensor that is not aligned as the load requires cannot be mapped") {
  const made_file file({{"a", 8}, {"b", 8}}, 0);
  loader with(host(), small_options());
  load_options options = mapped_by();
  options.tensor_alignment = 4096;
  const auto failed = failure_of(with.load_async(file.name(), options, use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::not_mappable);
  options.unmappable = on_unmappable::copy;
  const model loaded = get(with.load_async(file.name(), options, use_future));
  CHECK(first_difference(loaded) == "");
  for (const tensor& t : loaded) CHECK(reinterpret_cast<std::uintptr_t>(t.data()) % 4096 == 0);
}

TEST_CASE("mapped: neither windows nor fills are") {
  const made_file file(aligned_tensors(), spaces_to_align(aligned_tensors()));
  loader with(host(), small_options());
  const auto windowed =
      failure_of(with.stream_async(file.name(), 1 << 20, mapped_by(), use_future));
  REQUIRE(windowed);
  CHECK(windowed->code() == errc::invalid_options);
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  const auto filled = failure_of(with.fill_async(opened, {}, filling({}, mapped_by()), use_future));
  REQUIRE(filled);
  CHECK(filled->code() == errc::invalid_options);
  CHECK(holds(filled->what(), "load_options::memory"));
}
