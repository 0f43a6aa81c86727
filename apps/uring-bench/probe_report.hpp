// SPDX-License-Identifier: Apache-2.0
#pragma once

// What uring-bench probe found out, as text and as JSON.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::bench {

enum class verdict : std::uint8_t { good, note, bad };

struct finding {
  std::string topic;
  std::string item;
  verdict how = verdict::good;
  std::string what;
  std::string advice = {};  // What to do; empty: nothing needs to be done.
};

using findings = std::vector<finding>;

/// "ok", "note", "no"
std::string_view name(verdict how) noexcept;

std::string text_of(const findings& all);

/// Appends one JSON object.
void append(std::string& to, const findings& all);

// The probes; each appends what it found. `path` is a file or a folder.
void probe_ring(findings& to);
void probe_registration(findings& to);
void probe_memory(findings& to);
void probe_path(const std::string& path, findings& to);
void probe_drive(const std::string& path, findings& to);
void probe_gpu(findings& to);

}  // namespace ringload::bench
