// SPDX-License-Identifier: Apache-2.0
#pragma once

// The requests of the command line as plain data. Each command has a request as its only input.

#include <cstdint>
#include <ringload/options.hpp>
#include <string>
#include <variant>
#include <vector>

#include "config.hpp"
#include "remote_settings.hpp"

namespace ringload::bench {

struct run_request {
  std::string path;
  cell config;
  std::uint32_t runs = 1;
  bool with_fio = false;
  bool json = false;
};

struct sweep_request {
  std::string path;
  cell base;  // The settings that all cells share.
  std::vector<std::uint64_t> blocks;
  std::vector<std::uint64_t> bytes_in_flight;
  std::vector<page_kind> pages;
  std::uint32_t runs = 5;
  bool with_fio = false;
  bool json = false;
  std::string html;  // The HTML file to write, or empty.
};

struct stages_request {
  std::string source;
  std::string device = "host";
  loader_options options;
  std::uint32_t runs = 7;
  bool with_fio = false;
  bool json = false;
};

struct probe_request {
  std::string path = ".";
  bool json = false;
};

struct tune_request {
  std::string path;
  double seconds = 50;
  bool json = false;
};

struct net_request {
  std::string target;
  tool::remote_wish remote;
  std::vector<std::uint32_t> connections;
  std::vector<std::uint64_t> chunks;
  double seconds = 1;
  std::uint32_t runs = 3;
  bool json = false;
};

// The request of --help and --version.
struct text_request {
  std::string text;
};

using any_request = std::variant<text_request, run_request, sweep_request, stages_request,
                                 probe_request, tune_request, net_request>;

}  // namespace ringload::bench
