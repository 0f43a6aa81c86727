// SPDX-License-Identifier: Apache-2.0

#include <ringload/c.h>

#include <algorithm>
#include <memory>
#include <ringload/group.hpp>
#include <ringload/group_load.hpp>
#include <string>
#include <utility>
#include <vector>

#include "c/group.hpp"
#include "c/handles.hpp"
#include "c/operation.hpp"
#include "c/status.hpp"
#include "c/structs.hpp"

using namespace ringload::c;

namespace ringload::c {

// The handle of one rank for a load by a group, and the loader of this rank. The C handle and each
// operation share the ownership of the rank_load. Therefore no call is pending when the last owner
// destroys the rank_load, and the destructor of group_load need not wait. The loader is destroyed
// after the load.
struct rank_load {
  std::shared_ptr<ringload::loader> loader;
  ringload::group_load value;
};

}  // namespace ringload::c

struct ringload_group_loading {
  std::shared_ptr<completion_thread> thread;
  std::shared_ptr<rank_load> value;
};

namespace {

ringload::group_reading reading_of(ringload_group_reading from) {
  switch (from) {
    case RINGLOAD_READING_DIVIDED: return ringload::group_reading::divided;
    case RINGLOAD_READING_OWN: return ringload::group_reading::own;
  }
  throw invalid_argument("no such ringload_group_reading");
}

// Starts an operation. Calls `initiate` with the load and the completion handler. Throws
// invalid_argument if `loading` or `operation` is null.
template <class T = ringload::tensor, class Initiate>
ringload_status begin_call(ringload_group_loading* loading, ringload_operation** operation,
                           Initiate initiate) {
  const ringload_group_loading& handle = required(loading, "the handle of the load is null");
  return begin_operation<T>(
      handle.thread, operation,
      [load = handle.value.get(), initiate = std::move(initiate)](auto handler) mutable {
        initiate(load->value, std::move(handler));
      },
      handle.value);
}

std::string name_of(const char* name) { return &required(name, "the name is null"); }

}  // namespace

ringload_status ringload_thread_groups(uint32_t ranks, uint32_t milliseconds,
                                       ringload_group** result) {
  return guarded([&] {
    required(result, "the output pointer for the groups is null");
    std::fill_n(result, ranks, nullptr);
    auto groups = ringload::make_thread_ranks(ranks, group_timeout_of(milliseconds));
    std::vector<std::unique_ptr<ringload_group>> handles;
    for (auto& rank_handle : groups) {
      handles.push_back(std::make_unique<ringload_group>(ringload_group{std::move(rank_handle)}));
    }
    for (auto& rank_handle : handles) *result++ = rank_handle.release();
    return RINGLOAD_OK;
  });
}

ringload_status ringload_join_group(const char* address, uint32_t rank, uint32_t ranks,
                                    uint32_t milliseconds, ringload_group** joined) {
  return guarded([&] {
    required(joined, "the output pointer for the group is null") = nullptr;
    const char& text = required(address, "the address is null");
    *joined = new ringload_group{
        ringload::join_group(&text, rank, ranks, group_timeout_of(milliseconds))};
    return RINGLOAD_OK;
  });
}

void ringload_group_release(ringload_group* group) { delete group; }

uint32_t ringload_group_rank(const ringload_group* group) {
  return group ? group->value->rank() : 0;
}

uint32_t ringload_group_size(const ringload_group* group) {
  return group ? group->value->size() : 0;
}

ringload_status ringload_group_load_begin(ringload_loader* loader, ringload_group* group,
                                          const char* source, ringload_group_reading reading,
                                          const ringload_load_options* load_options,
                                          ringload_operation** operation) {
  return guarded(operation, [&] {
    const ringload_loader& handle = required(loader, "the loader is null");
    // options_of() also returns the owner of a checksum list. The owner is not needed, because
    // loads by ranks do not support checksum lists.
    ringload::group_options options;
    options.load = options_of(load_options).options;
    options.reading = reading_of(reading);
    return begin_operation<ringload::group_load>(
        handle.thread, operation,
        [shared_loader = handle.value, ranks = required(group, "the group is null").value,
         name = std::string(&required(source, "the source is null")), options](auto handler) {
          ringload::load_async(*shared_loader, ranks, name, options, std::move(handler));
        },
        handle.value);
  });
}

ringload_status ringload_group_load(ringload_loader* loader, ringload_group* group,
                                    const char* source, ringload_group_reading reading,
                                    const ringload_load_options* load_options,
                                    ringload_group_loading** loaded) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_group_load_begin(loader, group, source, reading, load_options, operation);
      },
      ringload_operation_group_loading, loaded);
}

ringload_status ringload_operation_group_loading(ringload_operation* operation,
                                                 ringload_group_loading** result) {
  return guarded([&] {
    required(result, "the output pointer for the load is null") = nullptr;
    operation_state& state = *required(operation, "the operation is null").state;
    return state.with_result<ringload::group_load>([&](ringload::group_load& loaded) {
      auto loader = std::static_pointer_cast<ringload::loader>(state.keep_alive());
      auto shared = std::make_shared<rank_load>(rank_load{std::move(loader), loaded});
      *result = new ringload_group_loading{state.thread(), std::move(shared)};
      state.forget_result();
      return RINGLOAD_OK;
    });
  });
}

void ringload_group_loading_release(ringload_group_loading* loading) { delete loading; }

ringload_status ringload_group_loading_stats(const ringload_group_loading* loading,
                                             ringload_stats* into) {
  return guarded([&] {
    write_struct(
        into, stats_of(required(loading, "the handle of the load is null").value->value.stats()));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_group_loading_tensor_begin(ringload_group_loading* loading,
                                                    const char* name,
                                                    ringload_operation** operation) {
  return guarded(operation, [&] {
    return begin_call(loading, operation,
                      [tensor_name = name_of(name)](ringload::group_load& load, auto handler) {
                        load.tensor_async(tensor_name, std::move(handler));
                      });
  });
}

ringload_status ringload_group_loading_tensor(ringload_group_loading* loading, const char* name,
                                              ringload_tensor** loaded) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_group_loading_tensor_begin(loading, name, operation);
      },
      ringload_operation_tensor, loaded);
}

ringload_status ringload_group_loading_shard_begin(ringload_group_loading* loading,
                                                   const char* name, uint32_t dim,
                                                   ringload_operation** operation) {
  return guarded(operation, [&] {
    return begin_call(loading, operation,
                      [tensor_name = name_of(name), dim](ringload::group_load& load, auto handler) {
                        load.shard_async(tensor_name, dim, std::move(handler));
                      });
  });
}

ringload_status ringload_group_loading_shard(ringload_group_loading* loading, const char* name,
                                             uint32_t dim, ringload_tensor** loaded) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_group_loading_shard_begin(loading, name, dim, operation);
      },
      ringload_operation_tensor, loaded);
}

ringload_status ringload_group_loading_fused_begin(ringload_group_loading* loading,
                                                   const char* name, const char* const* names,
                                                   size_t count, uint32_t dim,
                                                   ringload_operation** operation) {
  return guarded(operation, [&] {
    return begin_call(
        loading, operation,
        [name = name_of(name), tensor_names = required_names(names, count, "the name is null"),
         dim](ringload::group_load& load, auto handler) mutable {
          load.fused_async(name, std::move(tensor_names), dim, std::move(handler));
        });
  });
}

ringload_status ringload_group_loading_fused(ringload_group_loading* loading, const char* name,
                                             const char* const* names, size_t count, uint32_t dim,
                                             ringload_tensor** loaded) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_group_loading_fused_begin(loading, name, names, count, dim, operation);
      },
      ringload_operation_tensor, loaded);
}

ringload_status ringload_group_loading_push_begin(ringload_group_loading* loading, const char* name,
                                                  uint32_t to, ringload_operation** operation) {
  return guarded(operation, [&] {
    return begin_call(loading, operation,
                      [tensor_name = name_of(name), to](ringload::group_load& load, auto handler) {
                        load.push_async(tensor_name, to, std::move(handler));
                      });
  });
}

ringload_status ringload_group_loading_push(ringload_group_loading* loading, const char* name,
                                            uint32_t to, ringload_tensor** loaded) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_group_loading_push_begin(loading, name, to, operation);
      },
      ringload_operation_tensor, loaded);
}

ringload_status ringload_group_loading_model_begin(ringload_group_loading* loading,
                                                   const char* const* names, size_t count,
                                                   ringload_operation** operation) {
  return guarded(operation, [&] {
    return begin_call<ringload::model>(
        loading, operation,
        [takes_all = names == nullptr && count == 0,
         tensor_names = required_names(names, count, "the name is null")](
            ringload::group_load& load, auto handler) mutable {
          if (takes_all) return load.model_async(std::move(handler));
          load.model_async(std::move(tensor_names), std::move(handler));
        });
  });
}

ringload_status ringload_group_loading_model(ringload_group_loading* loading,
                                             const char* const* names, size_t count,
                                             ringload_model** loaded) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_group_loading_model_begin(loading, names, count, operation);
      },
      ringload_operation_model, loaded);
}
