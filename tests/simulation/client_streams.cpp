// SPDX-License-Identifier: Apache-2.0

// Loads in windows.

#include "client.hpp"

namespace ringload::simulation {

struct client::opened_stream : running_load {
  tensor_stream operation;
  const known_file* file = nullptr;
  std::size_t taken = 0;
};

// A window counts allocations on a GPU, and allocations that may be kept, in pages of this size. No
// tensor is larger.
constexpr std::uint64_t large_page_bytes = std::uint64_t{2} << 20;

void client::stream() {
  const std::shared_ptr<loader> by = program_.any_loader();
  if (by->devices().size() > 1) return load();  // A window has a single device.
  // The wide file is larger than most windows.
  const known_file& file = random(2) == 0 ? program_.files.wide() : any_file();
  const load_options options = any_options();
  const bytes_by_name* expected = &expected_of(file, options);
  const std::string source = source_of(file);
  // In half of the windows, a large tensor must wait for the memory of others. Other windows have
  // groups of several tensors.
  const std::uint64_t least = settings().devices == 0 ? file.window_min : large_page_bytes;
  const std::uint64_t window = least + random(random(2) == 0 ? least / 2 : 2'000'000);
  auto handler = token<tensor_stream>(
      begin_operation(), [self = shared_from_this(), &file, expected, begin = history_now(),
                          is_local = source == file.path](bool ok, tensor_stream opened) {
        if (!ok) return self->next();
        auto stream = std::make_shared<opened_stream>();
        stream->operation = std::move(opened);
        stream->file = &file;
        stream->is_local = is_local;
        stream->expected = expected;
        stream->begin = begin;
        self->take_next(stream);
      });
  call([&] { by->stream_async(source, window, options, std::move(handler)); });
}

void client::take_next(const std::shared_ptr<opened_stream>& from) {
  if (random(40) == 0) return next();  // Leaves the stream unfinished.
  // A change during the last tensors fails only the last jobs of the stream.
  const bool is_near_end = from->taken + 3 > from->expected->size();
  if (random(is_near_end ? 4 : 20) == 0) change_soon(from, *from->file);
  auto handler = token<std::optional<tensor>>(
      begin_operation(from->begin),
      [self = shared_from_this(), from](bool ok, std::optional<tensor> done) {
        if (!ok) return self->next();
        if (done) {
          check_bytes(*done, *from->expected);
          done.reset();  // The window has room again.
          ++from->taken;
          return self->take_next(from);
        }
        if (from->taken != from->expected->size()) {
          violation("a stream ends before its last tensor");
        }
        if (from->must_fail) violation("a stream of a changed file has ended without a failure");
        self->next();
      });
  call([&] { from->operation.next_async(std::move(handler)); });
}

}  // namespace ringload::simulation
