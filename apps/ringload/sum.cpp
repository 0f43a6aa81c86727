// SPDX-License-Identifier: Apache-2.0

// ringload sum: the digest of the bytes that landed, which is the proof of a load; for a person,
// for a program, or as a manifest that later loads are checked against.

#include <cerrno>
#include <fstream>
#include <ringload/error.hpp>
#include <string>

#include "commands.hpp"
#include "device.hpp"
#include "hashing.hpp"
#include "json.hpp"
#include "report.hpp"
#include "sums.hpp"
#include "text.hpp"
#include "unpublished.hpp"

namespace ringload::tool {

namespace {

void write_lines(const summed& all, output& out) {
  for (const tensor_digest& sum : all.sums) out.write(sum_line(hex(sum.bytes), sum.name));
}

void write_json(const summed& all, const load_report& report, output& out) {
  std::string text;
  json_object top(text, ",\n");
  append_report(top.key_of_next("load"), report);
  top.key_of_next("tensors") += "[";
  const char* before = "\n";
  for (const tensor_digest& sum : all.sums) {
    text += before;
    json_object(text).field("name", sum.name).field(name(sum.algorithm), hex(sum.bytes)).close();
    before = ",\n";
    out.write(text);
    text.clear();
  }
  text += "\n]";
  top.close();
  out.write(text + "\n");
}

// Under its name only when it is whole.
void write_manifest(const summed& all, const std::string& path) {
  unpublished file(path, entry_kind::file, true);
  std::ofstream to(file.path(), std::ios::binary);
  for (const tensor_digest& sum : all.sums) to << manifest_line(sum);
  to.close();
  if (!to) {
    const int problem = errno == 0 ? EIO : errno;
    throw error({problem, boost::system::system_category()}, printable(path), {});
  }
  file.publish();
}

}  // namespace

void sum_tensors(const sum_request& request, output& out) {
  const summed all =
      sum_all_tensors(request.load, [&request](std::string_view) { return request.algorithm; });
  if (!request.manifest.empty()) write_manifest(all, request.manifest);
  if (request.load.json) {
    const std::string device_name = device_named(request.load.device).name();
    write_json(all,
               {request.load.source, device_name, all.loaded.catalog(), all.loaded.stats(),
                all.seconds_starting},
               out);
  } else if (request.manifest.empty()) {
    write_lines(all, out);
  }
  out.flush();
}

}  // namespace ringload::tool
