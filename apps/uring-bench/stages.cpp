// SPDX-License-Identifier: Apache-2.0

// uring-bench stages: measures in turn the drive alone, the copies of the device alone, both as a
// pipeline without a format, and the loader. The slower of the first two is the upper bound. The
// difference between the pipeline and the loader is the overhead of the loader.
//
// The loader has two rows: into new memory, which the kernel zeroes, and into the reused memory of
// an earlier load. The drive alone reads into reused slots.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/use_future.hpp>
#include <future>
#include <ringload/catalog.hpp>
#include <ringload/loader.hpp>

#include "commands.hpp"
#include "device.hpp"
#include "failure.hpp"
#include "fio.hpp"
#include "interrupts.hpp"
#include "json.hpp"
#include "machine.hpp"
#include "repeat_runs.hpp"
#include "resource_usage.hpp"
#include "run.hpp"
#include "size.hpp"
#include "stages.hpp"
#include "stream.hpp"
#include "text.hpp"

namespace ringload::bench {

namespace {

constexpr double noise_of_idle_machine = 0.05;
constexpr std::uint64_t kept_padding_max = std::uint64_t{64} << 20;

struct stage {
  const char* name;
  const char* title;
  std::vector<double> gb_per_s = {};
  std::vector<double> cpu_s_per_gib = {};

  double rate() const { return median(gb_per_s); }
  double cpu() const { return median(cpu_s_per_gib); }
};

enum stage_index : std::uint8_t { fio, drive, copies, both, whole, kept, stages_count };

struct measured_stages {
  std::array<stage, stages_count> stages = {{{"fio", "fio, into slots"},
                                             {"disk", "drive alone, into slots"},
                                             {"copies", "device copies alone"},
                                             {"both", "both, without a format"},
                                             {"loader", "ringload, whole load"},
                                             {"kept", "the same, into kept memory"}}};
  std::vector<double> seconds_to_first_tensor;
  std::vector<double> loader_seconds;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t file_bytes = 0;

  const stage& wall() const {
    return stages[drive].rate() < stages[copies].rate() ? stages[drive] : stages[copies];
  }
  legs_rates rates() const {
    return {wall().title, wall().rate(), stages[both].rate(), stages[whole].rate()};
  }
  bool has_fio() const { return !stages[fio].gb_per_s.empty(); }
  bool has_kept() const { return !stages[kept].gb_per_s.empty(); }
  double rate_ratio(stage_index index) const { return stages[index].rate() / stages[fio].rate(); }
  double cpu_ratio(stage_index index) const { return stages[index].cpu() / stages[fio].cpu(); }
};

class stages_run {
 public:
  stages_run(const stages_request& request, const device& load_device, std::uint64_t tensor_bytes)
      : request_(request),
        load_device_(load_device),
        tensor_bytes_(tensor_bytes),
        source_(request.source, files_of(request.source), route::direct) {}

  measured_stages run() {
    measured_.file_bytes = source_.bytes();
    cell alone = cell_of(request_.options);
    alone.registered_buffers = false;
    alone.bytes_max = source_.bytes();
    alone.seconds = 3600;
    for (std::uint32_t i = 0; i < request_.runs; ++i) {
      in_turns(
          i, [&] { add(drive, bench::run(source_, alone, memory_)); },
          [&] {
            if (request_.with_fio) add(fio, run_fio(source_, alone));
          });
      streamed(copies, half::copies);
      source_.establish(cache_state::cold);
      streamed(both, half::both);
      loads();
    }
    return std::move(measured_);
  }

 private:
  static std::vector<std::string> files_of(const std::string& source) {
    std::vector<std::string> files;
    for (const file_info& one : read_catalog(source).files) files.push_back(one.path);
    return files;
  }

  void add(stage_index index, double seconds, double bytes, double cpu_seconds) {
    measured_.stages[index].gb_per_s.push_back(bytes / seconds * 1e-9);
    measured_.stages[index].cpu_s_per_gib.push_back(cpu_seconds / bytes * (1 << 30));
  }

  void add(stage_index index, const measurement& m) {
    add(index, m.seconds, static_cast<double>(m.bytes), m.cpu_seconds);
  }

  void streamed(stage_index index, half part) {
    const cpu_account processors;
    const double seconds = stream(source_, load_device_, request_.options, part);
    add(index, seconds, static_cast<double>(source_.bytes()), processors.spent().own);
  }

  void loads() {
    loader_options keeping = request_.options;
    // More than the memory of one load, which also has padding. Compressed tensors need more memory
    // than their files have bytes.
    keeping.cached_bytes = 2 * std::max(tensor_bytes_, source_.bytes()) + kept_padding_max;
    loader used_loader(load_device_, keeping);
    const finished_load first = load(used_loader);
    add(whole, first);
    measured_.seconds_to_first_tensor.push_back(first.stats.seconds_to_first_tensor);
    measured_.loader_seconds.push_back(first.stats.seconds);
    measured_.pinned_bytes = first.stats.pinned_bytes_peak;
    const finished_load second = load(used_loader);
    // Small memory is not kept. The load was then not a load into kept memory.
    if (second.stats.memory_kept) add(kept, second);
  }

  struct finished_load {
    load_stats stats;
    double cpu_seconds;
  };

  // If tensors are compressed, or share stored bytes, the rate counts the bytes of the files, as
  // the rate of the drive does.
  void add(stage_index index, const finished_load& result) {
    const std::uint64_t bytes = std::min(result.stats.bytes, source_.bytes());
    add(index, result.stats.seconds, static_cast<double>(bytes), result.cpu_seconds);
  }

  finished_load load(loader& used_loader) {
    source_.establish(cache_state::cold);
    const cpu_account processors;
    auto waiting =
        used_loader.load_async(request_.source, ringload::as_exception(boost::asio::use_future));
    using namespace std::chrono_literals;
    while (waiting.wait_for(50ms) != std::future_status::ready) tool::throw_if_interrupted();
    const model loaded = waiting.get();
    if (loaded.size() > 0) tool::release(loaded[0]);
    return {loaded.stats(), processors.spent().own};
  }

  const stages_request& request_;
  const device load_device_;
  const std::uint64_t tensor_bytes_;
  const target source_;
  read_buffer memory_;
  measured_stages measured_;
};

std::string stages_text(const stages_request& request, const measured_stages& measured,
                        std::uint64_t bytes) {
  std::string text = describe_machine(request.source) + "\n";
  text += fmt::format("{} of {}, cold and verified, medians of {} runs in turns, into {}\n",
                      tool::both_sizes(bytes), tool::printable(request.source), request.runs,
                      request.device);
  if (measured.file_bytes < bytes) {
    text += fmt::format(
        "The rates count the bytes of the files, {}. Tensors are compressed or share bytes.\n",
        tool::both_sizes(measured.file_bytes));
  }
  const loader_options& options = request.options;
  text += fmt::format("{} of {}, {} in flight to begin with\n\n",
                      tool::counted(options.slots, "slot"), tool::binary_size(options.slot_bytes),
                      tool::binary_size(cell_of(options).bytes_in_flight()));
  text += fmt::format("{:<26} {:>7}  {:<16} {:>11}\n", "", "GB/s", "least .. most", "CPU s/GiB");
  for (const stage& one : measured.stages) {
    if (one.gb_per_s.empty()) continue;
    const auto [least, most] = std::minmax_element(one.gb_per_s.begin(), one.gb_per_s.end());
    text += fmt::format("{:<26} {:>7.2f}  {:>5.2f} .. {:<7.2f} {:>11.4f}\n", one.title, one.rate(),
                        *least, *most, one.cpu());
  }
  const double seconds = median(measured.loader_seconds);
  const double first = median(measured.seconds_to_first_tensor);
  if (!measured.has_kept()) {
    text +=
        "No load reused the memory of an earlier load. Memory of less than 2 MiB is never kept.\n";
  }
  text += "\n" + verdict_of(measured.rates()) + "\n";
  if (measured.has_fio()) {
    const auto shares = [&](stage_index index) {
      return fmt::format("{:.3f} of its rate for {:.2f} of its processor time",
                         measured.rate_ratio(index), measured.cpu_ratio(index));
    };
    text += fmt::format("Compared with fio: the drive alone {};\nthe load {}{}.\n", shares(drive),
                        shares(whole),
                        measured.has_kept() ? ";\ninto kept memory " + shares(kept) : "");
  }
  text += fmt::format("First tensor after {:.1f} ms, {:.1f} % of the load; {} pinned.\n",
                      first * 1e3, first / seconds * 100, tool::both_sizes(measured.pinned_bytes));
  return text;
}

void append_stages(std::string& load_device, const stages_request& request,
                   const measured_stages& measured) {
  tool::json_object object(load_device);
  object.field("schema_version", tool::schema_version)
      .field("source", request.source)
      .field("device", request.device)
      .field("runs", std::uint64_t{request.runs});
  tool::json_object(object.key_of_next("limits"))
      .field("slots", std::uint64_t{request.options.slots})
      .field("slot_bytes", request.options.slot_bytes)
      .field("bytes_in_flight", request.options.bytes_in_flight)
      .field("copy_threads", std::uint64_t{request.options.copy_threads})
      .close();
  tool::json_object stages(object.key_of_next("stages"));
  for (std::uint8_t i = 0; i < stages_count; ++i) {
    const stage& one = measured.stages[i];
    if (one.gb_per_s.empty()) continue;
    tool::json_object fields(stages.key_of_next(one.name));
    fields.field("gb_per_s", one.rate())
        .list("runs_gb_per_s", one.gb_per_s)
        .field("cpu_s_per_gib", one.cpu());
    if (measured.has_fio()) {
      fields.field("rate_ratio", measured.rate_ratio(static_cast<stage_index>(i)))
          .field("cpu_ratio", measured.cpu_ratio(static_cast<stage_index>(i)));
    }
    fields.close();
  }
  stages.close();
  object.field("wall", std::string_view(measured.wall().name))
      .field("conclusive", measured.rates().is_conclusive())
      .field("loader_share_of_wall", measured.rates().share_of_wall())
      .field("loader_share_of_both", measured.rates().share_of_both())
      .field("seconds_to_first_tensor", median(measured.seconds_to_first_tensor))
      .field("loader_seconds", median(measured.loader_seconds))
      .field("pinned_bytes_peak", measured.pinned_bytes)
      .close();
}

}  // namespace

bool legs_rates::is_conclusive() const noexcept {
  return wall > 0 && loader <= wall * (1 + noise_of_idle_machine);
}

std::string verdict_of(const legs_rates& rates) {
  if (!rates.is_conclusive()) {
    return fmt::format(
        "Inconclusive: the loader's {:.2f} GB/s is above its wall, {} with {:.2f} GB/s. Something "
        "else has slowed the machine down meanwhile: measure again, with more --runs.",
        rates.loader, rates.wall_title, rates.wall);
  }
  return fmt::format(
      "The wall is {}. The loader reaches {:.3f} of it, and {:.3f} of what both give without a "
      "format.",
      rates.wall_title, rates.share_of_wall(), rates.share_of_both());
}

void measure_stages(const stages_request& original, tool::output& out) {
  const device load_device = tool::device_named(original.device);
  stages_request request = original;
  request.device = load_device.name();
  request.options = chosen_options(original.options, load_device.kind());
  tool::watch_for_interrupts();
  const std::uint64_t bytes = read_catalog(request.source).size_bytes();
  if (bytes == 0) fail(request.source, "there is not one byte in its tensors to load");
  if (request.with_fio && fio_version().empty()) fail("--with-fio", "there is no fio here");
  // Creates a loader, so that invalid limits are refused before the measurement.
  static_cast<void>(loader(load_device, request.options));
  const measured_stages measured = stages_run(request, load_device, bytes).run();
  std::string text;
  if (request.json) {
    append_stages(text, request, measured);
    text += '\n';
  } else {
    text = stages_text(request, measured, bytes);
  }
  out.write(text);
  out.flush();
}

}  // namespace ringload::bench
