// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/onnx_graph.hpp"

#include <algorithm>
#include <string_view>

#include "formats/description_budget.hpp"
#include "formats/text/json_text.hpp"
#include "formats/text/protobuf_reader.hpp"

namespace ringload::inline v0 {

namespace {

namespace model_field {
enum field : std::uint32_t { graph = 7, metadata = 14, training = 20, functions = 25 };
}
namespace training_field {
enum field : std::uint32_t { initialization = 1, algorithm = 2 };
}
namespace graph_field {
enum field : std::uint32_t { node = 1, initializer = 5, sparse_initializer = 15 };
}
namespace node_field {
enum field : std::uint32_t { output = 2, name = 3, type = 4, attribute = 5 };
}
namespace function_field {
enum field : std::uint32_t { name = 1, node = 7, domain = 10 };
}
namespace sparse_field {
enum field : std::uint32_t { values = 1, indices = 2, dims = 3 };
}

// The budget assumes this rank for every tensor, because named() does not know the shape.
constexpr std::size_t onnx_rank_usual = 4;

class graph_walker {
 public:
  graph_walker(input_cursor& in, strictness strictness, onnx_model& out) noexcept
      : in_(in), out_(out), budget_(strictness, in.left()) {}

  bool model();

 private:
  // Identifies a node by its first output, which is unique in the graph. A node without an output
  // is identified by its name.
  struct identity {
    std::string output;
    std::string name;
    std::string type;
    bool has_attributes = false;

    const std::string& key() const noexcept { return output.empty() ? name : output; }
  };

  bool training(const protobuf_field& message, std::size_t index);
  bool function(const protobuf_field& message);
  bool graph(const protobuf_field& message, const std::string& path);
  bool node(const protobuf_field& message, const std::string& path);
  bool identify(identity& out);
  bool attribute(const protobuf_field& message, const std::string& path, const identity& owner);
  bool attribute_name(std::string& out);
  bool numbers(const protobuf_field& message, std::uint32_t field, const std::string& path,
               const std::string& name);
  bool tensor(const protobuf_field& message, const std::string& path, std::string fallback);
  bool initializer(const protobuf_field& message, const std::string& path);
  bool named(const protobuf_field& message, const std::string& path, const std::string& name);
  bool sparse(const protobuf_field& message, const std::string& path, std::string fallback);
  bool metadata(const protobuf_field& message);
  bool once(const protobuf_field& part, std::uint32_t& seen);

  protobuf_reader in_;
  onnx_model& out_;
  description_budget budget_;
  std::uint64_t metadata_bytes_ = 0;
  std::uint64_t name_bytes_ = 0;
};

// Fails if a singular field occurs twice, because different readers may use different occurrences.
bool graph_walker::once(const protobuf_field& part, std::uint32_t& seen) {
  const std::uint32_t bit = part.number < 32 ? 1U << part.number : 0;
  if ((seen & bit) != 0) {
    return in_.fail(part, errc::malformed_header, "duplicate field " + grouped(part.number));
  }
  seen |= bit;
  return true;
}

bool graph_walker::tensor(const protobuf_field& message, const std::string& path,
                          std::string fallback) {
  onnx_candidate& candidate = out_.tensors.emplace_back();
  candidate.path = path;
  candidate.fallback = std::move(fallback);
  return read_onnx_tensor(in_, message, candidate.tensor) &&
         named(message, path, candidate.tensor.name);
}

bool graph_walker::initializer(const protobuf_field& message, const std::string& path) {
  if (!tensor(message, path, {})) return false;
  out_.tensors.back().initializer = true;
  if (!out_.tensors.back().tensor.name.empty()) return true;
  ++out_.unnamed;
  out_.tensors.pop_back();
  return true;
}

bool graph_walker::named(const protobuf_field& message, const std::string& path,
                         const std::string& name) {
  name_bytes_ += path.size() + name.size();
  if (out_.tensors.size() + out_.sparse.size() > onnx_tensors_max) {
    return in_.fail(message, errc::header_too_large,
                    "the model has more than " + grouped(onnx_tensors_max) + " tensors");
  }
  if (name_bytes_ > onnx_name_bytes_max) {
    return in_.fail(
        message, errc::header_too_large,
        "the names of the tensors have more than " + grouped(onnx_name_bytes_max) + " bytes");
  }
  return budget_.take_tensor(path.size() + name.size(), onnx_rank_usual) ||
         in_.fail(message, errc::header_too_large, budget_.cause());
}

bool graph_walker::sparse(const protobuf_field& message, const std::string& path,
                          std::string fallback) {
  onnx_sparse& sparse_tensor = out_.sparse.emplace_back();
  sparse_tensor.path = path;
  sparse_tensor.fallback = std::move(fallback);
  if (!named(message, path, sparse_tensor.fallback)) return false;
  sparse_tensor.file_byte = message.offset;
  if (!in_.enter(message)) return false;
  std::uint32_t seen = 0;
  protobuf_field part;
  while (in_.next(part)) {
    bool read = true;
    switch (part.number) {
      case sparse_field::values:
        read = once(part, seen) && read_onnx_tensor(in_, part, sparse_tensor.values);
        break;
      case sparse_field::indices:
        read = once(part, seen) && read_onnx_tensor(in_, part, sparse_tensor.indices);
        break;
      case sparse_field::dims: read = in_.integers(part, onnx_rank_max, sparse_tensor.dims); break;
      default: break;
    }
    if (!read) return false;
  }
  if (in_.failed()) return false;
  in_.leave();
  return true;
}

bool graph_walker::attribute_name(std::string& out) {
  std::uint32_t seen = 0;
  protobuf_field part;
  while (in_.next(part)) {
    if (part.number != onnx_attribute::name) continue;
    if (!once(part, seen) || !in_.text(part, onnx_text_bytes_max, out)) return false;
  }
  in_.rewind();
  return !in_.failed();
}

// Reads the value of a Constant node from an attribute that has plain numbers in place of a tensor.
bool graph_walker::numbers(const protobuf_field& message, std::uint32_t field,
                           const std::string& path, const std::string& name) {
  onnx_tensor value;
  bool has_value = false;
  if (!read_onnx_value(in_, message, field, value, has_value)) return false;
  if (!has_value) return true;
  onnx_candidate& candidate = out_.tensors.emplace_back();
  candidate.path = path;
  candidate.fallback = name;
  candidate.tensor = std::move(value);
  return named(message, path, name);
}

bool graph_walker::attribute(const protobuf_field& message, const std::string& path,
                             const identity& owner) {
  if (!in_.enter(message)) return false;
  std::string name;
  if (!attribute_name(name)) return false;
  const std::uint32_t value_field = onnx_value_field(name);
  if (owner.type == "Constant" && value_field != 0) {
    return numbers(message, value_field, path, owner.key());
  }
  // The value of a Constant node has the name of the node's output.
  const std::string attribute_path = owner.key() + "/" + name;
  const bool is_output = owner.type == "Constant" && (name == "value" || name == "sparse_value");
  const std::string& value = is_output ? owner.key() : attribute_path;
  std::uint32_t seen = 0;
  std::size_t index = 0;
  protobuf_field part;
  while (in_.next(part)) {
    bool read = true;
    switch (part.number) {
      case onnx_attribute::tensor: read = once(part, seen) && tensor(part, path, value); break;
      case onnx_attribute::sparse: read = once(part, seen) && sparse(part, path, value); break;
      case onnx_attribute::graph:
        read = once(part, seen) && graph(part, path + attribute_path + "/");
        break;
      case onnx_attribute::tensors:
        read = tensor(part, path, attribute_path + "/" + std::to_string(index++));
        break;
      case onnx_attribute::sparses:
        read = sparse(part, path, attribute_path + "/" + std::to_string(index++));
        break;
      case onnx_attribute::graphs:
        read = graph(part, path + attribute_path + "/" + std::to_string(index++) + "/");
        break;
      default: break;
    }
    if (!read) return false;
  }
  if (in_.failed()) return false;
  in_.leave();
  return true;
}

bool graph_walker::identify(identity& out) {
  std::uint32_t seen = 0;
  protobuf_field part;
  while (in_.next(part)) {
    bool read = true;
    switch (part.number) {
      case node_field::output:
        if (out.output.empty()) read = in_.text(part, onnx_text_bytes_max, out.output);
        break;
      case node_field::name:
        read = once(part, seen) && in_.text(part, onnx_text_bytes_max, out.name);
        break;
      case node_field::type:
        read = once(part, seen) && in_.text(part, onnx_text_bytes_max, out.type);
        break;
      case node_field::attribute: out.has_attributes = true; break;
      default: break;
    }
    if (!read) return false;
  }
  in_.rewind();
  return !in_.failed();
}

bool graph_walker::node(const protobuf_field& message, const std::string& path) {
  if (!in_.enter(message)) return false;
  identity identified;
  if (!identify(identified)) return false;
  protobuf_field part;
  while (identified.has_attributes && in_.next(part)) {
    if (part.number == node_field::attribute && !attribute(part, path, identified)) return false;
  }
  if (in_.failed()) return false;
  in_.leave();
  return true;
}

bool graph_walker::graph(const protobuf_field& message, const std::string& path) {
  if (!in_.enter(message)) return false;
  protobuf_field part;
  while (in_.next(part)) {
    bool read = true;
    switch (part.number) {
      case graph_field::node: read = node(part, path); break;
      case graph_field::initializer: read = initializer(part, path); break;
      case graph_field::sparse_initializer: read = sparse(part, path, {}); break;
      default: break;
    }
    if (!read) return false;
  }
  if (in_.failed()) return false;
  in_.leave();
  return true;
}

bool graph_walker::function(const protobuf_field& message) {
  if (!in_.enter(message)) return false;
  std::string name;
  std::string domain;
  protobuf_field part;
  while (in_.next(part)) {
    if (part.number == function_field::name && !in_.text(part, onnx_text_bytes_max, name))
      return false;
    if (part.number == function_field::domain && !in_.text(part, onnx_text_bytes_max, domain)) {
      return false;
    }
  }
  if (in_.failed()) return false;
  in_.rewind();
  const std::string path = (domain.empty() ? name : domain + "." + name) + "/";
  while (in_.next(part)) {
    if (part.number == function_field::node && !node(part, path)) return false;
  }
  if (in_.failed()) return false;
  in_.leave();
  return true;
}

bool graph_walker::training(const protobuf_field& message, std::size_t index) {
  if (!in_.enter(message)) return false;
  const std::string path = "training_info/" + std::to_string(index) + "/";
  protobuf_field part;
  while (in_.next(part)) {
    const bool first = part.number == training_field::initialization;
    if (!first && part.number != training_field::algorithm) continue;
    if (!graph(part, path + (first ? "initialization/" : "algorithm/"))) return false;
  }
  if (in_.failed()) return false;
  in_.leave();
  return true;
}

// If a key-value pair would exceed the limit, leaves out this pair and all later pairs.
bool graph_walker::metadata(const protobuf_field& message) {
  metadata_bytes_ += message.bytes;
  if (metadata_bytes_ > onnx_metadata_bytes_max) {
    out_.metadata_left_out = true;
    return true;
  }
  if (!in_.enter(message)) return false;
  std::string key;
  std::string value;
  protobuf_field part;
  while (in_.next(part)) {
    if (part.number == 1 && !in_.text(part, onnx_metadata_bytes_max, key)) return false;
    if (part.number == 2 && !in_.text(part, onnx_metadata_bytes_max, value)) return false;
  }
  if (in_.failed()) return false;
  in_.leave();
  if (!budget_.take_attribute(key.size(), value.size())) {
    return in_.fail(message, errc::header_too_large, budget_.cause());
  }
  out_.metadata.emplace_back(as_utf8(key), as_utf8(value));
  return true;
}

bool graph_walker::model() {
  std::uint32_t seen = 0;
  std::size_t trainings = 0;
  bool has_graph = false;
  protobuf_field part;
  while (in_.next(part)) {
    bool read = true;
    switch (part.number) {
      case model_field::graph:
        has_graph = true;
        read = once(part, seen) && graph(part, {});
        break;
      case model_field::metadata: read = metadata(part); break;
      case model_field::training: read = training(part, trainings++); break;
      case model_field::functions: read = function(part); break;
      default: break;
    }
    if (!read) return false;
  }
  if (in_.failed()) return false;
  return has_graph || in_.fail({errc::malformed_header, "byte 0", "the model has no graph"});
}

}  // namespace

bool read_onnx_model(input_cursor& in, strictness strictness, onnx_model& out) {
  return graph_walker(in, strictness, out).model();
}

}  // namespace ringload::inline v0
