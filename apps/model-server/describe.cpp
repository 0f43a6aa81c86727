// SPDX-License-Identifier: Apache-2.0
#include "describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <iterator>
#include <string_view>
#include <utility>

#include "json.hpp"
#include "loaded_form.hpp"

namespace ringload::server {

namespace json = boost::json;

namespace {

// Appends a JSON value, with numbers in decimal notation. Boost.JSON would write 9.5 as 95E-1,
// which is valid but hard to read.
void append_plain(std::string& to, const json::value& value_ref) {
  const char* before = "";
  if (const json::object* object = value_ref.if_object()) {
    to += '{';
    for (const auto& [key, value] : *object) {
      to += std::exchange(before, ",");
      tool::append_json(to, std::string_view(key));
      to += ':';
      append_plain(to, value);
    }
    to += '}';
  } else if (const json::array* array = value_ref.if_array()) {
    to += '[';
    for (const json::value& value : *array) {
      to += std::exchange(before, ",");
      append_plain(to, value);
    }
    to += ']';
  } else if (const json::string* text = value_ref.if_string()) {
    tool::append_json(to, std::string_view(*text));
  } else if (const double* number = value_ref.if_double()) {
    tool::append_json(to, *number);
  } else {
    to += json::serialize(value_ref);
  }
}

json::object describe_tensor(std::string_view name_text, const tool::loaded_form& form) {
  json::object out;
  out["name"] = std::string(name_text);
  out["dtype"] = std::string(name(form.dtype));
  out["shape"] = json::array(form.shape.begin(), form.shape.end());
  out["bytes"] = form.bytes;
  return out;
}

// `describe_at` returns the description of the tensor at a position.
template <class DescribeAt>
json::object describe_list(std::uint64_t total, const list_window& window,
                           const DescribeAt& describe_at) {
  json::object out;
  out["total"] = total;
  out["offset"] = window.offset;
  json::array& list = out["tensors"].emplace_array();
  const std::uint64_t begin = std::min(window.offset, total);
  const std::uint64_t count = std::min(window.limit, total - begin);
  for (std::uint64_t i = begin; i < begin + count; ++i) list.push_back(describe_at(i));
  return out;
}

}  // namespace

json::object describe(const entry& model_entry) {
  const attempt& last = *model_entry.latest;
  const load_stats stats = last.progress();
  json::object out;
  out["id"] = model_entry.id;
  out["state"] = std::string(name(last.state));
  out["source"] = std::string(last.order.source);
  out["serving"] = model_entry.served ? json::value(std::string(model_entry.served->order.source))
                                      : json::value();
  out["next"] =
      model_entry.next ? json::value(std::string(model_entry.next->source)) : json::value();
  out["bytes"] = stats.bytes_arrived();
  out["bytes_total"] = stats.bytes_total;
  out["tensors"] = stats.tensors;
  out["tensors_total"] = stats.tensors_total;
  out["seconds"] = stats.seconds;
  out["memory_kept"] = stats.memory_kept;
  const double bytes = static_cast<double>(stats.bytes_arrived());
  out["gb_per_s"] = stats.seconds > 0 ? bytes / 1e9 / stats.seconds : 0.0;
  if (!last.problem.empty()) out["error"] = std::string(last.problem);
  return out;
}

json::object describe(const tensor& loaded) {
  return describe_tensor(loaded.name(), {loaded.dtype(), loaded.shape(), loaded.size_bytes()});
}

json::object describe(const tensor_info& info, std::optional<dtype> converted_to) {
  return describe_tensor(info.name, tool::as_loaded(info, converted_to));
}

json::object describe(const model& loaded, const list_window& window) {
  return describe_list(loaded.size(), window, [&](std::uint64_t i) { return describe(loaded[i]); });
}

json::object describe(const catalog& contents, const list_window& window,
                      std::optional<dtype> converted_to) {
  return describe_list(contents.tensors.size(), window, [&](std::uint64_t i) {
    return describe(contents.tensors[i], converted_to);
  });
}

std::string metrics_text(const models& loads_of_server, const counters& counted) {
  std::string out;
  auto to = std::back_inserter(out);
  const auto head = [&to](std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(to, "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  };

  std::array<unsigned, 6> states{};
  for (const auto& [id, one] : loads_of_server.all())
    ++states[static_cast<std::size_t>(one->latest->state)];
  head("model_server_models", "gauge", "Models by the state of their latest load.");
  for (std::size_t i = 0; i < states.size(); ++i) {
    fmt::format_to(to, "model_server_models{{state=\"{}\"}} {}\n", name(load_state(i)), states[i]);
  }
  const load_counts& loads = loads_of_server.counts();
  head("model_server_loads_total", "counter", "Loads that have ended.");
  fmt::format_to(to, "model_server_loads_total{{result=\"ready\"}} {}\n", loads.ready);
  fmt::format_to(to, "model_server_loads_total{{result=\"failed\"}} {}\n", loads.failed);
  fmt::format_to(to, "model_server_loads_total{{result=\"cancelled\"}} {}\n", loads.cancelled);
  head("model_server_loaded_bytes_total", "counter", "Tensor bytes of loads that became ready.");
  fmt::format_to(to, "model_server_loaded_bytes_total {}\n", loads.bytes);

  head("model_server_answers_total", "counter", "Answers to requests.");
  for (const auto& [code, count] : counted.answers) {
    fmt::format_to(to, "model_server_answers_total{{code=\"{}\"}} {}\n", code, count);
  }
  head("model_server_sent_tensor_bytes_total", "counter", "Tensor bytes sent to clients.");
  fmt::format_to(to, "model_server_sent_tensor_bytes_total {}\n", counted.tensor_bytes_sent);
  head("model_server_connections", "gauge", "Clients that are connected.");
  fmt::format_to(to, "model_server_connections {}\n", counted.connections);

  const load_stats loader = loads_of_server.loader_stats();
  head("ringload_engine", "gauge", "Read engine in use (value 1).");
  fmt::format_to(to, "ringload_engine{{engine=\"{}\"}} 1\n",
                 loader.engine == read_engine::ring ? "ring" : "threads");
  head("ringload_bytes_in_flight", "gauge", "Bytes that the loader reads at once.");
  fmt::format_to(to, "ringload_bytes_in_flight {}\n", loader.bytes_in_flight);
  head("ringload_longest_submit_seconds", "gauge", "The longest submission to the ring.");
  fmt::format_to(to, "ringload_longest_submit_seconds {:.9f}\n", loader.longest_submit_seconds);
  return out;
}

std::string json_text(const json::object& object) {
  std::string text;
  append_plain(text, object);
  return text + "\n";
}

}  // namespace ringload::server
