// SPDX-License-Identifier: Apache-2.0
#pragma once

// The findings of uring-bench probe, as text and as JSON.

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
  std::string detail;
  std::string advice = {};
};

using findings = std::vector<finding>;

/// Returns "ok", "note" or "no".
std::string_view name(verdict how) noexcept;

std::string text_of(const findings& all);

/// Appends one JSON object.
void append(std::string& text, const findings& all);

// The probes. Each appends its findings. `path` is a file or a folder.
void probe_ring(findings& results);
void probe_registration(findings& results);
void probe_memory(findings& results);
void probe_path(const std::string& path, findings& results);
void probe_drive(const std::string& path, findings& results);
void probe_gpu(findings& results);

}  // namespace ringload::bench
