// SPDX-License-Identifier: Apache-2.0

// ringload delta: writes the difference of two versions of a checkpoint. ringload apply: writes the
// version that results from a chain of deltas.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <ringload/delta.hpp>
#include <ringload/loader.hpp>
#include <ringload/save.hpp>
#include <ringload/writer.hpp>
#include <string>
#include <utility>

#include "command_loop.hpp"
#include "commands.hpp"
#include "interrupts.hpp"
#include "open_request.hpp"
#include "openssl_hasher.hpp"
#include "progress_bar.hpp"
#include "saved_contents.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace {

namespace asio = boost::asio;

asio::awaitable<void> write_delta(loader& host_loader, const delta_request& request,
                                  delta_result& result) {
  delta_options options;
  options.zstd_level = request.zstd_level;
  options.indexed = request.indexed;
  options.replace = false;
  options.sha256 = [] { return openssl_hasher(::EVP_sha256()); };
  const source base = request.load.from.sources[0];
  const source next = request.load.from.sources[1];
  auto written = co_await save_delta_async(host_loader, request.to, base, next, options);
  result = written;
}

asio::awaitable<void> write_version(loader& host_loader, const apply_request& request,
                                    model version, std::uint64_t& bytes) {
  const std::string path = request.to;
  if (!path.ends_with(".zt")) {
    save_options saving;
    saving.replace = false;
    saving.metadata = safetensors_metadata(version);
    auto tensors = refs_of(version);
    auto saved = co_await host_loader.save_async(path, std::move(tensors), saving);
    bytes = saved.bytes;
    co_return;
  }
  writer_options options;
  options.replace = false;
  options.extensions = extensions_for(request.load.from);
  writer out(path, options);
  co_await add_model(out, std::move(version), object_options());
  auto written = co_await out.finish_async();
  bytes = written.bytes;
}

asio::awaitable<void> apply_chain(loader& host_loader, const apply_request& request,
                                  std::uint64_t& bytes) {
  const std::vector<std::string>& sources = request.load.from.sources;
  load_options options;
  options.allocation = allocation::per_tensor;  // Replaced tensors can then be freed separately.
  const source base = sources.front();
  auto version = co_await host_loader.load_async(base, options);
  for (std::size_t i = 1; i < sources.size(); ++i) {
    const source delta = sources[i];
    auto next = co_await apply_async(host_loader, version, delta);
    version = std::move(next);
  }
  co_await write_version(host_loader, request, std::move(version), bytes);
}

std::string delta_text(const delta_request& request, const delta_result& result) {
  return printable(request.to) + ": " + std::to_string(result.bytes) + " bytes, " +
         std::to_string(result.elements_changed) + " of " + std::to_string(result.elements) +
         " elements changed\n" + "tensors: " + std::to_string(result.tensors_unchanged) +
         " unchanged, " + std::to_string(result.tensors_sparse) + " sparse, " +
         std::to_string(result.tensors_dense) + " dense, " + std::to_string(result.tensors_whole) +
         " whole, " + std::to_string(result.tensors_removed) + " removed\n";
}

}  // namespace

void make_delta(const delta_request& request, output& out) {
  watch_for_interrupts();
  loader host_loader(host(), request.load.options, extensions_for(request.load.from));
  asio::io_context context;
  progress_bar bar("comparing", false);
  delta_result result;
  run_to_end(context, write_delta(host_loader, request, result), bar, [] { return progress(); });
  out.write(delta_text(request, result));
  out.flush();
}

void apply_deltas(const apply_request& request, output& out) {
  watch_for_interrupts();
  loader host_loader(host(), request.load.options, extensions_for(request.load.from));
  asio::io_context context;
  progress_bar bar("applying", false);
  std::uint64_t bytes = 0;
  run_to_end(context, apply_chain(host_loader, request, bytes), bar, [] { return progress(); });
  out.write(printable(request.to) + ": " + std::to_string(bytes) + " bytes\n");
  out.flush();
}

}  // namespace ringload::tool
