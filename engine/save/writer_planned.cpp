// SPDX-License-Identifier: Apache-2.0
// The steps of a writer for a safetensors file. All tensors are declared at the beginning, and must
// be added in the order of the file.

#include <algorithm>
#include <span>
#include <utility>

#include "base/printable.hpp"
#include "save/safetensors_layout.hpp"
#include "save/writer_state.hpp"

namespace ringload::inline v0::detail {

result<std::shared_ptr<writer_state>> writer_state::make_safetensors(
    optional_path path, std::vector<planned_tensor> planned,
    std::span<const std::pair<std::string, std::string>> metadata, writer_options options) {
  std::vector<layout_tensor> tensors;
  tensors.reserve(planned.size());
  for (const planned_tensor& tensor : planned)
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
  safetensors_settings settings;
  settings.metadata = metadata;
  settings.order = tensor_order::given;
  if (options.alignment != 0) settings.alignment = options.alignment;
  auto layout = lay_out_safetensors(tensors, settings);
  if (!layout) return layout.error().in(path ? printable_path(*path) : "memory");
  auto state = make(path, std::move(options), layout->files.front().bytes);
  if (!state) return state.error();
  writer_state& job = **state;
  auto status = job.run([&] { return job.begin_planned(std::move(planned), std::move(*layout)); });
  if (!status) return status.error();
  return state;
}

result<void> writer_state::begin_planned(std::vector<planned_tensor> planned,
                                         checkpoint_layout layout) {
  auto file = append_file::make(file_, 0, stop_);
  if (!file) return file.error();
  append_ = std::move(*file);
  plan_.tensors = std::move(planned);
  plan_.extents = std::move(layout.tensors);
  return append_->append(std::as_bytes(std::span<const char>(layout.files.front().head)));
}

result<void> writer_state::add_planned(const tensor_ref& tensor, const object_options& options) {
  const bool is_default = options.zstd_level == 0 && !options.digest && options.type.empty() &&
                          options.attributes.empty();
  if (!is_default) {
    return tensor_fault(tensor.name, errc::unsupported_feature,
                        "safetensors files have no compression, digests, types or attributes");
  }
  if (plan_.next == plan_.tensors.size()) {
    return tensor_fault(tensor.name, errc::unexpected_tensor,
                        "all planned tensors are already added");
  }
  const planned_tensor& planned = plan_.tensors[plan_.next];
  if (tensor.name != planned.name) {
    return tensor_fault(tensor.name, errc::unexpected_tensor,
                        "expected " + tensor_place(planned.name));
  }
  if (auto same = check_dtype_and_shape(tensor, planned.dtype, planned.shape); !same) return same;
  hasher content;
  auto source = make_reader(tensor, tensor.name, content);
  if (!source) return source.error();
  may_damage_file_ = true;
  const std::uint64_t bytes = plan_.extents[plan_.next].bytes;
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min<std::uint64_t>(bytes, frame_queue::chunk_bytes)));
  for (std::uint64_t position = 0; position < bytes;) {
    if (auto status = check_not_ended(); !status) return status.error();
    const auto step =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes - position, buffer.size()));
    auto chunk = (*source)(position, std::span(buffer).first(step));
    if (!chunk) return chunk.error();
    if (auto status = append_->append(*chunk); !status) return status.error();
    position += step;
  }
  end_content_digest(content, tensor.name);
  ++plan_.next;
  return {};
}

}  // namespace ringload::inline v0::detail
