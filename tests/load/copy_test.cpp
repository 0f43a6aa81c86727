// SPDX-License-Identifier: Apache-2.0

// Copies of tensors into their own memory.

#include <doctest/doctest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <optional>
#include <ringload/loader.hpp>
#include <string>
#include <vector>

#include "support/aligned_file.hpp"
#include "support/converted.hpp"
#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/settled.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

// Tensors of less than a block, of many slots, and of 0 bytes.
std::vector<made_tensor> tensors_to_copy() {
  return {f32("many", 200'001), {"odd", 77}, f32("one", 1), {"none", 0}, {"two", 2 * small_slot}};
}

device other_device() { return {device_kind::cuda, 3, host().maker()}; }

}  // namespace

TEST_CASE("copy: has the bytes, the name and the shape, and memory of its own") {
  const made_file file(tensors_to_copy(), 3);
  for (const auto engine : {read_engine::automatic, read_engine::threads}) {
    loader with(host(), small_options(2, engine));
    std::optional<model> loaded = get(with.load_async(file.name(), use_future));
    std::vector<tensor> copies;
    for (const tensor& t : *loaded) {
      const tensor& made = copies.emplace_back(get(with.copy_async(t, use_future)));
      CHECK(made.name() == t.name());
      CHECK(made.dtype() == t.dtype());
      CHECK(std::vector(made.shape().begin(), made.shape().end()) ==
            std::vector(t.shape().begin(), t.shape().end()));
      CHECK(made.device() == host());
      CHECK(made.data() != t.data());
      CHECK(difference(made, loaded->catalog().tensors[copies.size() - 1], loaded->catalog()) ==
            "");
    }
    // Copies do not need the model from which they were made.
    const std::string before(bytes_of(copies[1]));
    CHECK(settled_memory(with, file.name()).tensor_allocations == 1 + copies.size());
    loaded.reset();
    CHECK(settled_memory(with, file.name()).tensor_allocations == copies.size());
    CHECK(bytes_of(copies[1]) == before);
    copies.resize(2);
    CHECK(settled_memory(with, file.name()).tensor_bytes <= 800'004 + 4096 + 4096);
    copies.clear();
    CHECK(settled_memory(with, file.name()).tensor_bytes == 0);
  }
}

TEST_CASE("copy: converts as fills do") {
  const made_file file(tensors_to_copy());
  loader with(host(), small_options());
  const model loaded = get(with.load_async(file.name(), use_future));
  const tensor many = loaded.at("many");
  for (const dtype to : {dtype::f16, dtype::bf16, dtype::f64, dtype::i8, dtype::f8_e4m3fn}) {
    const tensor made = get(with.copy_async(many, {host(), to}, use_future));
    CHECK(made.dtype() == to);
    CHECK(made.size_bytes() == 200'001 * bits(to) / 8);
    if (to == dtype::f64) {
      CHECK(made.as<double>()[200'000] == static_cast<double>(many.as<float>()[200'000]));
    } else if (to == dtype::f16 || to == dtype::bf16) {
      CHECK((bytes_of(made) == reference_bytes(std::string(bytes_of(many)), dtype::f32, to)));
    }
  }
  CHECK(get(with.copy_async(many, {host(), dtype::f32}, use_future)).dtype() == dtype::f32);
}

TEST_CASE("copy: what cannot be done is refused with the tensor's name") {
  const made_file file(std::vector<made_tensor>{{"a", 16, "C64", 8}});
  loader with(host(), small_options());
  const tensor a = get(with.load_async(file.name(), use_future)).at("a");
  const auto converted = failure_of(with.copy_async(a, {host(), dtype::f16}, use_future));
  REQUIRE(converted);
  CHECK(converted->code() == errc::unsupported_dtype);
  CHECK(holds(converted->what(), "tensor 'a'"));
  const auto elsewhere = failure_of(with.copy_async(a, other_device(), use_future));
  REQUIRE(elsewhere);
  CHECK(elsewhere->code() == errc::device_unavailable);
  CHECK(holds(elsewhere->what(), "cuda:3"));
  CHECK(code_of(with.copy_async(tensor(), use_future)) == errc::no_such_tensor);
}

TEST_CASE("copy: a tensor of another loader, which is gone, and one that is mapped") {
  const made_file file(tensors_to_copy(), spaces_to_align(tensors_to_copy()));
  std::optional<tensor> from;
  {
    loader other(host(), small_options());
    load_options options;
    options.memory = tensor_memory::mapped;
    options.unmappable = on_unmappable::copy;
    from = get(other.load_async(file.name(), options, use_future)).at("many");
  }
  CHECK(from->read_only());
  loader with(host(), small_options());
  const tensor made = get(with.copy_async(*from, use_future));
  CHECK_FALSE(made.read_only());
  CHECK(bytes_of(made) == bytes_of(*from));
  // And a copy of a copy.
  CHECK(bytes_of(get(with.copy_async(made, use_future))) == bytes_of(made));
}

TEST_CASE("copy: may be awaited, outlives its loader, and is refused once that is gone") {
  const made_file file(tensors_to_copy());
  std::optional<tensor> made;
  {
    loader with(host(), small_options());
    asio::io_context context;
    asio::co_spawn(
        context,
        [](loader& by, std::string path, std::optional<tensor>& out) -> asio::awaitable<void> {
          std::string name = std::move(path);
          model loaded = co_await by.load_async(name);
          tensor own = co_await by.copy_async(loaded.at("odd"));
          out = own;
        }(with, file.name(), made),
        [](const std::exception_ptr& failed) { CHECK_FALSE(failed); });
    context.run();
  }
  REQUIRE(made.has_value());
  CHECK(made->size_bytes() == 77);
}

TEST_CASE("copy: the n-th piece that cannot be read fails it with the tensor's name") {
  const made_file file(tensors_to_copy());
  loader by_itself(host(), small_options());
  const tensor many = get(by_itself.load_async(file.name(), use_future)).at("many");
  for (const std::optional<dtype> as : {std::optional<dtype>(), std::optional(dtype::f16)}) {
    read_script counting;
    {
      scripted_loader with(counting, small_options(1));
      get(with.copy_async(many, {host(), as}, use_future));
    }
    REQUIRE(counting.started() >= 12);
    for (std::uint64_t n = 0; n < counting.started(); ++n) {
      read_script script([n](const io_request&, std::uint64_t nth) {
        return nth == n ? read_fate{-EIO} : read_fate{};
      });
      scripted_loader with(script, small_options(3), counted_host());
      const auto failed = failure_of(with.copy_async(many, {host(), as}, use_future));
      REQUIRE(failed);
      CHECK(holds(failed->what(), "tensor 'many'"));
      CHECK(arenas_taken == 0);
      CHECK(get(with.copy_async(many, {host(), as}, use_future)).size_bytes() > 0);
    }
  }
  CHECK(arenas_taken == 0);
}

TEST_CASE("copy: a piece of which less comes than asked for is gone on with") {
  const made_file file(tensors_to_copy());
  read_script script([](const io_request& what, std::uint64_t nth) {
    return nth % 2 == 0 ? read_fate{static_cast<int>(what.bytes / 2)} : read_fate{};
  });
  // One worker, because with two workers one of them could get all short reads.
  scripted_loader with(script, small_options(1));
  const model loaded = get(with.load_async(file.name(), {}, use_future));
  CHECK(bytes_of(get(with.copy_async(loaded.at("many"), host(), use_future))) ==
        bytes_of(loaded.at("many")));
}

TEST_CASE("copy: cancelled, it completes when nothing is in flight, with the tensor let go") {
  const made_file file(tensors_to_copy());
  loader by_itself(host(), small_options());
  std::optional<tensor> many = get(by_itself.load_async(file.name(), use_future)).at("many");
  read_script script([](const io_request&, std::uint64_t) {
    return read_fate{.until_released = read_fate::hold::completion};
  });
  scripted_loader with(script, small_options(2), counted_host());
  asio::cancellation_signal stop;
  auto copy = with.copy_async(*many, host(), asio::bind_cancellation_slot(stop.slot(), use_future));
  many.reset();
  REQUIRE(script.wait_until_held(2));
  stop.emit(asio::cancellation_type::terminal);
  with.settle();
  CHECK_FALSE(ready(copy));
  CHECK(settled_memory(by_itself, file.name()).tensor_allocations == 1);
  script.release_all();
  CHECK(code_of(std::move(copy)) == asio::error::operation_aborted);
  CHECK(arenas_taken == 0);
  CHECK(settled_memory(by_itself, file.name()).tensor_allocations == 0);
}

TEST_CASE("copy: more memory than the limit allows is refused") {
  const made_file file(tensors_to_copy());
  loader by_itself(host(), small_options());
  const tensor many = get(by_itself.load_async(file.name(), use_future)).at("many");
  loader_options within = small_options();
  within.arena_bytes_max = 8192;
  loader with(host(), within);
  const auto failed = failure_of(with.copy_async(many, use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::memory_exceeded);
  CHECK(holds(failed->what(), "tensor 'many'"));
}
