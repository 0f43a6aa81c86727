// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <fmt/format.h>

#include "size.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace {

std::string_view engine_name(read_engine engine) noexcept {
  switch (engine) {
    case read_engine::ring: return "ring";
    case read_engine::threads: return "threads";
    case read_engine::automatic: break;
  }
  return "auto";
}

std::string line(std::string_view title, std::string_view text) {
  return fmt::format("{:<14}{}\n", title, printable(text));
}

std::string because(const std::string& reason) { return reason.empty() ? "" : ": " + reason; }

std::string slots_text(const load_stats& stats) {
  std::string text = both_sizes(stats.pinned_bytes_peak);
  if (!stats.page_kind.empty()) text += " on " + stats.page_kind + " pages";
  if (!stats.page_kind_reason.empty()) text += " (" + stats.page_kind_reason + ")";
  if (!stats.pinning_reason.empty()) text += ", not pinned" + because(stats.pinning_reason);
  if (stats.pinned_bytes_peak == 0) return text;
  if (stats.engine != read_engine::ring) return text;
  if (stats.slots_registered) return text + ", registered with the ring";
  return text + ", not registered with the ring" + because(stats.registration_reason);
}

}  // namespace

double gb_per_s(const load_stats& stats) noexcept {
  return stats.seconds > 0 ? static_cast<double>(stats.bytes) / stats.seconds / 1e9 : 0;
}

std::string unverified_text(std::uint64_t files) {
  return counted(files, "file") +
         " not compared with the hub's digest, which needs all bytes of a file";
}

std::string report_text(const load_report& report) {
  const load_stats& stats = report.stats;
  std::string text;
  text += line("loaded", fmt::format("{} in {}, {}, into {}", both_sizes(stats.bytes),
                                     counted(stats.tensors, "tensor"),
                                     counted(report.loaded.files.size(), "file"), report.device));
  text += line("took", fmt::format("{:.3f} s, {:.2f} GB/s", stats.seconds, gb_per_s(stats)));
  text += line("first tensor", fmt::format("after {:.3f} s; opened after {:.3f} s",
                                           stats.seconds_to_first_tensor, stats.seconds_opening));
  text += line("engine", std::string(engine_name(stats.engine)) + because(stats.engine_reason) +
                             fmt::format("; started in {:.3f} s", report.seconds_starting));
  text += line("direct", both_sizes(stats.bytes_direct));
  if (stats.bytes_gpu_direct > 0 || !stats.gpu_direct_reason.empty()) {
    text += line("past the host",
                 both_sizes(stats.bytes_gpu_direct) + because(stats.gpu_direct_reason));
  }
  text += line("buffered", both_sizes(stats.bytes_buffered) + because(stats.route_reason));
  text += line("unstaged", both_sizes(stats.bytes_unstaged) + " without a copy");
  if (stats.bytes_remote > 0) {
    text += line("remote",
                 fmt::format("{} by {}, {} repeated; first byte after {:.3f} s",
                             both_sizes(stats.bytes_remote), counted(stats.requests, "request"),
                             grouped(stats.requests_repeated), stats.seconds_to_first_byte));
  }
  if (stats.bytes_mapped > 0) text += line("mapped", both_sizes(stats.bytes_mapped));
  text += line("pinned peak", slots_text(stats));
  text += line("tensors' peak", both_sizes(report.tensor_bytes_peak));
  text += line("reads", fmt::format("{}; {} short, {} retried; longest submission {:.1f} ms",
                                    grouped(stats.reads), grouped(stats.short_reads),
                                    grouped(stats.retries), stats.longest_submit_seconds * 1e3));
  if (stats.second_reads > 0) {
    text += line("second reads",
                 fmt::format("{} after a stall, {} were faster", grouped(stats.second_reads),
                             grouped(stats.second_reads_won)));
  }
  if (stats.files_unverified > 0) {
    text += line("not verified", unverified_text(stats.files_unverified));
  }
  if (report.verified) text += line("verified", both_sizes(stats.bytes_verified));
  text += line("slots waited", fmt::format("{:.3f} s for the device, {:.3f} s for host memory",
                                           stats.seconds_device_wait, stats.seconds_memory_wait));
  for (const std::string& note : report.loaded.notes) text += line("note", note);
  return text;
}

void append_source(json_object& to, const std::vector<std::string>& sources) {
  if (sources.size() == 1) {
    to.field("source", sources.front());
  } else {
    to.list("source", sources);
  }
}

namespace {

// Appends the bytes that were read from each file, and the rate.
void append_files(json_object& to, const load_report& report) {
  std::string& text = to.key_of_next("per_file");
  text += '[';
  for (std::size_t i = 0; i < report.of_files.size(); ++i) {
    const file_stats& each = report.of_files[i];
    if (i > 0) text += ", ";
    json_object(text)
        .field("path", report.loaded.files[i].path)
        .field("bytes", report.loaded.files[i].bytes)
        .field("header_bytes", report.loaded.files[i].header_bytes)
        .field("bytes_read", each.bytes_read)
        .field("seconds_to_first_read", each.seconds_to_first_read)
        .field("seconds_reading", each.seconds_reading)
        .field("seconds_device_wait", each.seconds_device_wait)
        .field("gb_per_s", each.bytes_per_second() * 1e-9)
        .close();
  }
  text += ']';
}

}  // namespace

void append_report(std::string& to, const load_report& report) {
  const load_stats& stats = report.stats;
  json_object object(to);
  object.field("schema_version", schema_version);
  append_source(object, report.sources);
  object.field("device", report.device)
      .field("bytes", stats.bytes)
      .field("bytes_wanted", report.loaded.size_bytes())
      .field("bytes_read", stats.bytes_direct + stats.bytes_buffered + stats.bytes_remote)
      .field("tensors", stats.tensors)
      .field("files", std::uint64_t{report.loaded.files.size()})
      .field("seconds", stats.seconds)
      .field("gb_per_s", gb_per_s(stats))
      .field("seconds_to_first_tensor", stats.seconds_to_first_tensor)
      .field("seconds_opening", stats.seconds_opening)
      .field("seconds_starting", report.seconds_starting)
      .field("engine", engine_name(stats.engine))
      .field("engine_reason", stats.engine_reason)
      .field("threads", std::uint64_t{stats.threads})
      .field("header_bytes", stats.header_bytes);
  json_object(object.key_of_next("bytes_by_route"))
      .field("direct", stats.bytes_direct)
      .field("buffered", stats.bytes_buffered)
      .field("remote", stats.bytes_remote)
      .close();
  append_files(object, report);
  object.field("route_reason", stats.route_reason)
      .field("bytes_unstaged", stats.bytes_unstaged)
      .field("bytes_gpu_direct", stats.bytes_gpu_direct)
      .field("gpu_direct_reason", stats.gpu_direct_reason)
      .field("bytes_mapped", stats.bytes_mapped)
      .field("pinned_bytes_peak", stats.pinned_bytes_peak)
      .field("tensor_bytes_peak", report.tensor_bytes_peak)
      .field("bytes_in_flight", stats.bytes_in_flight)
      .field("page_kind", stats.page_kind)
      .field("page_kind_reason", stats.page_kind_reason)
      .field("pinning_reason", stats.pinning_reason)
      .field("slots_registered", stats.slots_registered)
      .field("registration_reason", stats.registration_reason)
      .field("reads", stats.reads)
      .field("short_reads", stats.short_reads)
      .field("retries", stats.retries)
      .field("second_reads", stats.second_reads)
      .field("second_reads_won", stats.second_reads_won)
      .field("requests", stats.requests)
      .field("requests_repeated", stats.requests_repeated)
      .field("seconds_to_first_byte", stats.seconds_to_first_byte)
      .field("bytes_verified", stats.bytes_verified)
      .field("files_unverified", stats.files_unverified)
      .field("longest_submit_seconds", stats.longest_submit_seconds)
      .field("seconds_device_wait", stats.seconds_device_wait)
      .field("seconds_memory_wait", stats.seconds_memory_wait)
      .list("notes", report.loaded.notes)
      .close();
}

}  // namespace ringload::tool
