// SPDX-License-Identifier: Apache-2.0

#include <ringload/c.h>

#include <mutex>
#include <ringload/dlpack.hpp>
#include <string>
#include <vector>

#include "c/handles.hpp"
#include "c/operation.hpp"
#include "c/status.hpp"
#include "c/structs.hpp"

using namespace ringload::c;

namespace {

const ringload::model& model_of(const ringload_model* model) {
  return required(model, "the model is null").value;
}

const ringload::tensor& tensor_of(const ringload_tensor* tensor) {
  return required(tensor, "the tensor is null").value;
}

// Gives access to the value of a selection, and holds the mutex of the selection.
class locked_selection {
 public:
  explicit locked_selection(ringload_selection* selection)
      : selection_(required(selection, "the selection is null")), lock_(selection_.mutex) {}
  ringload::selection* operator->() const noexcept { return &selection_.value; }

 private:
  ringload_selection& selection_;
  const std::lock_guard<std::mutex> lock_;
};

std::string text(const char* argument) { return &required(argument, "a name or pattern is null"); }

ringload_status hand_out(ringload::tensor tensor, ringload_tensor** into) {
  *into = new ringload_tensor(std::move(tensor));
  return RINGLOAD_OK;
}

}  // namespace

// --- Models and tensors

void ringload_model_release(ringload_model* model) { delete model; }

size_t ringload_model_size(const ringload_model* model) { return model ? model->value.size() : 0; }

ringload_status ringload_model_tensor(const ringload_model* model, size_t position,
                                      ringload_tensor** tensor) {
  return guarded([&] {
    required(tensor, "the output pointer for the tensor is null") = nullptr;
    if (position >= model_of(model).size()) return RINGLOAD_END;
    return hand_out(model->value[position], tensor);
  });
}

ringload_status ringload_model_find(const ringload_model* model, const char* name,
                                    ringload_tensor** tensor) {
  return guarded([&] {
    required(tensor, "the output pointer for the tensor is null") = nullptr;
    return hand_out(model_of(model).at(text(name)), tensor);
  });
}

ringload_status ringload_model_find_on(const ringload_model* model, const char* name,
                                       uint32_t device, ringload_tensor** tensor) {
  return guarded([&] {
    required(tensor, "the output pointer for the tensor is null") = nullptr;
    return hand_out(model_of(model).at(text(name), device), tensor);
  });
}

ringload_status ringload_model_stats(const ringload_model* model, ringload_stats* into) {
  return guarded([&] {
    write_struct(into, stats_of(model_of(model).stats()));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_model_file_stats(const ringload_model* model, size_t position,
                                          ringload_file_stats* into) {
  return guarded([&] {
    const auto& elements = model_of(model).stats_of_files();
    if (position >= elements.size()) return RINGLOAD_END;
    write_struct(into, stats_of(elements[position], model->value.catalog().files[position]));
    return RINGLOAD_OK;
  });
}

void ringload_tensor_release(ringload_tensor* tensor) { delete tensor; }

ringload_status ringload_tensor_look(const ringload_tensor* tensor, ringload_tensor_view* into) {
  return guarded([&] {
    const ringload::tensor& loaded = tensor_of(tensor);
    ringload_tensor_view view = {};
    view.name = tensor->name.c_str();
    view.data = loaded.data();
    view.bytes = loaded.size_bytes();
    view.shape = loaded.shape().data();
    view.rank = loaded.shape().size();
    view.dtype = dtype_of(loaded.dtype());
    view.device =
        loaded.device().kind() == ringload::device_kind::cuda ? RINGLOAD_CUDA : RINGLOAD_HOST;
    view.device_index = loaded.device().index();
    view.device_position = loaded.device_position();
    view.read_only = loaded.read_only() ? 1 : 0;
    write_struct(into, view);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_tensor_to_dlpack(const ringload_tensor* tensor,
                                          struct DLManagedTensorVersioned** exported) {
  return guarded([&] {
    required(exported, "the output pointer for the exported tensor is null") = nullptr;
    *exported = reinterpret_cast<DLManagedTensorVersioned*>(ringload::to_dlpack(tensor_of(tensor)));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_tensor_to_legacy_dlpack(const ringload_tensor* tensor,
                                                 struct DLManagedTensor** exported) {
  return guarded([&] {
    required(exported, "the output pointer for the exported tensor is null") = nullptr;
    *exported = reinterpret_cast<DLManagedTensor*>(ringload::to_legacy_dlpack(tensor_of(tensor)));
    return RINGLOAD_OK;
  });
}

// --- Selections

ringload_status ringload_selection_create(ringload_selection** view) {
  return guarded([&] {
    required(view, "the output pointer for the selection is null") = nullptr;
    *view = new ringload_selection();
    return RINGLOAD_OK;
  });
}

void ringload_selection_release(ringload_selection* selection) { delete selection; }

ringload_status ringload_selection_name(ringload_selection* selection, const char* name) {
  return guarded([&] {
    locked_selection(selection)->names({text(name)});
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_matching(ringload_selection* selection, const char* glob) {
  return guarded([&] {
    locked_selection(selection)->matching(text(glob));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_where(ringload_selection* selection,
                                         int (*is_wanted)(void* context,
                                                          const ringload_tensor_info* tensor),
                                         void* context) {
  return guarded([&] {
    if (!is_wanted) throw invalid_argument("the function is null");
    locked_selection(selection)->where([is_wanted, context](const ringload::tensor_info& tensor) {
      const ringload_tensor_info info = info_of(tensor, "");
      return is_wanted(context, &info) != 0;
    });
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_except(ringload_selection* selection, const char* glob) {
  return guarded([&] {
    locked_selection(selection)->except(text(glob));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_slice(ringload_selection* selection, const char* name,
                                         uint32_t dim, uint64_t first, uint64_t count) {
  return guarded([&] {
    locked_selection(selection)->slice(text(name), dim, first, count);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_shard(ringload_selection* selection, const char* glob,
                                         uint32_t dim, uint64_t rank, uint64_t ranks) {
  return guarded([&] {
    locked_selection(selection)->shard(text(glob), dim, rank, ranks);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_fused(ringload_selection* selection, const char* name,
                                         const char* const* names, size_t count, uint32_t dim) {
  return guarded([&] {
    auto parts = required_names(names, count, "a name or pattern is null");
    locked_selection(selection)->fused(text(name), std::move(parts), dim);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_experts(ringload_selection* selection, uint64_t rank,
                                           uint64_t ranks, uint64_t experts) {
  return guarded([&] {
    locked_selection(selection)->experts(rank, ranks, experts);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_on(ringload_selection* selection, const char* glob,
                                      uint32_t device) {
  return guarded([&] {
    locked_selection(selection)->on(text(glob), device);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_on_choice(
    ringload_selection* selection,
    uint32_t (*device_of)(void* context, const ringload_tensor_info* tensor), void* context) {
  return guarded([&] {
    if (!device_of) throw invalid_argument("the function is null");
    locked_selection(selection)->on([device_of, context](const ringload::tensor_info& tensor) {
      const ringload_tensor_info info = info_of(tensor, "");
      return device_of(context, &info);
    });
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_spread(ringload_selection* selection, const char* glob) {
  return guarded([&] {
    locked_selection(selection)->spread(text(glob));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_shard_by_device(ringload_selection* selection, const char* glob,
                                                   uint32_t dim) {
  return guarded([&] {
    locked_selection(selection)->shard(text(glob), dim);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_allow_missing(ringload_selection* selection) {
  return guarded([&] {
    locked_selection(selection)->allow_missing();
    return RINGLOAD_OK;
  });
}

// --- Tensor names that a fill reports

ringload_status ringload_operation_fill_name(const ringload_operation* operation,
                                             ringload_fill_list list, size_t position,
                                             const char** name) {
  return guarded([&] {
    operation_state& state = *required(operation, "the operation is null").state;
    required(name, "the output pointer for the name is null") = nullptr;
    const auto give_name = [&](std::span<const std::string> names) {
      if (position >= names.size()) return RINGLOAD_END;
      *name = names[position].c_str();
      return RINGLOAD_OK;
    };
    if (list == RINGLOAD_FILL_WHOLE || list == RINGLOAD_FILL_TORN) {
      if (!state.is_fill()) throw invalid_argument("the operation is not a fill");
      if (state.status() == RINGLOAD_PENDING) return RINGLOAD_PENDING;
      const ringload::diagnostics& info = state.failure();
      return give_name(list == RINGLOAD_FILL_WHOLE ? info.whole : info.torn);
    }
    if (list != RINGLOAD_FILL_MISSING && list != RINGLOAD_FILL_UNEXPECTED) {
      throw invalid_argument("no such ringload_fill_list");
    }
    return state.with_result<ringload::fill_result>([&](const ringload::fill_result& done) {
      return give_name(list == RINGLOAD_FILL_MISSING ? done.missing : done.unexpected);
    });
  });
}

// --- Paths of the files that a save wrote

ringload_status ringload_operation_saved_file(const ringload_operation* operation, size_t position,
                                              const char** path) {
  return guarded([&] {
    operation_state& state = *required(operation, "the operation is null").state;
    required(path, "the output pointer for the path is null") = nullptr;
    return state.with_result<ringload::save_result>([&](const ringload::save_result& done) {
      if (position >= done.files.size()) return RINGLOAD_END;
      *path = done.files[position].c_str();
      return RINGLOAD_OK;
    });
  });
}
