// SPDX-License-Identifier: Apache-2.0

#include <ringload/c.h>

#include <algorithm>
#include <mutex>
#include <ringload/error.hpp>
#include <ringload/loader.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "c/handles.hpp"
#include "c/operation.hpp"
#include "c/status.hpp"
#include "c/structs.hpp"

using namespace ringload::c;

namespace {

const char* const null_loader_text = "the loader is null";
const char* const null_checkpoint_text = "the checkpoint is null";
const char* const null_load_text = "the handle of the load is null";

ringload::selection selection_of(const ringload_selection* from) {
  if (!from) return {};
  const std::lock_guard lock(from->mutex);
  return from->value;
}

load_settings settings_of(const ringload_selection* selection,
                          const ringload_load_options* options) {
  load_settings settings = options_of(options);
  settings.options.select = selection_of(selection);
  return settings;
}

void check_names_once(const std::vector<ringload::tensor_ref>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const ringload::tensor_ref& tensor : tensors) names.emplace_back(tensor.name);
  std::ranges::sort(names);
  const auto duplicate = std::ranges::adjacent_find(names);
  if (duplicate == names.end()) return;
  throw ringload::error(ringload::errc::invalid_saving, "tensor '" + std::string(*duplicate) + "'",
                        "duplicate tensor name");
}

// The next functions implement both ringload_loading and ringload_tensor_stream.
template <class Handle>
void release(Handle* handle) {
  if (handle) handle->value->cancel();
  delete handle;
}

template <class Handle>
ringload_status progress(const Handle* handle, ringload_stats* into) {
  return guarded([&] {
    write_struct(into, stats_of(required(handle, null_load_text).value->progress()));
    return RINGLOAD_OK;
  });
}

template <class Handle>
ringload_status file_progress(const Handle* handle, size_t position, ringload_file_stats* into) {
  return guarded([&] {
    const ringload::tensor_stream& stream = *required(handle, null_load_text).value;
    const auto files = stream.progress_of_files();
    if (position >= files.size()) return RINGLOAD_END;
    write_struct(into, stats_of(files[position], stream.catalog().files[position]));
    return RINGLOAD_OK;
  });
}

template <class Handle>
ringload_status next_begin(Handle* handle, ringload_operation** operation) {
  return guarded(operation, [&] {
    const Handle& stream = required(handle, null_load_text);
    return begin_operation<std::optional<ringload::tensor>>(
        stream.thread, operation,
        [shared = stream.value](auto handler) { shared->next_async(std::move(handler)); });
  });
}

}  // namespace

ringload_status ringload_loader_stats(const ringload_loader* loader, ringload_stats* into) {
  return guarded([&] {
    write_struct(into, stats_of(required(loader, null_loader_text).value->stats()));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_open_begin(ringload_loader* loader, const char* const* sources,
                                    size_t count, const ringload_open_options* options,
                                    ringload_operation** operation) {
  return guarded(operation, [&] {
    const ringload_loader& handle = required(loader, null_loader_text);
    if (count == 0) throw invalid_argument("the number of sources is 0, expected at least 1");
    required(sources, "the sources are null");
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) {
      names.emplace_back(&required(sources[i], "a source is null"));
    }
    return begin_operation<ringload::checkpoint>(
        handle.thread, operation,
        [shared = handle.value, names = std::move(names),
         options = options_of(options)](auto handler) mutable {
          if (names.size() == 1) {
            shared->open_async(names.front(), options, std::move(handler));
          } else {
            shared->open_async(std::move(names), options, std::move(handler));
          }
        });
  });
}

ringload_status ringload_open(ringload_loader* loader, const char* source,
                              const ringload_open_options* options, ringload_checkpoint** opened) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_open_begin(loader, &source, 1, options, operation);
      },
      ringload_operation_checkpoint, opened);
}

ringload_status ringload_load_begin(ringload_loader* loader, const ringload_checkpoint* from,
                                    const ringload_selection* selection,
                                    const ringload_load_options* options,
                                    ringload_operation** operation) {
  return guarded(operation, [&] {
    const ringload_loader& handle = required(loader, null_loader_text);
    return begin_operation<ringload::model>(
        handle.thread, operation,
        [shared = handle.value, opened = required(from, null_checkpoint_text).value,
         settings = settings_of(selection, options)](auto handler) mutable {
          shared->load_async(opened, std::move(settings.options), std::move(handler));
        });
  });
}

ringload_status ringload_load(ringload_loader* loader, const ringload_checkpoint* from,
                              const ringload_selection* selection,
                              const ringload_load_options* options, ringload_model** loaded) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_load_begin(loader, from, selection, options, operation);
      },
      ringload_operation_model, loaded);
}

ringload_status ringload_start_begin(ringload_loader* loader, const ringload_checkpoint* from,
                                     const ringload_selection* selection,
                                     const ringload_load_options* options,
                                     ringload_operation** operation) {
  return guarded(operation, [&] {
    const ringload_loader& handle = required(loader, null_loader_text);
    return begin_operation<ringload::load_operation>(
        handle.thread, operation,
        [shared = handle.value, opened = required(from, null_checkpoint_text).value,
         settings = settings_of(selection, options)](auto handler) mutable {
          shared->start_async(opened, std::move(settings.options), std::move(handler));
        });
  });
}

ringload_status ringload_start(ringload_loader* loader, const ringload_checkpoint* from,
                               const ringload_selection* selection,
                               const ringload_load_options* options, ringload_loading** started) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_start_begin(loader, from, selection, options, operation);
      },
      ringload_operation_loading, started);
}

ringload_status ringload_fill_begin(ringload_loader* loader, const ringload_checkpoint* from,
                                    const ringload_destination* into, size_t count,
                                    const ringload_fill_options* rules,
                                    const ringload_selection* selection,
                                    const ringload_load_options* options,
                                    ringload_operation** operation) {
  return guarded(operation, [&] {
    // The destinations are converted before the checks, because this call takes ownership of their
    // DLPack tensors even if a check fails.
    const ringload::device on = loader ? loader->value->device() : ringload::host();
    std::vector<ringload::destination> destinations = destinations_of(into, count, on);
    const ringload_loader& handle = required(loader, null_loader_text);
    return begin_operation<ringload::fill_result>(
        handle.thread, operation,
        [shared = handle.value, opened = required(from, null_checkpoint_text).value,
         into = std::move(destinations), fill_options = fill_options_of(rules),
         settings = settings_of(selection, options)](auto handler) mutable {
          fill_options.load = std::move(settings.options);
          shared->fill_async(opened, std::move(into), std::move(fill_options), std::move(handler));
        });
  });
}

ringload_status ringload_fill(ringload_loader* loader, const ringload_checkpoint* from,
                              const ringload_destination* into, size_t count,
                              const ringload_fill_options* rules,
                              const ringload_selection* selection,
                              const ringload_load_options* options) {
  return begin_and_wait([&](ringload_operation** operation) {
    return ringload_fill_begin(loader, from, into, count, rules, selection, options, operation);
  });
}

ringload_status ringload_save_begin(ringload_loader* loader, const char* path,
                                    const ringload_saved_tensor* tensors, size_t count,
                                    const ringload_save_options* options,
                                    ringload_operation** operation) {
  return guarded(operation, [&] {
    // The tensors are converted before the checks, because this call takes ownership of their
    // DLPack tensors even if a check fails.
    const ringload::device on = loader ? loader->value->device() : ringload::host();
    std::vector<ringload::tensor_ref> refs = refs_of(tensors, count, on);
    const ringload_loader& handle = required(loader, null_loader_text);
    check_names_once(refs);
    return begin_operation<ringload::save_result>(
        handle.thread, operation,
        [shared = handle.value, target = std::string(&required(path, "the path is null")),
         refs = std::move(refs), settings = save_options_of(options)](auto handler) mutable {
          shared->save_async(target, std::move(refs), std::move(settings), std::move(handler));
        },
        nullptr, argument_failures::all);
  });
}

ringload_status ringload_save(ringload_loader* loader, const char* path,
                              const ringload_saved_tensor* tensors, size_t count,
                              const ringload_save_options* options) {
  return begin_and_wait([&](ringload_operation** operation) {
    return ringload_save_begin(loader, path, tensors, count, options, operation);
  });
}

ringload_status ringload_tensor_copy_begin(ringload_loader* loader, const ringload_tensor* tensor,
                                           const ringload_tensor_copy_options* options,
                                           ringload_operation** operation) {
  return guarded(operation, [&] {
    const ringload_loader& handle = required(loader, null_loader_text);
    return begin_operation<ringload::tensor>(
        handle.thread, operation,
        [shared = handle.value, original = required(tensor, "the tensor is null").value,
         converted = copy_options_of(options)](auto handler) {
          shared->copy_async(original, converted, std::move(handler));
        });
  });
}

ringload_status ringload_tensor_copy(ringload_loader* loader, const ringload_tensor* tensor,
                                     const ringload_tensor_copy_options* options,
                                     ringload_tensor** copy) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_tensor_copy_begin(loader, tensor, options, operation);
      },
      ringload_operation_tensor, copy);
}

// --- A load in progress

void ringload_loading_release(ringload_loading* loading) { release(loading); }

ringload_status ringload_loading_progress(const ringload_loading* loading, ringload_stats* into) {
  return progress(loading, into);
}

ringload_status ringload_loading_file_progress(const ringload_loading* loading, size_t position,
                                               ringload_file_stats* into) {
  return file_progress(loading, position, into);
}

ringload_status ringload_loading_next_begin(ringload_loading* loading,
                                            ringload_operation** operation) {
  return next_begin(loading, operation);
}

ringload_status ringload_loading_next(ringload_loading* loading, ringload_tensor** loaded) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_loading_next_begin(loading, operation);
      },
      ringload_operation_tensor, loaded);
}

ringload_status ringload_loading_tensor_begin(ringload_loading* loading, const char* name,
                                              ringload_operation** operation) {
  return guarded(operation, [&] {
    const ringload_loading& handle = required(loading, null_load_text);
    return begin_operation<ringload::tensor>(
        handle.thread, operation,
        [shared = handle.value, tensor_name = std::string(&required(name, "the name is null"))](
            auto handler) { shared->tensor_async(tensor_name, std::move(handler)); });
  });
}

ringload_status ringload_loading_tensor(ringload_loading* loading, const char* name,
                                        ringload_tensor** loaded) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_loading_tensor_begin(loading, name, operation);
      },
      ringload_operation_tensor, loaded);
}

ringload_status ringload_loading_finish_begin(ringload_loading* loading,
                                              ringload_operation** operation) {
  return guarded(operation, [&] {
    const ringload_loading& handle = required(loading, null_load_text);
    return begin_operation<ringload::model>(
        handle.thread, operation,
        [shared = handle.value](auto handler) { shared->finish_async(std::move(handler)); });
  });
}

ringload_status ringload_loading_finish(ringload_loading* loading, ringload_model** loaded) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_loading_finish_begin(loading, operation);
      },
      ringload_operation_model, loaded);
}

// --- A load with a window: tensors in order, in bounded memory

ringload_status ringload_stream_begin(ringload_loader* loader, const ringload_checkpoint* from,
                                      uint64_t window_bytes, const ringload_selection* selection,
                                      const ringload_load_options* options,
                                      ringload_operation** operation) {
  return guarded(operation, [&] {
    const ringload_loader& handle = required(loader, null_loader_text);
    return begin_operation<ringload::tensor_stream>(
        handle.thread, operation,
        [shared = handle.value, opened = required(from, null_checkpoint_text).value, window_bytes,
         settings = settings_of(selection, options)](auto handler) mutable {
          shared->stream_async(opened, window_bytes, std::move(settings.options),
                               std::move(handler));
        });
  });
}

ringload_status ringload_stream(ringload_loader* loader, const ringload_checkpoint* from,
                                uint64_t window_bytes, const ringload_selection* selection,
                                const ringload_load_options* options,
                                ringload_tensor_stream** started) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_stream_begin(loader, from, window_bytes, selection, options, operation);
      },
      ringload_operation_tensor_stream, started);
}

void ringload_tensor_stream_release(ringload_tensor_stream* stream) { release(stream); }

ringload_status ringload_tensor_stream_progress(const ringload_tensor_stream* stream,
                                                ringload_stats* into) {
  return progress(stream, into);
}

ringload_status ringload_tensor_stream_file_progress(const ringload_tensor_stream* stream,
                                                     size_t position, ringload_file_stats* into) {
  return file_progress(stream, position, into);
}

ringload_status ringload_tensor_stream_next_begin(ringload_tensor_stream* stream,
                                                  ringload_operation** operation) {
  return next_begin(stream, operation);
}

ringload_status ringload_tensor_stream_next(ringload_tensor_stream* stream,
                                            ringload_tensor** loaded) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_tensor_stream_next_begin(stream, operation);
      },
      ringload_operation_tensor, loaded);
}
