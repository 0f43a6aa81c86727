// SPDX-License-Identifier: Apache-2.0
#include "probe_report.hpp"

#include <fmt/format.h>

#include "json.hpp"
#include "text.hpp"

namespace ringload::bench {

std::string_view name(verdict how) noexcept {
  switch (how) {
    case verdict::good: return "ok";
    case verdict::note: return "note";
    case verdict::bad: return "no";
  }
  return "no";
}

std::string text_of(const findings& all) {
  std::string text;
  std::string topic;
  for (const finding& one : all) {
    if (one.topic != topic) text += (topic.empty() ? "" : "\n") + one.topic + "\n";
    topic = one.topic;
    text +=
        fmt::format("  {:<4}  {:<30} {}\n", name(one.how), one.item, tool::printable(one.detail));
    if (!one.advice.empty()) text += fmt::format("        {:<30} -> {}\n", "", one.advice);
  }
  return text;
}

void append(std::string& text, const findings& all) {
  text += "{\"schema_version\": ";
  tool::append_json(text, tool::schema_version);
  text += ", \"findings\": [";
  const char* before = "\n";
  for (const finding& one : all) {
    text += before;
    tool::json_object(text)
        .field("topic", one.topic)
        .field("item", one.item)
        .field("verdict", name(one.how))
        .field("what", one.detail)
        .field("advice", one.advice)
        .close();
    before = ",\n";
  }
  text += "]}";
}

}  // namespace ringload::bench
