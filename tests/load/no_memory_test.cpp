// SPDX-License-Identifier: Apache-2.0

// Each allocation of a small load fails in turn. The load ends, with the correct bytes or with an
// error, and no memory leaks. A separate executable, because failing_new replaces operator new.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <ringload/ringload.hpp>
#include <thread>

#include "base/catch_as_fault.hpp"
#include "delta/versions.hpp"
#include "support/counted_device.hpp"
#include "support/descriptors.hpp"
#include "support/failing_new.hpp"
#include "support/made_checkpoint.hpp"
#include "support/npz_text.hpp"
#include "support/places.hpp"
#include "support/scripted_loader.hpp"
#include "support/settled.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

checksum_list crc_checksums(const made_file& file) {
  checksum_list m;
  for (const tensor_info& t : read_catalog(file.name()).tensors) {
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
  return m;
}

// Cancels loads until the loader has used a timer. The first timer of a loader without io_uring
// opens the descriptors of an epoll instance.
void use_timer(loader& with, const std::string& file) {
  const std::size_t descriptors = open_descriptors();
  for (int i = 0; i < 1000 && open_descriptors() == descriptors; ++i) {
    load_operation load = get(with.start_async(file, use_future));
    load.cancel();
    try {
      get(load.finish_async(use_future));  // The load may have ended before.
    } catch (const error&) {
    }
  }
  REQUIRE(open_descriptors() > descriptors);
}

}  // namespace

TEST_CASE("no memory: at each allocation of a load in turn, it ends and keeps nothing") {
  const made_file file({{"a", 999}, f32("b", 20'000), {"none", 0}, {"c", 150'000}}, 3);
  const checksum_list listed = crc_checksums(file);
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    load_options how;
    if (engine == read_engine::automatic) how.verify = &listed;
    auto with = std::make_unique<loader>(counted_host(), small_options(2, engine));
    if (engine == read_engine::threads) use_timer(*with, file.name());
    const std::size_t descriptors = open_descriptors();
    std::int64_t right = 0;
    const std::int64_t points = for_every_allocation([&] {
      make_cold(file.path());
      const bool succeeds = succeeds_or_lacks_memory([&] {
        const model loaded = get(with->load_async(file.name(), how, use_future));
        until_failure = -1;
        CHECK(first_difference(loaded) == "");
      });
      if (succeeds) ++right;
    });
    MESSAGE(points << " points, " << right << " of them without consequence");
    CHECK(points > 10);
    // The loader still works.
    CHECK(first_difference(get(with->load_async(file.name(), how, use_future))) == "");
    CHECK(open_descriptors() == descriptors);
    with.reset();
    CHECK(arenas_taken == 0);
  }
}

TEST_CASE("no memory: at each allocation of a load into many arenas, or of views, it ends") {
  const made_file file({{"a", 999}, f32("b", 20'000), {"none", 0}, {"c", 150'000}});
  for (const tensor_memory memory : {tensor_memory::owned, tensor_memory::mapped}) {
    load_options how;
    how.allocation = allocation::per_tensor;
    how.memory = memory;
    if (memory == tensor_memory::mapped) {
      how.unmappable = on_unmappable::copy;
      how.populate = true;
    }
    auto with = std::make_unique<loader>(counted_host(), small_options(2));
    const std::size_t descriptors = open_descriptors();
    const std::int64_t points = for_every_allocation([&] {
      succeeds_or_lacks_memory([&] {
        const model loaded = get(with->load_async(file.name(), how, use_future));
        until_failure = -1;
        CHECK(first_difference(loaded) == "");
      });
    });
    CHECK(points > 10);
    CHECK(first_difference(get(with->load_async(file.name(), how, use_future))) == "");
    CHECK(open_descriptors() == descriptors);
    CHECK(settled_memory(*with, file.name()).tensor_allocations == 0);
    CHECK(settled_memory(*with, file.name()).mappings == 0);
    with.reset();
    CHECK(arenas_taken == 0);
  }
}

TEST_CASE("no memory: at each allocation of a load through a window in turn, it ends") {
  const made_file file(equal_tensors(6, 1'500'000));
  auto with = std::make_unique<loader>(counted_host(), small_options(2));
  const std::int64_t points = for_every_allocation([&] {
    succeeds_or_lacks_memory([&] {
      tensor_stream load = get(with->stream_async(file.name(), 4 << 20, use_future));
      int came = 0;
      while (get(load.next_async(use_future))) ++came;
      until_failure = -1;
      CHECK(came == 6);
    });
  });
  CHECK(points > 10);
  CHECK(settled_memory(*with, file.name()).tensor_allocations == 0);
  with.reset();
  CHECK(arenas_taken == 0);
}

TEST_CASE("no memory: at each allocation of a copy in turn, it ends and keeps nothing") {
  const made_file file({f32("b", 60'000)}, 3);
  auto with = std::make_unique<loader>(counted_host(), small_options(2));
  {
    const tensor from = get(with->load_async(file.name(), use_future)).at("b");
    for (const std::optional<dtype> as : {std::optional<dtype>(), std::optional(dtype::f16)}) {
      const std::int64_t points = for_every_allocation([&] {
        succeeds_or_lacks_memory([&] {
          const tensor made = get(with->copy_async(from, {host(), as}, use_future));
          until_failure = -1;
          CHECK(made.dtype() == as.value_or(dtype::f32));
          CHECK((as || bytes_of(made) == bytes_of(from)));
        });
      });
      CHECK(points > 10);
      CHECK(settled_memory(*with, file.name()).tensor_allocations == 1);
    }
  }
  with.reset();
  CHECK(arenas_taken == 0);
}

TEST_CASE("no memory: at each allocation of a fill in turn, it ends and writes to nothing else") {
  const made_file plain({{"a", 999}, f32("b", 20'000), {"none", 0}, {"c", 150'000}}, 3);
  const npz_file deflated(
      {member("long", npy_text("|u1", false, "200000,", compressible(200'000, 3)), true),
       member("raw", npy_text("|u1", false, "5,", "12345"), false)});
  for (const std::string& name : {plain.name(), deflated.name()}) {
    for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
      loader with(host(), small_options(2, engine));
      const checkpoint opened = get(with.open_async(name, use_future));
      const model whole = get(with.load_async(opened, use_future));
      const std::int64_t points = for_every_allocation([&] {
        places memory(whole, 7);
        make_cold(name);
        const bool succeeds = succeeds_or_lacks_memory([&] {
          auto done = with.fill_async(opened, memory.into(), use_future);
          get(std::move(done));
          until_failure = -1;
        });
        CHECK(memory.guards_are_whole());
        if (succeeds) CHECK(memory.all_whole());
      });
      CHECK(points > 10);
      places again(whole, 7);
      get(with.fill_async(opened, again.into(), use_future));
      CHECK(again.all_whole());
    }
  }
}

TEST_CASE("no memory: at each allocation of a save in turn, the old file is there or the new one") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  const std::string memory = noise(200'000, 8);
  std::vector<tensor_ref> tensors = {
      tensor_ref("a", memory.data(), dtype::u8, {99'999}),
      tensor_ref("b", memory.data() + 1, dtype::f32, {100, 200}),
  };
  tensors[1].strides = {1, 100};
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    auto with = std::make_unique<loader>(host(), small_options(2, engine));
    save_options how;
    how.digest = digest_algorithm::crc32c;
    how.read_back = true;
    how.sync = false;
    get(with->save_async(path, tensors, how, use_future));
    const std::size_t descriptors = open_descriptors();
    std::int64_t complete = 0;
    const std::int64_t points = for_every_allocation([&] {
      const std::string before = read_catalog(path).tensors.back().name;
      tensors[0].name = before == "a" ? "z" : "a";  // So that the old and the new file differ.
      const bool succeeds = succeeds_or_lacks_memory([&] {
        get(with->save_async(path, tensors, how, use_future));
        until_failure = -1;
      });
      until_failure = -1;
      const std::string after = read_catalog(path).tensors.back().name;
      // If there is no memory for the completion, the save may still be complete.
      const bool right = after == tensors[0].name || (!succeeds && after == before);
      CHECK(right);
      if (succeeds) ++complete;
      const auto entries = std::filesystem::directory_iterator(folder.path());
      CHECK(std::distance(begin(entries), end(entries)) == 1);
    });
    MESSAGE(points << " points, " << complete << " of them without consequence");
    CHECK(points > 10);
    get(with->save_async(path, tensors, how, use_future));
    CHECK(open_descriptors() == descriptors);
  }
}

TEST_CASE("no memory: at each allocation of a loader's start in turn, it starts or says why not") {
  const made_file file({{"a", 999}});
  const std::size_t descriptors = open_descriptors();
  for_every_allocation([&] {
    std::optional<loader> started;
    try {
      started.emplace(host(), small_options(2));
    } catch (const error&) {
    } catch (const std::bad_alloc&) {
    }
    if (!started) return;
    // A loader that has started works.
    until_failure = -1;
    CHECK(first_difference(get(started->load_async(file.name(), use_future))) == "");
  });
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("no memory: at each allocation in turn, a version is loaded from its folder, or not") {
  using namespace delta_tests;
  place at;
  version tensors;
  tensors["w"] = {dtype::bf16, {3'000}, noise(6'000, 1)};
  std::filesystem::create_directory(at.path("a folder of versions"));
  at.save("a folder of versions/v0.safetensors", tensors);
  tensors["w"].bytes[0] ^= 1;
  at.save("next.safetensors", tensors);
  at.make("a folder of versions/v1.delta.zt", at.path("a folder of versions/v0.safetensors"),
          at.path("next.safetensors"));
  const std::int64_t points = for_every_allocation([&] {
    succeeds_or_lacks_memory([&] {
      const model loaded =
          get(load_version_async(at.host_loader, at.path("a folder of versions"), use_future));
      CHECK(tensors_of(loaded) == tensors);
    });
  });
  CHECK(points > 10);
}

TEST_CASE("no memory: at each allocation of an archive's load in turn, it ends") {
  const npz_file archive(
      {member("a member with a long name", npy_text("|u1", false, "5,", "12345"), false)});
  loader with(host(), small_options(2));
  const std::int64_t points = for_every_allocation([&] {
    succeeds_or_lacks_memory([&] {
      const model loaded = get(with.load_async(archive.name(), use_future));
      CHECK(loaded.size() == 1);
    });
  });
  CHECK(points > 10);
}

TEST_CASE("no memory: at each allocation of an append in turn, a finished file has all tensors") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "a file with a long name.zt").string();
  const std::string bytes = noise(6'000, 1);
  const auto add = [&](writer& out, const std::string& name) {
    return out.add_async(tensor_ref(name, bytes.data(), dtype::u8, {6'000}), use_future);
  };
  const auto write_two_tensors = [&] {
    writer_options options;
    options.replace = true;
    writer out(path, options);
    for (const char* const name : {"the first tensor", "the second tensor"}) get(add(out, name));
    get(out.finish_async(use_future));
  };
  write_two_tensors();
  loader with(host(), small_options(2));
  const std::int64_t points = for_every_allocation([&] {
    bool is_added = false;
    bool is_finished = false;
    {
      writer out = writer::append(path);
      is_added = succeeds_or_lacks_memory([&] { get(add(out, "the third tensor")); });
      is_finished = succeeds_or_lacks_memory([&] { get(out.finish_async(use_future)); });
    }
    until_failure = -1;
    const model loaded = get(with.load_async(path, use_future));
    CHECK(loaded.size() >= 2);
    if (is_added && is_finished) CHECK(static_cast<bool>(loaded.find("the third tensor")));
    for (const tensor& each : loaded) CHECK(bytes_of(each) == bytes);
    if (loaded.size() > 2) write_two_tensors();
  });
  CHECK(points > 10);
}

TEST_CASE("no memory: an exception becomes a fault, with its text if there is memory for it") {
  const std::string text(100, 'x');
  const std::int64_t points = for_every_allocation([&] {
    result<int> outcome = 0;
    std::thread([&] {
      outcome =
          catch_as_fault([&]() -> result<int> { throw error(errc::wrong_shape, text, text); });
    }).join();
    until_failure = -1;
    REQUIRE(!outcome);
    if (outcome.error().code == errc::memory_exceeded) return;
    CHECK(outcome.error().code == errc::wrong_shape);
    CHECK(outcome.error().cause() == text);
  });
  CHECK(points > 4);
}

TEST_CASE("no memory: at each allocation in turn, an io_context with pending loads is destroyed") {
  const made_file file({{"a", 999}});
  loader with(host(), small_options(2));
  for_every_allocation([&] {
    auto context = std::make_unique<asio::io_context>();
    for (int i = 0; i < 3; ++i) {
      const auto never_called = [](const boost::system::error_code&, const model&) {
        FAIL("called");
      };
      with.load_async(file.name(), asio::bind_executor(*context, never_called));
    }
    // Only allocations of other threads fail.
    std::thread([&] { context.reset(); }).join();
  });
}

TEST_CASE("no memory: at each allocation of a wait in turn, its handler may own another load") {
  const made_file file({{"a", 999}});
  read_script script([](const io_request&, std::uint64_t) -> read_fate {
    return {.until_released = read_fate::hold::start};
  });
  scripted_loader with(script, small_options(2));
  bool more = true;
  std::int64_t points = 0;
  for (; more; ++points) {
    CAPTURE(points);
    script.hold_again();
    load_operation waited = get(with.start_async(file.name(), {}, use_future));
    auto owned =
        std::make_unique<load_operation>(get(with.start_async(file.name(), {}, use_future)));
    REQUIRE(script.wait_until_held(2));
    with.settle();
    // If the wait fails, the destructor of the handler cancels a load of the same loader.
    auto handler = [owner = std::move(owned)](const boost::system::error_code&, const tensor&) {};
    {
      const failing_at now(points);
      std::thread([&] {
        try {
          waited.tensor_async("a", std::move(handler));
        } catch (const std::bad_alloc&) {
        }
      }).join();
      with.settle();
      more = has_failed;
    }
    script.release_all();
  }
  CHECK(points > 2);
}

TEST_CASE("no descriptors: at each number of them, a loader starts and loads, or says why not") {
  const made_file file({{"a", 999}, f32("b", 20'000)});
  const auto descriptors = static_cast<::rlim_t>(open_descriptors());
  ::rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  int loaded = 0;
  for (::rlim_t more = 0; more < 24; ++more) {
    CAPTURE(more);
    const ::rlimit fewer = {descriptors - 1 + more, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &fewer) == 0);
    std::string said;
    bool right = false;
    try {
      loader with(host(), small_options(2));
      const model got = get(with.load_async(file.name(), use_future));
      right = got.size() == 2;
    } catch (const error& e) {
      said = e.what();
    }
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    if (right) ++loaded;
    CHECK((right || holds(said, "Too many open files")));
  }
  CHECK(loaded > 0);
  CHECK(open_descriptors() == static_cast<std::size_t>(descriptors));
}
