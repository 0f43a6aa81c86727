// SPDX-License-Identifier: Apache-2.0
#pragma once

// Stores the contents of a checkpoint that are not elements: metadata, composites, and the types
// and attributes of tensors. .zt has fields for all of them. A safetensors file stores them as
// texts, and cannot store quantised blocks.

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <map>
#include <ringload/catalog.hpp>
#include <ringload/model.hpp>
#include <ringload/writer.hpp>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace ringload::tool {

/// Returns the metadata of all files, with each key once.
attributes metadata_of(const catalog& all);

/// Returns the names of the tensors that are parts of the composites of a catalog.
std::unordered_set<std::string> part_names(const catalog& selected);

// ---- safetensors ----

/// Throws `errc::unsupported_dtype` for quantised blocks, which safetensors would store as bytes
/// without their type. `loaded` is the dtype of the loaded tensor.
void check_storable(const tensor_info& tensor, dtype loaded);

/// Returns the dtype of a loaded tensor, which differs from the stored dtype if a load converts it.
using loaded_dtype = std::function<dtype(const tensor_info& tensor)>;

/// Returns the metadata of a safetensors file, as texts. The metadata of the checkpoint is kept.
/// The key "ringload" contains JSON with the information for which the format has no field:
/// layouts, shapes and parts of composites, and types and attributes of tensors.
std::vector<std::pair<std::string, std::string>> safetensors_metadata(const catalog& selected,
                                                                      const loaded_dtype& dtype_of);

/// Returns the metadata of a safetensors file with all tensors of a model. Throws
/// `errc::unsupported_dtype` if the model has quantised blocks.
std::vector<std::pair<std::string, std::string>> safetensors_metadata(const model& source);

// ---- .zt ----

/// The composite of a tensor, and the name of the tensor within the composite.
struct part_of {
  std::string object;
  std::string part;
};
using parts_by_name = std::map<std::string, part_of, std::less<>>;

parts_by_name parts_of(const std::vector<composite_info>& all);

/// Returns the description of a composite in a .zt file.
object_info object_of(const catalog& all, const composite_info& composite);

/// Adds the type and the attributes of a tensor to `storage`. Attributes store the properties for
/// which .zt has no field. `loaded` is the dtype of the loaded tensor.
object_options object_options_of(const catalog& all, const tensor_info& tensor, dtype loaded,
                                 object_options storage);

/// Adds all contents of a model to the .zt file of `out`. Tensors that share memory are stored
/// once, unless a tensor is a part of a composite, or their types, shapes or attributes differ.
/// `storage` contains the compression and the digest of each object.
boost::asio::awaitable<void> add_model(writer& out, model source, object_options storage);

}  // namespace ringload::tool
