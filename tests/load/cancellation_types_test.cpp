// SPDX-License-Identifier: Apache-2.0

// Which types of cancellation each operation accepts. A table has a row for each operation. Each
// row is run with each type: an accepted type ends the operation, and any other type is ignored.
// The comments of the public headers state the same types.

#include <doctest/doctest.h>

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <ringload/ringload.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine.hpp"
#include "support/gated_object.hpp"
#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;
using asio::cancellation_type;

namespace {

constexpr std::uint64_t tensor_bytes = 40'000;
// The header is read in large pieces. No piece of a longer header reaches the first tensor.
constexpr std::size_t header_spaces = 300'000;

// Two versions of a checkpoint, and their difference.
struct versions {
  const temporary_folder folder;
  const std::string base = checkpoint_text(equal_tensors(3, tensor_bytes), header_spaces, 1);
  const std::string next = checkpoint_text(equal_tensors(3, tensor_bytes), header_spaces, 2);
  const std::uint64_t data_begin = base.size() - 3 * tensor_bytes;
  std::string delta;

  versions() {
    write_file(folder.path() / "v1.safetensors", base);
    write_file(folder.path() / "next.safetensors", next);
    loader with(host(), small_options());
    delta_options options;
    options.sync = false;
    get(save_delta_async(with, path("v2.delta.zt"), path("v1.safetensors"),
                         path("next.safetensors"), options, use_future));
    std::filesystem::remove(path("next.safetensors"));
    delta = file_bytes(path("v2.delta.zt"), 0, std::filesystem::file_size(path("v2.delta.zt")));
  }

  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
};

// The operation under test, and the objects that it uses.
class scene {
 public:
  // The completion handler of the operation.
  struct recorder {
    using executor_type = asio::io_context::executor_type;
    using cancellation_slot_type = asio::cancellation_slot;

    scene* owner;

    executor_type get_executor() const noexcept { return owner->context.get_executor(); }
    cancellation_slot_type get_cancellation_slot() const noexcept { return owner->signal.slot(); }
    template <class T>
    void operator()(boost::system::error_code failure, const T&) const {
      ++owner->calls;
      owner->code = failure;
    }
  };

  explicit scene(const versions& all) : files(all) {}
  ~scene() { release(); }

  recorder handler() { return {this}; }

  source base() { return gated(files.base, "model.safetensors", files.data_begin); }
  source next() { return gated(files.next, "model.safetensors", files.data_begin); }
  source delta() { return gated(files.delta, "model.zt", 0); }

  void hold_all_reads() { gate_.set(read_gate::state::holds_all); }
  void hold_data_reads() { gate_.set(read_gate::state::holds_data); }
  void hold_engine() {
    blocks_thread_ = true;
    with.loader_engine()->post([released = release_.get_future().share()] { released.wait(); });
  }
  // Blocks the thread of the writer in a step.
  void hold_writer() {
    blocks_thread_ = true;
    const auto wait = [released = release_.get_future().share()](std::string_view) {
      released.wait();
      return false;
    };
    out.copy_async(RINGLOAD_TEST_DATA_DIR "/zt/all.zt", wait, copy_options(),
                   [](boost::system::error_code, std::uint64_t) {});
  }
  bool blocks_thread() const noexcept { return blocks_thread_; }
  void release() {
    gate_.set(read_gate::state::open);
    if (std::exchange(blocks_thread_, false)) release_.set_value();
  }

  // Memory with the bytes of the base version, one buffer for each tensor.
  std::vector<destination> destinations() {
    std::vector<destination> into;
    buffers.clear();
    for (unsigned i = 0; i < 3; ++i) {
      buffers.push_back(tensor_of(files.base, i));
      into.emplace_back("t" + std::to_string(i), buffers.back().data(), dtype::u8,
                        std::vector<std::uint64_t>{tensor_bytes});
    }
    return into;
  }
  bool has_version(const std::string& text) const {
    for (unsigned i = 0; i < 3; ++i) {
      if (buffers[i] != tensor_of(text, i)) return false;
    }
    return true;
  }
  tensor_ref tensor_named(const std::string& name) const {
    return {name, files.base.data(), dtype::u8, {1000}};
  }

  const versions& files;

 private:
  static std::string tensor_of(const std::string& text, unsigned i) {
    return text.substr(text.size() - (3 - i) * tensor_bytes, tensor_bytes);
  }
  source gated(const std::string& text, const std::string& name, std::uint64_t data_begin) {
    found_source object;
    object.folder = std::make_shared<gated_folder>(
        std::make_shared<gated_object>(gate_, text, data_begin), name);
    object.file = name;
    return object;
  }

  read_gate gate_;
  std::promise<void> release_;
  bool blocks_thread_ = false;

 public:
  const temporary_folder folder = temporary_folder::for_sockets();
  std::vector<std::string> buffers;
  asio::io_context context;
  asio::cancellation_signal signal;
  int calls = 0;
  boost::system::error_code code;
  loader with{host(), small_options()};
  std::optional<keeper> keeps;
  tensor copied;
  tensor_stream stream;
  load_operation load;
  group_load ranks_load;
  writer out;
};

using recorder = scene::recorder;

constexpr cancellation_type any = detail::cancel_by_any;
constexpr cancellation_type with_effects = detail::cancel_with_effects;
constexpr cancellation_type never = detail::cancel_never;

struct operation_row {
  const char* name;
  cancellation_type accepted;
  std::function<void(scene&, recorder)> start;
  // Checks what the operation left, if set.
  std::function<void(const scene&)> check = {};
};

void start_load(scene& s) {
  s.hold_data_reads();
  s.load = get(s.with.start_async(s.base(), use_future));
}

void start_group(scene& s, group_reading reading) {
  group_options options;
  options.reading = reading;
  std::shared_ptr<group> only_rank = std::move(make_thread_ranks(1).front());
  s.hold_data_reads();
  s.ranks_load = get(load_async(s.with, std::move(only_rank), s.base(), options, use_future));
}

// A writer in memory with an object `old`, whose thread is blocked.
void start_writer(scene& s) {
  s.out = writer::in_memory();
  get(s.out.add_async(s.tensor_named("old"), use_future));
  s.hold_writer();
}

std::vector<operation_row> rows_of_loads() {
  return {
      {"open_async", any,
       [](scene& s, recorder r) {
         s.hold_all_reads();
         s.with.open_async(s.base(), r);
       }},
      {"load_async", any,
       [](scene& s, recorder r) {
         s.hold_data_reads();
         s.with.load_async(s.base(), r);
       }},
      {"start_async", any,
       [](scene& s, recorder r) {
         s.hold_all_reads();
         s.with.start_async(s.base(), r);
       }},
      {"stream_async", any,
       [](scene& s, recorder r) {
         s.hold_all_reads();
         s.with.stream_async(s.base(), 1 << 20, r);
       }},
      {"next_async of a stream", any,
       [](scene& s, recorder r) {
         s.hold_data_reads();
         s.stream = get(s.with.stream_async(s.base(), 1 << 20, use_future));
         s.stream.next_async(r);
       }},
      {"next_async of a load", any,
       [](scene& s, recorder r) {
         start_load(s);
         s.load.next_async(r);
       }},
      {"tensor_async", any,
       [](scene& s, recorder r) {
         start_load(s);
         s.load.tensor_async("t1", r);
       }},
      {"finish_async", with_effects,
       [](scene& s, recorder r) {
         start_load(s);
         s.load.finish_async(r);
       }},
      {"fill_async", with_effects,
       [](scene& s, recorder r) {
         s.hold_data_reads();
         s.with.fill_async(s.next(), s.destinations(), r);
       },
       [](const scene& s) {
         if (!s.code) CHECK(s.has_version(s.files.next));
       }},
      {"copy_async", any,
       [](scene& s, recorder r) {
         s.copied = get(s.with.load_async(s.base(), use_future))[0];
         s.hold_engine();
         s.with.copy_async(s.copied, r);
       }},
  };
}

std::vector<operation_row> rows_of_saves() {
  return {
      {"save_async", any,
       [](scene& s, recorder r) {
         s.hold_engine();
         s.with.save_async((s.folder.path() / "saved.zt").string(), {s.tensor_named("a")}, r);
       },
       [](const scene& s) {
         CHECK(std::filesystem::exists(s.folder.path() / "saved.zt") == !s.code);
       }},
      {"writer::add_async", with_effects,
       [](scene& s, recorder r) {
         start_writer(s);
         s.out.add_async(s.tensor_named("new"), r);
       }},
      {"writer::declare_async", with_effects,
       [](scene& s, recorder r) {
         start_writer(s);
         object_info object;
         object.name = "group";
         object.layout = "quantized_group";
         object.shape = {1000};
         s.out.declare_async(object, r);
       }},
      {"writer::add_part_async", with_effects,
       [](scene& s, recorder r) {
         s.out = writer::in_memory();
         object_info object;
         object.name = "group";
         object.layout = "quantized_group";
         object.shape = {1000};
         get(s.out.declare_async(object, use_future));
         s.hold_writer();
         s.out.add_part_async("group", s.tensor_named("part"), {}, r);
       }},
      {"writer::add_alias_async", with_effects,
       [](scene& s, recorder r) {
         start_writer(s);
         s.out.add_alias_async("other", "old", r);
       }},
      {"writer::copy_async", with_effects,
       [](scene& s, recorder r) {
         start_writer(s);
         s.out.copy_async(
             RINGLOAD_TEST_DATA_DIR "/zt/all.zt", [](std::string_view) { return false; }, {}, r);
       }},
      {"writer::replace_async", with_effects,
       [](scene& s, recorder r) {
         start_writer(s);
         s.out.replace_async(s.tensor_named("old"), r);
       }},
      {"writer::set_attribute_async", with_effects,
       [](scene& s, recorder r) {
         start_writer(s);
         s.out.set_attribute_async("key", attribute("value"), r);
       }},
      {"writer::finish_async", with_effects,
       [](scene& s, recorder r) {
         start_writer(s);
         s.out.finish_async(r);
       }},
      {"finish_async of writer::append", with_effects,
       [](scene& s, recorder r) {
         const auto path = s.folder.path() / "appended.zt";
         std::filesystem::copy_file(RINGLOAD_TEST_DATA_DIR "/zt/all.zt", path);
         s.out = writer::append(path.string());
         s.hold_writer();
         s.out.finish_async(r);
       }},
  };
}

std::vector<operation_row> rows_of_deltas_and_groups() {
  return {
      {"save_delta_async", any,
       [](scene& s, recorder r) {
         s.hold_all_reads();
         delta_options options;
         options.sync = false;
         save_delta_async(s.with, s.folder.path() / "delta.zt", s.base(), s.next(), options, r);
       },
       [](const scene& s) {
         CHECK(std::filesystem::exists(s.folder.path() / "delta.zt") == !s.code);
       }},
      {"apply_async", any,
       [](scene& s, recorder r) {
         const model base = get(s.with.load_async(s.base(), use_future));
         s.hold_all_reads();
         apply_async(s.with, base, s.delta(), r);
       }},
      {"update_async", any,
       [](scene& s, recorder r) {
         s.hold_all_reads();
         update_async(s.with, s.destinations(), s.delta(), r);
       },
       [](const scene& s) { CHECK(s.has_version(s.code ? s.files.base : s.files.next)); }},
      {"load_version_async", any,
       [](scene& s, recorder r) {
         s.hold_engine();
         load_version_async(s.with, s.files.folder.path().string(), r);
       }},
      {"load_async of a group", with_effects,
       [](scene& s, recorder r) {
         std::shared_ptr<group> only_rank = std::move(make_thread_ranks(1).front());
         s.hold_data_reads();
         load_async(s.with, std::move(only_rank), s.base(), r);
       }},
      {"group_load::tensor_async", with_effects,
       [](scene& s, recorder r) {
         start_group(s, group_reading::own);
         s.ranks_load.tensor_async("t0", r);
       }},
      {"group_load::shard_async", with_effects,
       [](scene& s, recorder r) {
         start_group(s, group_reading::own);
         s.ranks_load.shard_async("t0", 0, r);
       }},
      {"group_load::fused_async", with_effects,
       [](scene& s, recorder r) {
         start_group(s, group_reading::own);
         s.ranks_load.fused_async("both", {"t0", "t1"}, 0, r);
       }},
      {"group_load::model_async", with_effects,
       [](scene& s, recorder r) {
         start_group(s, group_reading::own);
         s.ranks_load.model_async(r);
       }},
      {"group_load::push_async", with_effects,
       [](scene& s, recorder r) {
         start_group(s, group_reading::own);
         s.ranks_load.push_async("t0", 0, r);
       }},
      {"attach_async", never,
       [](scene& s, recorder r) {
         const std::string socket = (s.folder.path() / "keeper").string();
         loader shared(shared_host(), small_options(2));
         s.keeps.emplace(socket);
         s.keeps->publish("m", get(shared.load_async(s.files.path("v1.safetensors"), use_future)));
         attach_async(socket, "m", r);
       }},
      {"attach_next_async", any,
       [](scene& s, recorder r) {
         const std::string socket = (s.folder.path() / "keeper").string();
         s.keeps.emplace(socket);
         attach_next_async(socket, "m", {}, r);
       }},
  };
}

void run_rows(const std::vector<operation_row>& rows) {
  const versions files;
  for (const operation_row& row : rows) {
    for (const cancellation_type type :
         {cancellation_type::terminal, cancellation_type::partial, cancellation_type::total}) {
      const std::string name = row.name;
      CAPTURE(name);
      CAPTURE(static_cast<unsigned>(type));
      scene s(files);
      row.start(s, s.handler());
      // attach_async does not read, so the test cannot hold it.
      if (row.accepted != never) s.context.poll();
      CHECK(s.calls == 0);
      s.signal.emit(type);
      const bool accepted = (type & row.accepted) != cancellation_type::none;
      // The cancellation alone ends an operation whose reads are held. A blocked thread must be
      // released first.
      if (!accepted || s.blocks_thread()) s.release();
      s.context.run_for(patience);
      CHECK(s.calls == 1);
      if (accepted) CHECK(s.code == asio::error::operation_aborted);
      if (!accepted) CHECK(s.code == boost::system::error_code());
      if (row.check) row.check(s);
    }
  }
}

}  // namespace

TEST_CASE("cancellation: loads accept the types that their comments say") {
  run_rows(rows_of_loads());
}

TEST_CASE("cancellation: saves and writers accept the types that their comments say") {
  run_rows(rows_of_saves());
}

TEST_CASE("cancellation: deltas, groups and keepers accept the types that their comments say") {
  run_rows(rows_of_deltas_and_groups());
}
