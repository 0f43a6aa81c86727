// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds folders of torch.distributed.checkpoint in which any part can be wrong.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/pytorch/dcp.hpp"
#include "support/pickle_text.hpp"

namespace ringload::testing::distributed {

using dcp_dims = std::vector<std::int64_t>;

inline const std::string metadata_module = "torch.distributed.checkpoint.metadata";

// An object of a class, whose state is a dictionary.
inline std::string object(const std::string& name, pickled::list_of state,
                          const std::string& module = metadata_module) {
  return pickled::global(module, name) + ")\x81" + pickled::dict(state) + "b";
}

inline std::string size(const dcp_dims& values) {
  return pickled::global("torch", "Size") + "(" + pickled::numbers(values) + "tR";
}

// One box of a tensor, and its item.
struct dcp_box {
  dcp_dims offsets;
  dcp_dims sizes;
  std::string file = "__0_0.distcp";
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::string more = "";  // Other attributes of the item.
};

struct dcp_tensor {
  std::string name;
  std::string type;
  dcp_dims shape;
  std::vector<dcp_box> boxes;
};

inline std::string properties(const std::string& type) {
  return pickled::global(metadata_module, "TensorProperties") + ")\x81(" +
         pickled::global("torch", type) + "N\x89N\x89tb";
}

inline std::string described(const dcp_tensor& t) {
  std::string chunks = "](";
  for (const dcp_box& each : t.boxes) {
    chunks += object("ChunkStorageMetadata", {pickled::text("offsets"), size(each.offsets),
                                              pickled::text("sizes"), size(each.sizes)});
  }
  return object("TensorStorageMetadata",
                {pickled::text("properties"), properties(t.type), pickled::text("size"),
                 size(t.shape), pickled::text("chunks"), chunks + "e"});
}

inline std::string metadata(const std::vector<dcp_tensor>& tensors,
                            const std::string& more_state = "") {
  std::string state = "}(";
  // An item without a tensor has no offset.
  std::string storage =
      "}(" + object("MetadataIndex", {pickled::text("fqn"), pickled::text("step")}) + "N";
  for (const dcp_tensor& t : tensors) {
    state += pickled::text(t.name) + described(t);
    for (const dcp_box& each : t.boxes) {
      storage += object("MetadataIndex",
                        {pickled::text("fqn"), pickled::text(t.name), pickled::text("index"),
                         "K\x01", pickled::text("offset"), size(each.offsets)});
      storage += object("_StorageInfo",
                        {pickled::text("relative_path"), pickled::text(each.file),
                         pickled::text("offset"), pickled::integer(each.offset),
                         pickled::text("length"), pickled::integer(each.bytes), each.more},
                        "torch.distributed.checkpoint.filesystem");
    }
  }
  return pickled::pickle(
      object("Metadata", {pickled::text("state_dict_metadata"), state + more_state + "u",
                          pickled::text("storage_data"), storage + "u"}));
}

// An item: two rows of three floats. All bytes are `fill`.
inline std::string item(char fill, const pickled::saved_tensor& saved = {}) {
  return pickled::archive(pickled::pickle(saved()), {{"0", std::string(24, fill)}});
}

// A tensor of [4, 3] in two files. The second item begins at byte 5 of its file.
struct two_files {
  std::string first = item('a');
  std::string second = "12345" + item('b');
  std::vector<dcp_tensor> tensors = {
      {"w",
       "float32",
       {4, 3},
       {{{0, 0}, {2, 3}, "__0_0.distcp", 0, static_cast<std::int64_t>(first.size())},
        {{2, 0}, {2, 3}, "__1_0.distcp", 5, static_cast<std::int64_t>(second.size() - 5)}}}};

  result<file_entries> read(strictness strictness = strictness::strict) const {
    memory_input from(bytes_of(text));
    auto found = parse_dcp(from, strictness);
    if (!found) return found;
    std::vector<memory_input> files;
    for (const std::string& name : found->external_files) {
      files.emplace_back(bytes_of(name == "__0_0.distcp" ? first : second));
    }
    std::vector<input*> beside;
    for (memory_input& file : files) beside.push_back(&file);
    auto located = locate_dcp_tensors(*found, beside, strictness);
    if (!located) return located.error();
    return found;
  }
  two_files& make() {
    text = metadata(tensors);
    return *this;
  }
  boost::system::error_code code() {
    const auto found = make().read();
    return found ? boost::system::error_code() : found.error().code;
  }
  std::string message() {
    const auto found = make().read();
    return found ? std::string() : message_of(found.error());
  }

  std::string text;
};

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ringload::testing::distributed
