// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <fmt/format.h>

#include "json.hpp"
#include "size.hpp"
#include "text.hpp"

namespace ringload::bench {

namespace {

std::string line(std::string_view title, std::string_view text) {
  return fmt::format("{:<14}{}\n", title, tool::printable(text));
}

double microseconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-3; }

std::string share_text(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f} %", *share * 100) : "unknown";
}

double cpu(const measurement& m) { return m.cpu_s_per_gib(); }
double all_cpu(const measurement& m) { return m.cpu_s_per_gib_with_kernel(); }
double iops_of(const measurement& m) { return m.iops(); }

void append_optional(std::string& text, const std::optional<double>& value) {
  if (value) {
    tool::append_json(text, *value);
  } else {
    text += "null";
  }
}

void append_latency(std::string& text, const latencies& latency) {
  tool::json_object(text)
      .field("p50", microseconds(latency.percentile(0.5)))
      .field("p90", microseconds(latency.percentile(0.9)))
      .field("p99", microseconds(latency.percentile(0.99)))
      .field("p999", microseconds(latency.percentile(0.999)))
      .field("max", microseconds(latency.largest()))
      .close();
}

template <class Figure>
std::vector<double> each(const repeated& runs, Figure figure) {
  std::vector<double> values;
  for (const measurement& one : runs.runs()) values.push_back(figure(one));
  return values;
}

}  // namespace

double compared::cpu_ratio() const { return ours.median_of(cpu) / fio.median_of(cpu); }

std::string run_text(const run_request& request, const compared& comparison) {
  const measurement& m = comparison.ours.typical();
  const latencies& l = m.latency;
  std::string text = line("cell", describe(request.config));
  text += line("read", fmt::format("{} in {:.3f} s, {} reads", tool::both_sizes(m.bytes), m.seconds,
                                   tool::grouped(m.reads)));
  std::string rate = fmt::format("{:.3f} GB/s, {:.0f} IOPS", comparison.ours.gb_per_s(),
                                 comparison.ours.median_of(iops_of));
  if (comparison.ours.runs().size() > 1) {
    rate += fmt::format("; median of {}, {:.3f} to {:.3f}", comparison.ours.runs().size(),
                        comparison.ours.least_gb_per_s(), comparison.ours.most_gb_per_s());
  }
  text += line("rate", rate);
  text +=
      line("latency", fmt::format("p50 {:.0f} us, p90 {:.0f}, p99 {:.0f}, p99.9 {:.0f}, "
                                  "largest {:.0f}",
                                  microseconds(l.percentile(0.5)), microseconds(l.percentile(0.9)),
                                  microseconds(l.percentile(0.99)),
                                  microseconds(l.percentile(0.999)), microseconds(l.largest())));
  text += line("processor", fmt::format("{:.4f} s per GiB, {:.4f} with kernel threads and "
                                        "interrupts; others kept {:.2f} processors busy",
                                        comparison.ours.median_of(cpu),
                                        comparison.ours.median_of(all_cpu), m.foreign_processors));
  if (m.request_bytes) {
    text += line("drive saw", "requests of " +
                                  tool::binary_size(static_cast<std::uint64_t>(*m.request_bytes)) +
                                  " on average");
  }
  text += line("memory", fmt::format("on {} pages", name(m.pages)));
  text +=
      line("page cache", fmt::format("had {} before, {} after", share_text(m.cached_share_before),
                                     share_text(m.cached_share_after)));
  if (request.config.with == method::ring) {
    text +=
        line("ring", fmt::format("{}; longest submission {:.2f} ms; {}, {} handed to workers",
                                 m.ring_flags, m.longest_submit_seconds * 1e3,
                                 tool::counted(m.kernel_workers, "kernel worker"),
                                 m.punts ? tool::counted(*m.punts, "read") : "not told how many"));
  }
  text += line("short reads", fmt::format("{}; {} resubmitted", m.short_reads, m.resubmits));
  if (!comparison.fio.runs().empty()) {
    text += line("fio", fmt::format("{:.3f} GB/s, {:.3f} to {:.3f}; {:.4f} s per GiB",
                                    comparison.fio.gb_per_s(), comparison.fio.least_gb_per_s(),
                                    comparison.fio.most_gb_per_s(), comparison.fio.median_of(cpu)));
    // fio reports the processor time of the threads of its jobs only.
    text += line("ours to fio", fmt::format("{:.3f} of its rate, {:.2f} of its processor time{}",
                                            comparison.rate_ratio(), comparison.cpu_ratio(),
                                            m.kernel_workers > 0 || m.punts.value_or(0) > 0
                                                ? ", in which its kernel workers are not counted"
                                                : ""));
  }
  return text;
}

void append_run(std::string& text, const run_request& request, const compared& comparison) {
  const cell& config = request.config;
  const measurement& m = comparison.ours.typical();
  tool::json_object object(text);
  object.field("schema_version", tool::schema_version)
      .field("target", request.path)
      .field("gb_per_s", comparison.ours.gb_per_s())
      .field("iops", comparison.ours.median_of(iops_of));
  append_latency(object.key_of_next("latency_us"), m.latency);
  object.field("cpu_s_per_gib", comparison.ours.median_of(cpu))
      .field("cpu_s_per_gib_with_kernel", comparison.ours.median_of(all_cpu))
      .field("bytes", m.bytes)
      .field("reads", m.reads)
      .field("seconds", m.seconds)
      .field("engine", name(config.with))
      .field("pattern", name(config.order))
      .field("route", name(config.by))
      .field("into", name(config.into))
      .field("state", name(config.state))
      .field("block", config.block_bytes)
      .field("depth", std::uint64_t{config.depth})
      .field("rings", std::uint64_t{config.rings})
      .field("threads", std::uint64_t{config.threads})
      .field("bytes_in_flight", config.bytes_in_flight())
      .field("pages", name(m.pages))
      .field("pages_asked", name(config.pages))
      .field("registered_buffers", config.registered_buffers)
      .field("registered_files", config.registered_files)
      .field("sqpoll", config.sqpoll)
      .field("iopoll", config.iopoll)
      .field("ring_flags", m.ring_flags)
      .field("longest_submit_seconds", m.longest_submit_seconds)
      .field("kernel_workers", std::uint64_t{m.kernel_workers})
      .field("short_reads", m.short_reads)
      .field("resubmits", m.resubmits)
      .field("foreign_processors", m.foreign_processors);
  append_optional(object.key_of_next("punts"),
                  m.punts ? std::optional(static_cast<double>(*m.punts)) : std::nullopt);
  append_optional(object.key_of_next("request_bytes"), m.request_bytes);
  append_optional(object.key_of_next("cached_share_before"), m.cached_share_before);
  append_optional(object.key_of_next("cached_share_after"), m.cached_share_after);
  const auto rate = [](const measurement& one) { return one.gb_per_s(); };
  object.list("runs_gb_per_s", each(comparison.ours, rate));
  if (!comparison.fio.runs().empty()) {
    tool::json_object fio(object.key_of_next("fio"));
    fio.field("gb_per_s", comparison.fio.gb_per_s())
        .field("cpu_s_per_gib", comparison.fio.median_of(cpu))
        .list("runs_gb_per_s", each(comparison.fio, rate))
        .field("rate_ratio", comparison.rate_ratio())
        .field("cpu_ratio", comparison.cpu_ratio())
        .close();
  }
  object.close();
}

}  // namespace ringload::bench
