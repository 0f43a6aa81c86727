// SPDX-License-Identifier: Apache-2.0
#pragma once

// Functions that return metrics for Prometheus as text (exposition format 0.0.4). The program
// itself must serve the text over HTTP. The names and labels are part of the public interface:
//
//   ringload_loader_info{loader,engine,reason}       always 1
//   ringload_loader_tensor_bytes{loader}             bytes held by loads, models and tensors
//   ringload_loader_tensor_bytes_peak{loader}        peak of ringload_loader_tensor_bytes
//   ringload_loader_tensor_allocations{loader}       number of allocations for tensors
//   ringload_loader_mapped_bytes{loader}             address space of mapped files
//   ringload_loader_pinned_bytes{loader}             host memory of the read buffers (slots)
//   ringload_loader_bytes_in_flight_limit{loader}    limit for bytes in flight: see load_stats
//   ringload_loader_threads{loader}                  number of threads of the loader
//   ringload_loader_longest_submit_seconds{loader}   duration of the longest io_uring submission
//
//   ringload_keeper_models                           number of models that are served
//   ringload_keeper_model_bytes{model}               size of the model's memory
//   ringload_keeper_model_version{model}             version of the model: 1, 2, 3, ...
//   ringload_keeper_model_attached{model}            number of attachments of this version

#include <ringload/export.hpp>
#include <ringload/keeper.hpp>
#include <ringload/stats.hpp>
#include <span>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

/// Returns the metrics of a loader, from `loader::stats()` and `loader::memory()`. `loader_name` is
/// the value of the label `loader`. The label distinguishes several loaders of one program.
RINGLOAD_EXPORT std::string loader_metrics(const load_stats& stats, const memory_use& memory,
                                           std::string_view loader_name = "");

/// Returns the metrics of a keeper, from `keeper::models()`.
RINGLOAD_EXPORT std::string keeper_metrics(std::span<const kept_model> models);

}  // namespace ringload::inline v0
