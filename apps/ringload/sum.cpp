// SPDX-License-Identifier: Apache-2.0

// ringload sum: prints the digest of each loaded tensor, as text, as JSON, or as a checksum list
// for the verification of later loads.

#include <optional>
#include <ringload/atomic_file.hpp>
#include <ringload/error.hpp>
#include <string>

#include "checksums.hpp"
#include "commands.hpp"
#include "device.hpp"
#include "interrupts.hpp"
#include "json.hpp"
#include "open_request.hpp"
#include "report.hpp"
#include "tensor_hasher.hpp"
#include "text.hpp"
#include "written_files.hpp"

namespace ringload::tool {

namespace {

void write_lines(const checksum_result& all, output& out) {
  for (const tensor_digest& sum : all.sums) out.write(sum_line(hex(sum.bytes), sum.name));
}

void write_digests(const checksum_result& all, std::string& text, output& out) {
  text += "[";
  const char* before = "\n";
  for (const tensor_digest& sum : all.sums) {
    text += before;
    json_object(text).field("name", sum.name).field(name(sum.algorithm), hex(sum.bytes)).close();
    before = ",\n";
    out.write(text);
    text.clear();
  }
  text += "\n]";
}

// Writes the statistics of the load. Also writes the digests, unless a checksum list is written.
void write_json(const sum_request& request, const checksum_result& all, output& out) {
  const std::string device_name = device_named(request.load.device).name();
  std::string text;
  json_object top(text, ",\n");
  top.field("schema_version", schema_version);
  const load_stats stats = with_opening(all.stats, all.seconds_opening);
  append_report(top.key_of_next("load"), {request.load.from.sources, device_name, all.loaded, stats,
                                          all.of_files, all.seconds_starting});
  if (request.checksums.empty()) write_digests(all, top.key_of_next("tensors"), out);
  top.close();
  out.write(text + "\n");
}

void write_checksums(const checksum_result& all, atomic_file& file) {
  std::string text;
  for (const tensor_digest& sum : all.sums) text += checksum_line(sum);
  file.write(text);
  file.publish();
}

}  // namespace

void sum_tensors(const sum_request& request, output& out) {
  if (request.attach.empty()) {
    check_written_files(request.load.from, {{"--checksums", request.checksums}});
  }
  watch_for_interrupts();
  // Created before the load, so that nothing is hashed if the file cannot be created.
  std::optional<atomic_file> list;
  if (!request.checksums.empty()) list.emplace(request.checksums, entry_kind::file, true);

  const auto algorithm_of = [&request](std::string_view) { return request.algorithm; };
  const checksum_result all = request.attach.empty()
                                  ? sum_all_tensors(request.load, algorithm_of)
                                  : sum_attached(request.load, request.attach, algorithm_of);
  if (list) write_checksums(all, *list);
  if (request.load.json) {
    write_json(request, all, out);
  } else if (!list) {
    write_lines(all, out);
  }
  out.flush();
}

}  // namespace ringload::tool
