// SPDX-License-Identifier: Apache-2.0

// Loaders of the C interface, and all operations that loaders begin.

#include <ringload/c.h>

#include <future>
#include <ringload/loader.hpp>
#include <string>
#include <vector>

#include "c/handles.hpp"
#include "c/operation.hpp"
#include "c/status.hpp"
#include "c/structs.hpp"

using namespace ringload::c;

namespace {

const char* const no_loader = "the loader is null";
const char* const no_checkpoint = "the checkpoint is null";
const char* const no_loading = "the loading is null";

ringload::selection selection_of(const ringload_selection* from) {
  return from ? from->value : ringload::selection();
}

}  // namespace

const char* ringload_version(void) { return RINGLOAD_VERSION; }

void ringload_device_release(ringload_device* device) { delete device; }

void ringload_extension_release(ringload_extension* extension) { delete extension; }

ringload_status ringload_loader_create(const ringload_device* on,
                                       const ringload_loader_options* within,
                                       ringload_loader** result) {
  return ringload_loader_create_with(on, within, nullptr, 0, result);
}

ringload_status ringload_loader_create_with(const ringload_device* on,
                                            const ringload_loader_options* within,
                                            const ringload_extension* const* extensions,
                                            size_t count, ringload_loader** result) {
  return guarded([&] {
    required(result, "the place for the loader is null") = nullptr;
    const ringload::device device = on ? on->value : ringload::host();
    if (count > 0) required(extensions, "the extensions are null");
    std::vector<ringload::extension> added;
    for (size_t i = 0; i < count; ++i) {
      added.push_back(required(extensions[i], "an extension is null").value);
    }
    auto loader =
        std::make_shared<ringload::loader>(device, loader_options_of(within), std::move(added));
    auto handle = std::make_unique<ringload_loader>();
    handle->thread = std::make_shared<completion_thread>();
    handle->value = std::move(loader);
    *result = handle.release();
    return RINGLOAD_OK;
  });
}

void ringload_loader_release(ringload_loader* loader) {
  if (!loader) return;
  const std::unique_ptr<ringload_loader> handle(loader);
  // Runs in the completion thread, after the operations that have not begun yet.
  guarded([&] {
    std::promise<void> destroyed;
    const std::future<void> over = destroyed.get_future();
    const bool waits = !handle->thread->is_this();
    boost::asio::post(handle->thread->context(),
                      [value = std::move(handle->value), done = std::move(destroyed)]() mutable {
                        value.reset();
                        done.set_value();
                      });
    if (waits) over.wait();
    return RINGLOAD_OK;
  });
}

ringload_status ringload_loader_stats(const ringload_loader* loader, ringload_stats* into) {
  return guarded([&] {
    give(into, stats_of(required(loader, no_loader).value->stats()));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_open_begin(ringload_loader* loader, const char* const* sources,
                                    size_t count, const ringload_open_options* options,
                                    ringload_operation** begun) {
  return guarded([&] {
    const ringload_loader& handle = required(loader, no_loader);
    if (count == 0) throw invalid_argument("there is no source");
    required(sources, "the sources are null");
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) {
      names.emplace_back(&required(sources[i], "a source is null"));
    }
    return begin_operation<ringload::checkpoint>(
        handle.thread, begun,
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
      [&](ringload_operation** begun) {
        return ringload_open_begin(loader, &source, 1, options, begun);
      },
      ringload_operation_checkpoint, opened);
}

ringload_status ringload_load_begin(ringload_loader* loader, const ringload_checkpoint* from,
                                    const ringload_selection* wanted,
                                    const ringload_load_options* options,
                                    ringload_operation** begun) {
  return guarded([&] {
    const ringload_loader& handle = required(loader, no_loader);
    return begin_operation<ringload::model>(
        handle.thread, begun,
        [shared = handle.value, file = required(from, no_checkpoint).value,
         some = selection_of(wanted), options = options_of(options)](auto handler) mutable {
          shared->load_async(file, std::move(some), options.options, std::move(handler));
        });
  });
}

ringload_status ringload_load(ringload_loader* loader, const ringload_checkpoint* from,
                              const ringload_selection* wanted,
                              const ringload_load_options* options, ringload_model** loaded) {
  return begin_and_wait(
      [&](ringload_operation** begun) {
        return ringload_load_begin(loader, from, wanted, options, begun);
      },
      ringload_operation_model, loaded);
}

ringload_status ringload_start_begin(ringload_loader* loader, const ringload_checkpoint* from,
                                     const ringload_selection* wanted,
                                     const ringload_load_options* options,
                                     ringload_operation** begun) {
  return guarded([&] {
    const ringload_loader& handle = required(loader, no_loader);
    return begin_operation<ringload::load_operation>(
        handle.thread, begun,
        [shared = handle.value, file = required(from, no_checkpoint).value,
         some = selection_of(wanted), options = options_of(options)](auto handler) mutable {
          shared->start_async(file, std::move(some), options.options, std::move(handler));
        });
  });
}

ringload_status ringload_start(ringload_loader* loader, const ringload_checkpoint* from,
                               const ringload_selection* wanted,
                               const ringload_load_options* options, ringload_loading** started) {
  return begin_and_wait(
      [&](ringload_operation** begun) {
        return ringload_start_begin(loader, from, wanted, options, begun);
      },
      ringload_operation_loading, started);
}

ringload_status ringload_fill_begin(ringload_loader* loader, const ringload_checkpoint* from,
                                    const ringload_destination* into, size_t count,
                                    const ringload_fill_options* policies,
                                    const ringload_selection* wanted,
                                    const ringload_load_options* options,
                                    ringload_operation** begun) {
  return guarded([&] {
    // Must be first: ownership of the destinations is taken even if another argument is invalid.
    const ringload::device on = loader ? loader->value->device() : ringload::host();
    std::vector<ringload::destination> destinations = destinations_of(into, count, on);
    const ringload_loader& handle = required(loader, no_loader);
    return begin_operation<ringload::fill_result>(
        handle.thread, begun,
        [shared = handle.value, file = required(from, no_checkpoint).value,
         into = std::move(destinations), fill_options = fill_options_of(policies),
         some = selection_of(wanted), settings = options_of(options)](auto handler) mutable {
          shared->fill_async(file, std::move(into), std::move(fill_options), std::move(some),
                             settings.options, std::move(handler));
        });
  });
}

ringload_status ringload_fill(ringload_loader* loader, const ringload_checkpoint* from,
                              const ringload_destination* into, size_t count,
                              const ringload_fill_options* policies,
                              const ringload_selection* wanted,
                              const ringload_load_options* options) {
  return begin_and_wait([&](ringload_operation** begun) {
    return ringload_fill_begin(loader, from, into, count, policies, wanted, options, begun);
  });
}

ringload_status ringload_save_begin(ringload_loader* loader, const char* path,
                                    const ringload_saved_tensor* tensors, size_t count,
                                    const ringload_save_options* options,
                                    ringload_operation** begun) {
  return guarded([&] {
    // Must be first, as in a fill.
    const ringload::device on = loader ? loader->value->device() : ringload::host();
    std::vector<ringload::tensor_ref> views = refs_of(tensors, count, on);
    const ringload_loader& handle = required(loader, no_loader);
    return begin_operation<ringload::save_result>(
        handle.thread, begun,
        [shared = handle.value, to = std::string(&required(path, "the path is null")),
         all = std::move(views), settings = save_options_of(options)](auto handler) mutable {
          shared->save_async(to, std::move(all), std::move(settings), std::move(handler));
        });
  });
}

ringload_status ringload_save(ringload_loader* loader, const char* path,
                              const ringload_saved_tensor* tensors, size_t count,
                              const ringload_save_options* options) {
  return begin_and_wait([&](ringload_operation** begun) {
    return ringload_save_begin(loader, path, tensors, count, options, begun);
  });
}

// --- A load in progress

void ringload_loading_release(ringload_loading* loading) {
  if (loading) loading->value->cancel();
  delete loading;
}

ringload_status ringload_loading_progress(const ringload_loading* loading, ringload_stats* into) {
  return guarded([&] {
    give(into, stats_of(required(loading, no_loading).value->progress()));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_loading_file_progress(const ringload_loading* loading, size_t position,
                                               ringload_file_stats* into) {
  return guarded([&] {
    const ringload::load_operation& operation = *required(loading, no_loading).value;
    const auto files = operation.progress_of_files();
    if (position >= files.size()) return RINGLOAD_END;
    give(into, stats_of(files[position], operation.catalog().files[position]));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_loading_tensor_begin(ringload_loading* loading, const char* name,
                                              ringload_operation** begun) {
  return guarded([&] {
    const ringload_loading& handle = required(loading, no_loading);
    return begin_operation<ringload::tensor>(
        handle.thread, begun,
        [shared = handle.value, wanted = std::string(&required(name, "the name is null"))](
            auto handler) { shared->tensor_async(wanted, std::move(handler)); });
  });
}

ringload_status ringload_loading_tensor(ringload_loading* loading, const char* name,
                                        ringload_tensor** loaded) {
  return begin_and_wait(
      [&](ringload_operation** begun) {
        return ringload_loading_tensor_begin(loading, name, begun);
      },
      ringload_operation_tensor, loaded);
}

ringload_status ringload_loading_next_begin(ringload_loading* loading, ringload_operation** begun) {
  return guarded([&] {
    const ringload_loading& handle = required(loading, no_loading);
    return begin_operation<std::optional<ringload::tensor>>(
        handle.thread, begun,
        [shared = handle.value](auto handler) { shared->next_async(std::move(handler)); });
  });
}

ringload_status ringload_loading_next(ringload_loading* loading, ringload_tensor** loaded) {
  return begin_and_wait(
      [&](ringload_operation** begun) { return ringload_loading_next_begin(loading, begun); },
      ringload_operation_tensor, loaded);
}

ringload_status ringload_loading_finish_begin(ringload_loading* loading,
                                              ringload_operation** begun) {
  return guarded([&] {
    const ringload_loading& handle = required(loading, no_loading);
    return begin_operation<ringload::model>(
        handle.thread, begun,
        [shared = handle.value](auto handler) { shared->finish_async(std::move(handler)); });
  });
}

ringload_status ringload_loading_finish(ringload_loading* loading, ringload_model** loaded) {
  return begin_and_wait(
      [&](ringload_operation** begun) { return ringload_loading_finish_begin(loading, begun); },
      ringload_operation_model, loaded);
}
