// SPDX-License-Identifier: Apache-2.0

// Loaders of the C interface, and all operations that they begin.

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
  return from ? from->of : ringload::selection();
}

}  // namespace

const char* ringload_version(void) { return RINGLOAD_VERSION; }

void ringload_device_release(ringload_device* device) { delete device; }

void ringload_extension_release(ringload_extension* extension) { delete extension; }

ringload_status ringload_loader_create(const ringload_device* on,
                                       const ringload_loader_options* within,
                                       ringload_loader** made) {
  return ringload_loader_create_with(on, within, nullptr, 0, made);
}

ringload_status ringload_loader_create_with(const ringload_device* on,
                                            const ringload_loader_options* within,
                                            const ringload_extension* const* extensions,
                                            size_t count, ringload_loader** made) {
  return guarded([&] {
    required(made, "the place for the loader is null") = nullptr;
    const ringload::device device = on ? on->of : ringload::host();
    if (count > 0) required(extensions, "the extensions are null");
    std::vector<ringload::extension> with;
    for (size_t i = 0; i < count; ++i) {
      with.push_back(required(extensions[i], "an extension is null").of);
    }
    auto loader =
        std::make_shared<ringload::loader>(device, loader_options_of(within), std::move(with));
    auto handle = std::make_unique<ringload_loader>();
    handle->thread = std::make_shared<completion_thread>();
    handle->of = std::move(loader);
    *made = handle.release();
    return RINGLOAD_OK;
  });
}

void ringload_loader_release(ringload_loader* loader) {
  if (!loader) return;
  const std::unique_ptr<ringload_loader> handle(loader);
  // In the completion thread, behind the operations that are yet to begin there.
  guarded([&] {
    std::promise<void> destroyed;
    const std::future<void> over = destroyed.get_future();
    const bool waits = !handle->thread->is_this();
    boost::asio::post(handle->thread->context(),
                      [of = std::move(handle->of), done = std::move(destroyed)]() mutable {
                        of.reset();
                        done.set_value();
                      });
    if (waits) over.wait();
    return RINGLOAD_OK;
  });
}

ringload_status ringload_loader_stats(const ringload_loader* loader, ringload_stats* into) {
  return guarded([&] {
    give(into, stats_of(required(loader, no_loader).of->stats()));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_open_begin(ringload_loader* loader, const char* const* sources,
                                    size_t count, const ringload_open_options* how,
                                    ringload_operation** begun) {
  return guarded([&] {
    const ringload_loader& with = required(loader, no_loader);
    if (count == 0) throw invalid_argument("there is no source");
    required(sources, "the sources are null");
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) {
      names.emplace_back(&required(sources[i], "a source is null"));
    }
    return begin_operation<ringload::checkpoint>(
        with.thread, begun,
        [of = with.of, names = std::move(names), options = options_of(how)](auto handler) mutable {
          if (names.size() == 1) {
            of->open_async(names.front(), options, std::move(handler));
          } else {
            of->open_async(std::move(names), options, std::move(handler));
          }
        });
  });
}

ringload_status ringload_open(ringload_loader* loader, const char* source,
                              const ringload_open_options* how, ringload_checkpoint** opened) {
  return begin_and_wait(
      [&](ringload_operation** begun) {
        return ringload_open_begin(loader, &source, 1, how, begun);
      },
      ringload_operation_checkpoint, opened);
}

ringload_status ringload_load_begin(ringload_loader* loader, const ringload_checkpoint* from,
                                    const ringload_selection* wanted,
                                    const ringload_load_options* how, ringload_operation** begun) {
  return guarded([&] {
    const ringload_loader& with = required(loader, no_loader);
    return begin_operation<ringload::model>(
        with.thread, begun,
        [of = with.of, file = required(from, no_checkpoint).of, some = selection_of(wanted),
         options = options_of(how)](auto handler) mutable {
          of->load_async(file, std::move(some), options.of, std::move(handler));
        });
  });
}

ringload_status ringload_load(ringload_loader* loader, const ringload_checkpoint* from,
                              const ringload_selection* wanted, const ringload_load_options* how,
                              ringload_model** loaded) {
  return begin_and_wait(
      [&](ringload_operation** begun) {
        return ringload_load_begin(loader, from, wanted, how, begun);
      },
      ringload_operation_model, loaded);
}

ringload_status ringload_start_begin(ringload_loader* loader, const ringload_checkpoint* from,
                                     const ringload_selection* wanted,
                                     const ringload_load_options* how, ringload_operation** begun) {
  return guarded([&] {
    const ringload_loader& with = required(loader, no_loader);
    return begin_operation<ringload::load_operation>(
        with.thread, begun,
        [of = with.of, file = required(from, no_checkpoint).of, some = selection_of(wanted),
         options = options_of(how)](auto handler) mutable {
          of->start_async(file, std::move(some), options.of, std::move(handler));
        });
  });
}

ringload_status ringload_start(ringload_loader* loader, const ringload_checkpoint* from,
                               const ringload_selection* wanted, const ringload_load_options* how,
                               ringload_loading** started) {
  return begin_and_wait(
      [&](ringload_operation** begun) {
        return ringload_start_begin(loader, from, wanted, how, begun);
      },
      ringload_operation_loading, started);
}

ringload_status ringload_fill_begin(ringload_loader* loader, const ringload_checkpoint* from,
                                    const ringload_destination* into, size_t count,
                                    const ringload_fill_options* how,
                                    const ringload_selection* wanted,
                                    const ringload_load_options* options,
                                    ringload_operation** begun) {
  return guarded([&] {
    // First of all: the destinations' owners are taken whatever else is wrong.
    const ringload::device on = loader ? loader->of->device() : ringload::host();
    std::vector<ringload::destination> destinations = destinations_of(into, count, on);
    const ringload_loader& with = required(loader, no_loader);
    return begin_operation<ringload::fill_result>(
        with.thread, begun,
        [of = with.of, file = required(from, no_checkpoint).of, into = std::move(destinations),
         policies = fill_options_of(how), some = selection_of(wanted),
         settings = options_of(options)](auto handler) mutable {
          of->fill_async(file, std::move(into), std::move(policies), std::move(some), settings.of,
                         std::move(handler));
        });
  });
}

ringload_status ringload_fill(ringload_loader* loader, const ringload_checkpoint* from,
                              const ringload_destination* into, size_t count,
                              const ringload_fill_options* how, const ringload_selection* wanted,
                              const ringload_load_options* options) {
  return begin_and_wait([&](ringload_operation** begun) {
    return ringload_fill_begin(loader, from, into, count, how, wanted, options, begun);
  });
}

ringload_status ringload_save_begin(ringload_loader* loader, const char* path,
                                    const ringload_saved_tensor* tensors, size_t count,
                                    const ringload_save_options* how, ringload_operation** begun) {
  return guarded([&] {
    // First of all, as in a fill.
    const ringload::device on = loader ? loader->of->device() : ringload::host();
    std::vector<ringload::tensor_ref> views = refs_of(tensors, count, on);
    const ringload_loader& with = required(loader, no_loader);
    return begin_operation<ringload::save_result>(
        with.thread, begun,
        [of = with.of, to = std::string(&required(path, "the path is null")),
         all = std::move(views), settings = save_options_of(how)](auto handler) mutable {
          of->save_async(to, std::move(all), std::move(settings), std::move(handler));
        });
  });
}

ringload_status ringload_save(ringload_loader* loader, const char* path,
                              const ringload_saved_tensor* tensors, size_t count,
                              const ringload_save_options* how) {
  return begin_and_wait([&](ringload_operation** begun) {
    return ringload_save_begin(loader, path, tensors, count, how, begun);
  });
}

// --- A load in progress

void ringload_loading_release(ringload_loading* loading) {
  if (loading) loading->of->cancel();
  delete loading;
}

ringload_status ringload_loading_progress(const ringload_loading* loading, ringload_stats* into) {
  return guarded([&] {
    give(into, stats_of(required(loading, no_loading).of->progress()));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_loading_file_progress(const ringload_loading* loading, size_t position,
                                               ringload_file_stats* into) {
  return guarded([&] {
    const ringload::load_operation& of = *required(loading, no_loading).of;
    const auto all = of.progress_of_files();
    if (position >= all.size()) return RINGLOAD_END;
    give(into, stats_of(all[position], of.catalog().files[position]));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_loading_tensor_begin(ringload_loading* loading, const char* name,
                                              ringload_operation** begun) {
  return guarded([&] {
    const ringload_loading& with = required(loading, no_loading);
    return begin_operation<ringload::tensor>(
        with.thread, begun,
        [of = with.of, wanted = std::string(&required(name, "the name is null"))](auto handler) {
          of->tensor_async(wanted, std::move(handler));
        });
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
    const ringload_loading& with = required(loading, no_loading);
    return begin_operation<std::optional<ringload::tensor>>(
        with.thread, begun, [of = with.of](auto handler) { of->next_async(std::move(handler)); });
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
    const ringload_loading& with = required(loading, no_loading);
    return begin_operation<ringload::model>(
        with.thread, begun, [of = with.of](auto handler) { of->finish_async(std::move(handler)); });
  });
}

ringload_status ringload_loading_finish(ringload_loading* loading, ringload_model** loaded) {
  return begin_and_wait(
      [&](ringload_operation** begun) { return ringload_loading_finish_begin(loading, begun); },
      ringload_operation_model, loaded);
}
