// SPDX-License-Identifier: Apache-2.0

// Checkpoints that are objects of a store: loads, fills, windows and failures.

#include <doctest/doctest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <ringload/ringload.hpp>
#include <string>
#include <vector>

#include "support/checkpoint_folder.hpp"
#include "support/counted_device.hpp"
#include "support/gated_object.hpp"
#include "support/made_checkpoint.hpp"
#include "support/memory_store.hpp"
#include "support/npz_text.hpp"
#include "support/places.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

using fate = object_fate::kind;

const std::vector<made_tensor> object_tensors{
    {"a", 999}, f32("b", 50'000), {"c", 250'000}, {"d", 70'001}};

struct stored_checkpoints {
  memory_script script;
  std::shared_ptr<memory_store> store = std::make_shared<memory_store>(script);
  // The same bytes in a file, for comparison.
  made_file plain{object_tensors, 3};
  npz_file deflated{
      {member("long", npy_text("|u1", false, "400000,", compressible(400'000, 3)), true),
       member("raw", npy_text("|u1", false, "90000,", noise(90'000, 4)), false)}};

  stored_checkpoints() {
    store->put("f/model.safetensors", whole_text(plain.name()));
    store->put("n/arrays.npz", whole_text(deflated.name()));
  }
  static std::string whole_text(const std::string& path) {
    return file_bytes(path, 0, std::filesystem::file_size(path));
  }
  std::vector<extension> with() const { return {extension(store)}; }
  loader loads(std::uint32_t slots = 3) const {
    return loader(counted_host(), small_options(slots), with());
  }
};

std::uint64_t bytes_of_files(const std::vector<file_stats>& all) {
  std::uint64_t sum = 0;
  for (const file_stats& each : all) sum += each.bytes_read;
  return sum;
}

// An object whose identity() waits, after its bytes were read, until `released`.
class slow_identity final : public byte_source {
 public:
  slow_identity(std::string text, std::shared_future<void> released)
      : text_(std::move(text)), released_(std::move(released)) {}
  ~slow_identity() override { threads_.join(); }

  std::uint64_t bytes() const noexcept override { return text_.size(); }
  std::string identity() const override {
    if (was_read_) {
      waits = true;
      released_.wait();
    }
    return "v1";
  }
  void read_async(const source_read& request, read_handler done) override {
    was_read_ = request.offset > 0;
    asio::post(threads_, [this, request, done = std::move(done)]() mutable {
      std::memcpy(request.into.data(), text_.data() + request.offset, request.into.size());
      std::move(done)(nullptr);
    });
  }

  mutable std::atomic<bool> waits = false;

 private:
  const std::string text_;
  const std::shared_future<void> released_;
  std::atomic<bool> was_read_ = false;
  asio::thread_pool threads_{1};
};

bool same(const model& one, const model& other) {
  bool all = one.size() == other.size();
  for (std::size_t i = 0; i < one.size() && all; ++i) {
    all = one[i].name() == other[i].name() && bytes_of(one[i]) == bytes_of(other[i]);
  }
  return all;
}

}  // namespace

TEST_CASE("byte_source: a slow store does not delay the end of loads of files") {
  stored_checkpoints all;
  std::promise<void> release;
  const auto object = std::make_shared<slow_identity>(
      stored_checkpoints::whole_text(all.plain.name()), release.get_future().share());
  loader with = all.loads();
  const found_source found = {
      std::make_shared<gated_folder>(object, "m.safetensors"), "m.safetensors", {}};
  auto slow = with.load_async(found, use_future);
  REQUIRE(comes_true([&] { return object->waits.load(); }));
  auto local = with.load_async(all.plain.name(), use_future);
  CHECK(local.wait_for(patience) == std::future_status::ready);
  CHECK(slow.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  release.set_value();
  CHECK(same(get(std::move(slow)), get(std::move(local))));
}

TEST_CASE("byte_source: an object is loaded as the same file is, and the statistics say so") {
  stored_checkpoints all;
  for (const auto& [name, path] :
       {std::pair(std::string("memory://f/model.safetensors"), all.plain.name()),
        std::pair(std::string("memory://f"), all.plain.name()),
        std::pair(std::string("memory://n/arrays.npz"), all.deflated.name())}) {
    for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
      for (const std::uint32_t slots : {1U, 4U}) {
        CAPTURE(name);
        CAPTURE(slots);
        loader with(host(), small_options(slots, engine), all.with());
        const model wanted = get(with.load_async(path, use_future));
        const model found = get(with.load_async(name, use_future));
        CHECK(same(found, wanted));
        CHECK(found.catalog().files.front().path.starts_with("memory://"));
        CHECK(found.stats().bytes_remote >= found.catalog().tensors.front().stored_bytes);
        CHECK(found.stats().bytes_direct + found.stats().bytes_buffered == 0);
        CHECK(found.stats().requests == found.stats().reads);
        CHECK(found.stats().bytes_arrived() <= found.stats().bytes_total);
      }
    }
  }
  CHECK(all.script.objects == 0);
}

TEST_CASE("byte_source: selections, conversions, fills, windows and single tensors") {
  stored_checkpoints all;
  loader with(host(), small_options(), all.with());
  const checkpoint from = get(with.open_async("memory://f/model.safetensors", use_future));
  const checkpoint file = get(with.open_async(all.plain.name(), use_future));

  selection some;
  some.slice("b", 0, 1000, 20'000).names({"d"});
  load_options half;
  half.dtype = dtype::f16;
  CHECK(same(get(with.load_async(from, selecting(some, half), use_future)),
             get(with.load_async(file, selecting(some, half), use_future))));

  places memory(file, 1);
  get(with.fill_async(from, memory.into(), use_future));
  CHECK(memory.all_whole());

  tensor_stream stream =
      get(with.stream_async("memory://f/model.safetensors", 32 << 20, use_future));
  std::uint64_t bytes = 0;
  while (auto next = get(stream.next_async(use_future))) bytes += next->size_bytes();
  CHECK(bytes == from.catalog().size_bytes());
  CHECK(stream.progress().bytes_remote >= bytes);
  CHECK(stream.progress().requests == stream.progress().reads);
  CHECK(bytes_of_files(stream.progress_of_files()) == stream.progress().bytes_remote);

  load_operation one = get(with.start_async("memory://f/model.safetensors", use_future));
  CHECK(get(one.tensor_async("c", use_future)).size_bytes() == 250'000);
}

TEST_CASE("byte_source: an index leads to shards beside it, which are announced") {
  stored_checkpoints all;
  all.store->put("s/one.safetensors", one_tensor_text("a", noise(70'000, 1)));
  all.store->put("s/two.safetensors", one_tensor_text("b", noise(70'000, 2)));
  const auto put_index = [&](const std::string& second) {
    all.store->put("s/model.safetensors.index.json",
                   index_text({{"a", "one.safetensors"}, {"b", second}}));
  };
  loader with(host(), small_options(), all.with());
  const auto load = [&](const char* name) { return with.load_async(name, use_future); };

  put_index("two.safetensors");
  CHECK(get(load("memory://s/model.safetensors.index.json")).size() == 2);
  CHECK(all.store->expected == std::vector<std::string>{"one.safetensors", "two.safetensors"});
  const model both = get(load("memory://s"));
  CHECK(both.size() == 2);
  REQUIRE(both.stats_of_files().size() == 2);
  for (const file_stats& each : both.stats_of_files()) {
    CHECK(each.bytes_read >= 70'000);
    CHECK(each.bytes_read < 80'000);
    CHECK(each.seconds_to_first_read > both.stats().seconds_opening);
    CHECK(each.bytes_per_second() > 0);
    CHECK(each.seconds_to_first_read + each.seconds_reading <= both.stats().seconds);
  }
  CHECK(bytes_of_files(both.stats_of_files()) == both.stats().bytes_remote);
  CHECK(read_catalog("memory://s", open_options(), all.with()).tensors.size() == 2);

  put_index("three.safetensors");
  CHECK(code_of(load("memory://s")) == errc::incomplete_series);
  for (const char* hostile :
       {"../f/model.safetensors", "/f", "x//y", "./one.safetensors", "x/.."}) {
    CAPTURE(hostile);
    put_index(hostile);
    const auto failed = failure_of(load("memory://s"));
    REQUIRE(failed);
    CHECK((failed->code() == errc::path_outside_source || failed->code() == errc::malformed_index));
  }
  all.store->lists = false;
  CHECK(code_of(load("memory://s")) == errc::unsupported_feature);
}

TEST_CASE("byte_source: which names are a store's") {
  stored_checkpoints all;
  all.store->put("owner/model.safetensors", one_tensor_text("a", "123"));
  loader with(host(), small_options(), all.with());
  CHECK(get(with.load_async("owner/in-memory", use_future)).size() == 1);
  CHECK(code_of(with.load_async("owner/not-in-memory", use_future)) == errc::source_not_found);
  const auto none = failure_of(with.load_async("memory://nothing", use_future));
  REQUIRE(none);
  CHECK(none->code() == errc::source_not_found);
  CHECK(holds(none->what(), "there is nothing"));
  const auto listed = failure_of(
      with.open_async(std::vector<std::string>{all.plain.name(), "memory://f"}, use_future));
  REQUIRE(listed);
  CHECK(listed->code() == errc::not_a_regular_file);
  const std::vector<std::string> both{all.plain.name(), "memory://n/arrays.npz"};
  CHECK(get(with.open_async(both, use_future)).size() == object_tensors.size() + 2);

  loader without(host(), small_options());
  const auto absent = failure_of(without.load_async("https://host/model.safetensors", use_future));
  REQUIRE(absent);
  CHECK(absent->code() == errc::source_not_found);
  CHECK(holds(absent->what(), "ringload::remote()"));
}

TEST_CASE("byte_source: what needs a file of a file system is refused") {
  stored_checkpoints all;
  all.store->put("h/x.h5", "\x89HDF\r\n\x1a\n" + std::string(600, 'x'));
  loader with(host(), small_options(), all.with());
  const std::string name = "memory://f/model.safetensors";
  CHECK(code_of(with.load_async(name, by(read_route::direct), use_future)) ==
        errc::direct_unavailable);
  load_options mapped;
  mapped.memory = tensor_memory::mapped;
  const auto failed = failure_of(with.load_async(name, mapped, use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::not_mappable);
  mapped.unmappable = on_unmappable::copy;
  CHECK(get(with.load_async(name, mapped, use_future)).stats().bytes_mapped == 0);
  CHECK(code_of(with.load_async("memory://h/x.h5", use_future)) == errc::unsupported_feature);
}

TEST_CASE("byte_source: an object that is replaced meanwhile is a changed file") {
  stored_checkpoints all;
  loader with = all.loads();
  const checkpoint from = get(with.open_async("memory://f/model.safetensors", use_future));
  all.script.follow([&](const source_read&, std::uint64_t n) {
    if (n == 3) all.store->version = 2;
    return object_fate();
  });
  const auto failed = failure_of(with.load_async(from, use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::changed_file);
  CHECK(holds(failed->what(), "memory://f/model.safetensors"));
  CHECK(code_of(with.load_async(from, use_future)) == errc::changed_file);
  CHECK(arenas_taken == 0);
}

TEST_CASE("byte_source: a file that is written while the next one is opened is a changed file") {
  stored_checkpoints all;
  const made_file file({{"x", 5'000}}, 1);
  loader with = all.loads();
  all.script.follow([&](const source_read&, std::uint64_t n) {
    // The size stays the same, but a byte of the data changes.
    if (n == 0)
      std::fstream(file.path(), std::ios::in | std::ios::out).seekp(-1, std::ios::end) << '?';
    return object_fate();
  });
  const std::vector<std::string> files = {file.name(), "memory://f/model.safetensors"};
  const auto failed = failure_of(with.load_async(files, use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::changed_file);
  CHECK(holds(failed->what(), file.name()));
  all.script.follow({});
  CHECK(get(with.load_async(files, use_future)).size() == 5);
}

TEST_CASE("byte_source: each read in turn fails, or throws: the load says which byte and why") {
  stored_checkpoints all;
  for (const std::string name : {"memory://f/model.safetensors", "memory://n/arrays.npz"}) {
    std::uint64_t reads = 0;
    {
      loader with = all.loads();
      all.script.follow({});
      get(with.load_async(name, use_future));
      reads = all.script.reads();
    }
    REQUIRE(reads > 6);
    for (std::uint64_t n = 0; n < reads; ++n) {
      for (const fate how : {fate::fails, fate::throws}) {
        CAPTURE(name);
        CAPTURE(n);
        all.script.follow([n, how](const source_read&, std::uint64_t nth) {
          return object_fate{nth == n ? how : fate::read};
        });
        loader with = all.loads();
        const auto failed = failure_of(with.load_async(name, use_future));
        REQUIRE(failed);
        CHECK(failed->code() == system_code(EIO));
        CHECK(holds(failed->what(), name));
        CHECK(holds(failed->what(), "byte "));
        CHECK(holds(failed->what(), "the store is on fire"));
        CHECK(arenas_taken == 0);
        CHECK(all.script.objects == 0);
      }
    }
  }
}

TEST_CASE("byte_source: cancelled while each read in turn is held, also of a header") {
  stored_checkpoints all;
  const std::string name = "memory://f/model.safetensors";
  std::uint64_t reads = 0;
  {
    loader with = all.loads();
    get(with.load_async(name, use_future));
    reads = all.script.reads();
  }
  for (std::uint64_t n = 0; n < reads; ++n) {
    for (const bool destroyed : {false, true}) {
      CAPTURE(n);
      all.script.follow([n](const source_read&, std::uint64_t nth) {
        return object_fate{nth >= n ? fate::held : fate::read};
      });
      std::optional<loader> with(std::in_place, counted_host(), small_options(3), all.with());
      asio::cancellation_signal signal;
      auto ends = with->load_async(name, asio::bind_cancellation_slot(signal.slot(), use_future));
      REQUIRE(all.script.wait_until_held(1));
      if (destroyed) {
        with.reset();
      } else {
        signal.emit(asio::cancellation_type::terminal);
      }
      CHECK(code_of(std::move(ends)) == asio::error::operation_aborted);
      CHECK(all.script.held() == 0);
      with.reset();
      CHECK(arenas_taken == 0);
      CHECK(all.script.objects == 0);
    }
  }
}

TEST_CASE("from_memory: bytes are loaded as the file is that has them, of any format") {
  const stored_checkpoints all;
  for (const std::string& path : {all.plain.name(), all.deflated.name()}) {
    const auto text = std::make_shared<const std::string>(stored_checkpoints::whole_text(path));
    const std::string name = std::filesystem::path(path).filename().string();
    const auto bytes = std::as_bytes(std::span<const char>(*text));
    for (const std::uint32_t slots : {1U, 4U}) {
      loader with(host(), small_options(slots));
      const model wanted = get(with.load_async(path, use_future));
      const std::weak_ptr<const std::string> kept = text;
      const model found = get(with.load_async(from_memory(bytes, name, text), use_future));
      CHECK(same(found, wanted));
      CHECK(found.catalog().files.front().path == name);
      const checkpoint opened = get(with.open_async(from_memory(bytes, name), use_future));
      CHECK(same(get(with.load_async(opened, use_future)), wanted));
    }
    CHECK(text.use_count() == 1);
  }
}

TEST_CASE("from_memory: what is no checkpoint is refused by its name") {
  loader with(host(), small_options(2));
  const std::string text = stored_checkpoints::whole_text(made_file(object_tensors, 3).name());
  const auto failure = [&](std::size_t bytes, std::string name) {
    const auto some = std::as_bytes(std::span<const char>(text)).first(bytes);
    return failure_of(with.load_async(from_memory(some, std::move(name)), use_future));
  };
  const auto cut = failure(text.size() - 1, "cut.safetensors");
  REQUIRE(cut);
  CHECK(holds(cut->what(), "cut.safetensors"));
  CHECK(failure(0, "empty.safetensors"));
  CHECK(failure(text.size(), ""));
  CHECK(failure_of(with.load_async(found_source(), use_future))->code() == errc::source_not_found);
}

TEST_CASE("from_memory: what a writer made in memory is loaded from there") {
  const std::string bytes = noise(3'000'000, 5);
  writer out = writer::in_memory();
  get(out.add_async(tensor_ref("a", bytes.data(), dtype::f32, {750, 1000}), use_future));
  const write_result made = get(out.finish_async(use_future));
  loader with(host(), small_options(2));
  const model back = get(with.load_async(from_memory(made.file, "made.zt"), use_future));
  CHECK(bytes_of(back.at("a")) == bytes);
}
