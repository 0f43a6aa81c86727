// SPDX-License-Identifier: Apache-2.0

// Checkpoints, models, tensors and selections of the C interface.

#include <ringload/c.h>

#include <ringload/dlpack.hpp>
#include <string>
#include <vector>

#include "c/handles.hpp"
#include "c/operation.hpp"
#include "c/status.hpp"
#include "c/structs.hpp"

using namespace ringload::c;

namespace {

const ringload::catalog& catalog_of(const ringload_checkpoint* checkpoint) {
  return required(checkpoint, "the checkpoint is null").value.catalog();
}

const ringload::model& model_of(const ringload_model* model) {
  return required(model, "the model is null").value;
}

const ringload::tensor& tensor_of(const ringload_tensor* tensor) {
  return required(tensor, "the tensor is null").value;
}

ringload::selection& selection_of(ringload_selection* selection) {
  return required(selection, "the selection is null").value;
}

std::string text(const char* given) { return &required(given, "a name or pattern is null"); }

ringload_status hand_out(ringload::tensor tensor, ringload_tensor** into) {
  *into = new ringload_tensor(std::move(tensor));
  return RINGLOAD_OK;
}

}  // namespace

// --- Checkpoints

void ringload_checkpoint_release(ringload_checkpoint* checkpoint) { delete checkpoint; }

size_t ringload_checkpoint_size(const ringload_checkpoint* checkpoint) {
  return checkpoint ? checkpoint->value.size() : 0;
}

ringload_status ringload_checkpoint_tensor(const ringload_checkpoint* checkpoint, size_t position,
                                           ringload_tensor_info* into) {
  return guarded([&] {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    if (position >= catalog.tensors.size()) return RINGLOAD_END;
    const ringload::tensor_info& tensor = catalog.tensors[position];
    ringload_tensor_info info = {};
    info.name = tensor.name.c_str();
    info.shape = tensor.shape.data();
    info.rank = tensor.shape.size();
    info.bytes = tensor.bytes;
    info.file = catalog.files[tensor.file].path.c_str();
    info.type = tensor.type.c_str();
    info.dtype = dtype_of(tensor.dtype);
    give(into, info);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_checkpoint_find(const ringload_checkpoint* checkpoint, const char* name,
                                         size_t* position) {
  return guarded([&] {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    const ringload::tensor_info& found = checkpoint->value.at(text(name));
    required(position, "the place for the position is null") =
        static_cast<size_t>(&found - catalog.tensors.data());
    return RINGLOAD_OK;
  });
}

ringload_status ringload_checkpoint_metadata(const ringload_checkpoint* checkpoint, size_t position,
                                             const char** key, const char** value) {
  return guarded([&] {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    if (position >= catalog.metadata.size()) return RINGLOAD_END;
    required(key, "the place for the key is null") = catalog.metadata[position].first.c_str();
    required(value, "the place for the value is null") =
        catalog.metadata[position].second.text().c_str();
    return RINGLOAD_OK;
  });
}

namespace {

ringload_status give_attribute(const ringload::attributes& elements, size_t position,
                               ringload_attribute* into) {
  if (position >= elements.size()) return RINGLOAD_END;
  const auto& [key, value] = elements[position];
  ringload_attribute view = {};
  view.key = key.c_str();
  view.text = value.text().c_str();
  view.cbor = value.encoded().data();
  view.cbor_bytes = value.encoded().size();
  view.is_text = value.is_text() ? 1 : 0;
  give(into, view);
  return RINGLOAD_OK;
}

}  // namespace

ringload_status ringload_checkpoint_attribute(const ringload_checkpoint* checkpoint,
                                              size_t position, ringload_attribute* into) {
  return guarded([&] { return give_attribute(catalog_of(checkpoint).metadata, position, into); });
}

ringload_status ringload_checkpoint_tensor_attribute(const ringload_checkpoint* checkpoint,
                                                     size_t tensor, size_t position,
                                                     ringload_attribute* into) {
  return guarded([&]() -> ringload_status {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    if (tensor >= catalog.tensors.size()) return RINGLOAD_END;
    return give_attribute(catalog.tensors[tensor].attributes, position, into);
  });
}

// --- Models and tensors

void ringload_model_release(ringload_model* model) { delete model; }

size_t ringload_model_size(const ringload_model* model) { return model ? model->value.size() : 0; }

ringload_status ringload_model_tensor(const ringload_model* model, size_t position,
                                      ringload_tensor** tensor) {
  return guarded([&] {
    required(tensor, "the place for the tensor is null") = nullptr;
    if (position >= model_of(model).size()) return RINGLOAD_END;
    return hand_out(model->value[position], tensor);
  });
}

ringload_status ringload_model_find(const ringload_model* model, const char* name,
                                    ringload_tensor** tensor) {
  return guarded([&] {
    required(tensor, "the place for the tensor is null") = nullptr;
    return hand_out(model_of(model).at(text(name)), tensor);
  });
}

ringload_status ringload_model_stats(const ringload_model* model, ringload_stats* into) {
  return guarded([&] {
    give(into, stats_of(model_of(model).stats()));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_model_file_stats(const ringload_model* model, size_t position,
                                          ringload_file_stats* into) {
  return guarded([&] {
    const auto& elements = model_of(model).stats_of_files();
    if (position >= elements.size()) return RINGLOAD_END;
    give(into, stats_of(elements[position], model->value.catalog().files[position]));
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
    give(into, view);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_tensor_to_dlpack(const ringload_tensor* tensor,
                                          struct DLManagedTensorVersioned** exported) {
  return guarded([&] {
    required(exported, "the place for the exported tensor is null") =
        reinterpret_cast<DLManagedTensorVersioned*>(ringload::to_dlpack(tensor_of(tensor)));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_tensor_to_legacy_dlpack(const ringload_tensor* tensor,
                                                 struct DLManagedTensor** exported) {
  return guarded([&] {
    required(exported, "the place for the exported tensor is null") =
        reinterpret_cast<DLManagedTensor*>(ringload::to_legacy_dlpack(tensor_of(tensor)));
    return RINGLOAD_OK;
  });
}

// --- Selections

ringload_status ringload_selection_create(ringload_selection** view) {
  return guarded([&] {
    required(view, "the place for the selection is null") = new ringload_selection();
    return RINGLOAD_OK;
  });
}

void ringload_selection_release(ringload_selection* selection) { delete selection; }

ringload_status ringload_selection_name(ringload_selection* selection, const char* name) {
  return guarded([&] {
    selection_of(selection).names({text(name)});
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_matching(ringload_selection* selection, const char* glob) {
  return guarded([&] {
    selection_of(selection).matching(text(glob));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_except(ringload_selection* selection, const char* glob) {
  return guarded([&] {
    selection_of(selection).except(text(glob));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_slice(ringload_selection* selection, const char* name,
                                         uint32_t dim, uint64_t first, uint64_t count) {
  return guarded([&] {
    selection_of(selection).slice(text(name), dim, first, count);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_shard(ringload_selection* selection, const char* glob,
                                         uint32_t dim, uint64_t rank, uint64_t ranks) {
  return guarded([&] {
    selection_of(selection).shard(text(glob), dim, rank, ranks);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_fused(ringload_selection* selection, const char* name,
                                         const char* const* names, size_t count, uint32_t dim) {
  return guarded([&] {
    if (count > 0) required(names, "the names are null");
    std::vector<std::string> parts;
    for (size_t i = 0; i < count; ++i) parts.push_back(text(names[i]));
    selection_of(selection).fused(text(name), std::move(parts), dim);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_experts(ringload_selection* selection, uint64_t rank,
                                           uint64_t ranks, uint64_t experts) {
  return guarded([&] {
    selection_of(selection).experts(rank, ranks, experts);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_selection_allow_missing(ringload_selection* selection) {
  return guarded([&] {
    selection_of(selection).allow_missing();
    return RINGLOAD_OK;
  });
}

// --- Tensors that a fill left out

ringload_status ringload_operation_fill_name(const ringload_operation* operation,
                                             ringload_fill_list list, size_t position,
                                             const char** name) {
  return guarded([&] {
    operation_state& state = *required(operation, "the operation is null").state;
    required(name, "the place for the name is null") = nullptr;
    const auto give_name = [&](std::span<const std::string> names) {
      if (position >= names.size()) return RINGLOAD_END;
      *name = names[position].c_str();
      return RINGLOAD_OK;
    };
    if (list == RINGLOAD_FILL_WHOLE || list == RINGLOAD_FILL_TORN) {
      if (state.status() == RINGLOAD_PENDING) return RINGLOAD_PENDING;
      try {
        if (const std::exception_ptr failure = state.failure()) std::rethrow_exception(failure);
      } catch (const ringload::fill_error& e) {
        return give_name(list == RINGLOAD_FILL_WHOLE ? e.whole() : e.torn());
      } catch (...) {
        // The fill wrote nothing.
      }
      return RINGLOAD_END;
    }
    if (list != RINGLOAD_FILL_MISSING && list != RINGLOAD_FILL_UNEXPECTED) {
      throw invalid_argument("no such ringload_fill_list");
    }
    return state.with_result<ringload::fill_result>([&](const ringload::fill_result& done) {
      return give_name(list == RINGLOAD_FILL_MISSING ? done.missing : done.unexpected);
    });
  });
}

// --- Files that a save wrote

ringload_status ringload_operation_saved_file(const ringload_operation* operation, size_t position,
                                              const char** path) {
  return guarded([&] {
    operation_state& state = *required(operation, "the operation is null").state;
    required(path, "the place for the path is null") = nullptr;
    return state.with_result<ringload::save_result>([&](const ringload::save_result& done) {
      if (position >= done.files.size()) return RINGLOAD_END;
      *path = done.files[position].c_str();
      return RINGLOAD_OK;
    });
  });
}
