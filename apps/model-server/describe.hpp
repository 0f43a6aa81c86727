// SPDX-License-Identifier: Apache-2.0
#pragma once

// Describes the models as JSON, for clients and for the page, and as Prometheus metrics.

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/dtype.hpp>
#include <ringload/model.hpp>
#include <ringload/tensor.hpp>
#include <string>

#include "models.hpp"

namespace ringload::server {

/// Returns the state and the progress of one model.
boost::json::object describe(const entry& model_entry);

/// Returns the name, shape, type and size of a loaded tensor.
boost::json::object describe(const tensor& loaded);

/// Returns the name, shape, type and size of a tensor that is being loaded. They are the values
/// after the conversion.
boost::json::object describe(const tensor_info& info, std::optional<dtype> converted_to);

struct list_window {
  std::uint64_t offset = 0;
  std::uint64_t limit = 0;
};

/// Returns the number of all tensors, and a list of at most `window.limit` tensors from
/// `window.offset` on.
boost::json::object describe(const model& loaded, const list_window& window);
/// Returns this list for a model that is being loaded.
boost::json::object describe(const catalog& contents, const list_window& window,
                             std::optional<dtype> converted_to);

/// Counters of the server.
struct counters {
  std::map<unsigned, std::uint64_t> answers;  // By status code.
  std::size_t connections = 0;
  std::uint64_t tensor_bytes_sent = 0;
  bool saving = false;  // True while a model is being saved. Only one save runs at a time.
};

/// Returns the metrics in the text format of Prometheus, version 0.0.4.
std::string metrics_text(const models& loads_of_server, const counters& counted);

/// Returns the object as one line, with numbers in decimal notation. Bytes that are not UTF-8
/// become U+FFFD.
std::string json_text(const boost::json::object& object);

}  // namespace ringload::server
