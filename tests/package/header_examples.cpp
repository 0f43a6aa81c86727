// SPDX-License-Identifier: Apache-2.0

// The examples in the comments of the public headers. This file is compiled and never run;
// code_blocks.cmake checks that it has every example.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/group_load.hpp>
#include <ringload/hdf5.hpp>
#include <ringload/keeper.hpp>
#include <ringload/remote.hpp>
#include <ringload/ringload.hpp>
#include <ringload/writer.hpp>
#include <span>
#include <string>
#include <vector>

namespace asio = boost::asio;

// as_exception.hpp
void with_a_future(ringload::loader& loader, const std::string& path) {
  ringload::model m = loader.load_async(path, ringload::as_exception(asio::use_future)).get();
}

// diagnostics.hpp
asio::awaitable<void> with_the_place(ringload::loader& loader, std::string path) {
  ringload::diagnostics where;
  auto [code, model] = co_await loader.load_async(
      path, ringload::bind_diagnostics(where, asio::as_tuple(asio::use_awaitable)));
  if (code) std::puts(where.message().c_str());
}

// byte_source.hpp
asio::awaitable<void> from_a_store(std::shared_ptr<ringload::byte_store> my_store) {
  ringload::loader loader{ringload::host(), {}, {ringload::extension(my_store)}};
  ringload::model m = co_await loader.load_async("cache://models/7b");
}

asio::awaitable<void> from_bytes(ringload::loader& loader, std::span<const std::byte> bytes) {
  auto m = co_await loader.load_async(ringload::from_memory(bytes, "model.safetensors"));
}

// extension.hpp, hdf5.hpp
void with_hdf5() {
  // libhdf5 runs in this process.
  ringload::loader loader{ringload::host(), {}, {ringload::hdf5()}};
}

// remote.hpp
asio::awaitable<void> over_http() {
  ringload::loader loader{ringload::host(), {}, {ringload::remote()}};
  co_await loader.load_async("https://host/path/model.safetensors");
}

// delta.hpp
asio::awaitable<void> make_delta(ringload::loader& loader) {
  co_await ringload::save_delta_async(loader, "v2.delta.zt", "v1.safetensors", "v2.safetensors");
}

asio::awaitable<void> apply_delta(ringload::loader& loader) {
  ringload::model v1 = co_await loader.load_async("v1.safetensors");
  ringload::model v2 = co_await ringload::apply_async(loader, v1, "v2.delta.zt");
}

// group.hpp
void groups_of_ranks(std::uint32_t rank, std::uint32_t ranks) {
  // The ranks are threads of this process. Each thread gets one element:
  std::vector<std::unique_ptr<ringload::group>> groups = ringload::make_thread_ranks(4);

  // The ranks are processes on one machine. Each process calls:
  std::unique_ptr<ringload::group> group = ringload::join_group("/run/job7", rank, ranks);

  // The ranks are processes on several machines. Each process calls:
  auto machines = ringload::join_group("tcp://10.0.0.1:29500", rank, ranks);
}

// group_load.hpp
asio::awaitable<void> with_ranks(ringload::loader& loader, std::shared_ptr<ringload::group> group) {
  // All ranks make the same calls:
  auto load = co_await ringload::load_async(loader, group, "Qwen/Qwen3-8B");
  auto norm = co_await load.tensor_async("model.norm.weight");
  auto q = co_await load.shard_async("model.layers.0.self_attn.q_proj.weight", 0);
}

// keeper.hpp
asio::awaitable<void> keep() {
  ringload::loader loader{ringload::shared_host()};
  ringload::keeper keeper{"/run/models"};
  ringload::model loaded = co_await loader.load_async("Qwen/Qwen3-8B");
  keeper.publish("qwen", loaded);
}

asio::awaitable<void> attach() {
  // In another process:
  ringload::model qwen = ringload::attach("/run/models", "qwen");

  // Waits until the keeper publishes another version.
  qwen = co_await ringload::attach_next_async("/run/models", "qwen", attached_version(qwen));
}

// selection.hpp
void select(std::uint64_t first, std::uint64_t count, std::uint64_t rank, std::uint64_t ranks) {
  auto part = ringload::select()
                  .names({"lm_head.weight"})
                  .matching("model.layers.0.*")
                  .slice("lm_head.weight", 0, first, count)
                  .shard("*.q_proj.weight", 0, rank, ranks);
  auto split = ringload::select().replicate("*").shard("*.q_proj.weight", 0);
}

// writer.hpp
asio::awaitable<void> write(ringload::tensor tensor, ringload::object_options options) {
  ringload::writer out("model.zt");
  co_await out.add_async(tensor, options);
  ringload::write_result done = co_await out.finish_async();
}
