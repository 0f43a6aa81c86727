// SPDX-License-Identifier: Apache-2.0

// Formats the statistics of loaders and keepers as metrics for Prometheus.

#include <charconv>
#include <concepts>
#include <initializer_list>
#include <ringload/metrics.hpp>
#include <utility>

#include "base/utf8.hpp"

namespace ringload::inline v0 {

namespace {

struct label {
  std::string_view name;
  std::string_view value;
};

// Returns the value of a label with escaped characters. The format requires UTF-8. Therefore, if
// the value is not valid UTF-8, each byte above 127 is replaced with '?'.
std::string escaped(std::string_view value) {
  std::string out;
  const bool valid = utf8_valid_bytes(value) == value.size();
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += !valid && static_cast<unsigned char>(c) >= 0x80 ? '?' : c;
    }
  }
  return out;
}

std::string value_text(std::integral auto value) { return std::to_string(value); }

// Returns the shortest decimal text of `value`, independent of the locale.
std::string value_text(double value) {
  char digits[32];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
  return {std::begin(digits), end};
}

class metric_text {
 public:
  // Begins a metric of type gauge. The next calls of sample() add the samples of this metric.
  metric_text& gauge(std::string_view name, std::string_view help) {
    name_ = name;
    text_.append("# HELP ").append(name).append(" ").append(help).append("\n");
    text_.append("# TYPE ").append(name).append(" gauge\n");
    return *this;
  }

  metric_text& sample(auto value, std::initializer_list<label> labels = {}) {
    text_ += name_;
    char separator = '{';
    for (const label& entry : labels) {
      text_.append(1, std::exchange(separator, ',')).append(entry.name).append("=\"");
      text_.append(escaped(entry.value)).append("\"");
    }
    if (labels.size() > 0) text_ += '}';
    text_.append(" ").append(value_text(value)).append("\n");
    return *this;
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::string name_;
};

}  // namespace

std::string loader_metrics(const load_stats& stats, const memory_use& memory,
                           std::string_view loader_name) {
  const label own_name = {"loader", loader_name};
  const char* const engine = stats.engine == read_engine::ring ? "ring" : "threads";
  metric_text out;
  out.gauge("ringload_loader_info", "Read engine of the loader, and the reason for this engine.")
      .sample(1, {own_name, {"engine", engine}, {"reason", stats.engine_reason}});
  out.gauge("ringload_loader_tensor_bytes", "Bytes held by loads, models and tensors.")
      .sample(memory.tensor_bytes, {own_name});
  out.gauge("ringload_loader_tensor_bytes_peak", "Peak of ringload_loader_tensor_bytes.")
      .sample(memory.tensor_bytes_peak, {own_name});
  out.gauge("ringload_loader_tensor_allocations", "Allocations for tensors.")
      .sample(memory.tensor_allocations, {own_name});
  out.gauge("ringload_loader_mapped_bytes", "Address space of mapped files in use.")
      .sample(memory.mapped_bytes, {own_name});
  out.gauge("ringload_loader_pinned_bytes", "Host memory of all slots that are allocated so far.")
      .sample(memory.pinned_bytes, {own_name});
  out.gauge("ringload_loader_bytes_in_flight_limit", "Limit for the bytes in flight on one drive.")
      .sample(stats.bytes_in_flight, {own_name});
  out.gauge("ringload_loader_threads", "Threads that the loader has started.")
      .sample(stats.threads, {own_name});
  out.gauge("ringload_loader_longest_submit_seconds", "The longest io_uring submission.")
      .sample(stats.longest_submit_seconds, {own_name});
  return out.take();
}

std::string keeper_metrics(std::span<const kept_model> models) {
  metric_text out;
  out.gauge("ringload_keeper_models", "Models that are served.").sample(models.size());
  out.gauge("ringload_keeper_model_bytes", "Bytes of the model's memory.");
  for (const kept_model& model : models) out.sample(model.bytes, {{"model", model.name}});
  out.gauge("ringload_keeper_model_version", "Version of the model, counted from 1.");
  for (const kept_model& model : models) out.sample(model.version, {{"model", model.name}});
  out.gauge("ringload_keeper_model_attached", "Attachments of this version of the model.");
  for (const kept_model& model : models) out.sample(model.attached, {{"model", model.name}});
  return out.take();
}

}  // namespace ringload::inline v0
