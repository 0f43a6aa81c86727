// SPDX-License-Identifier: Apache-2.0
#include "net.hpp"

#include <doctest/doctest.h>

using namespace ringload::bench;

namespace {

measured_net_cell cell_with(std::uint32_t connections, std::uint64_t chunk_bytes, double gb_per_s,
                            double processors) {
  measured_net_cell out = {{connections, chunk_bytes}, {}};
  measurement m;
  m.seconds = 2;
  m.bytes = static_cast<std::uint64_t>(gb_per_s * 2e9);
  m.cpu_seconds = processors * 2;
  out.measurements.add(m);
  return out;
}

}  // namespace

TEST_CASE("net: the cells are all connections with all chunks") {
  net_request request;
  request.connections = {1, 4};
  request.chunks = {1U << 20, 4U << 20};
  const auto cells = cells_of(request);
  REQUIRE(cells.size() == 4);
  CHECK(cells[1].connections == 1);
  CHECK(cells[1].chunk_bytes == 4U << 20);
  CHECK(cells[3].bytes_in_flight() == 16U << 20);
  request.chunks.clear();
  CHECK(cells_of(request).empty());
}

TEST_CASE("net: of cells that are about as good the one with the least in flight is chosen") {
  net_findings all;
  all.cells = {cell_with(1, 1 << 20, 0.2, 0.1), cell_with(8, 1 << 20, 0.98, 0.1),
               cell_with(8, 4 << 20, 1.0, 0.1), cell_with(16, 1 << 20, 0.99, 0.1)};
  CHECK(all.best().config.chunk_bytes == 4 << 20);
  CHECK(all.chosen().config.connections == 8);
  CHECK(all.chosen().config.chunk_bytes == 1 << 20);
  all.cells[1] = cell_with(8, 1 << 20, 0.96, 0.1);
  CHECK(all.chosen().config.connections == 16);
}

TEST_CASE("net: the wall is the processor, what a connection carries, or lies beyond") {
  net_findings all;
  all.cells = {cell_with(4, 1 << 20, 0.5, 0.3), cell_with(8, 1 << 20, 1.0, 0.5)};
  CHECK(all.wall() == net_wall::connections);
  all.cells[1] = cell_with(8, 1 << 20, 0.59, 0.5);
  CHECK(all.wall() == net_wall::beyond);
  all.cells[1] = cell_with(8, 1 << 20, 1.0, 0.9);
  CHECK(all.wall() == net_wall::processor);
}

TEST_CASE("net: without a cell of at most half of the connections the wall is unknown") {
  net_findings all;
  all.target = "hf://a/b";
  for (const std::uint32_t connections : {1U, 16U}) {
    all.cells = {cell_with(connections, 1 << 20, 0.5, 0.3)};
    CHECK(all.wall() == net_wall::unknown);
    const std::string text = net_text(all);
    CHECK(text.find("the wall is unknown") != text.npos);
    CHECK(text.find("more connections give no more") == text.npos);
    std::string json;
    append_net(json, all);
    CHECK(json.find("\"wall\": \"unknown\"") != json.npos);
  }
  all.cells = {cell_with(9, 1 << 20, 0.5, 0.3), cell_with(16, 1 << 20, 0.5, 0.3)};
  CHECK(all.wall() == net_wall::unknown);
  all.cells[0] = cell_with(8, 1 << 20, 0.5, 0.3);
  CHECK(all.wall() == net_wall::beyond);
  all.cells = {cell_with(1, 1 << 20, 0.5, 0.95)};
  CHECK(all.wall() == net_wall::processor);
}

TEST_CASE("net: the report names the file, the choice and the wall") {
  net_findings all;
  all.target = "hf://a/b";
  all.file = "https://host/a\nb";
  all.file_bytes = 1'000;
  all.cells = {cell_with(4, 1 << 20, 0.5, 0.3), cell_with(8, 1 << 20, 1.0, 0.5)};
  const std::string text = net_text(all);
  CHECK(text.find("a\\nb, 1,000 bytes") != text.npos);
  CHECK(text.find("--connections 8 --chunk-bytes 1024K") != text.npos);
  CHECK(text.find("what one connection carries") != text.npos);
  std::string json;
  append_net(json, all);
  CHECK(json.find("\"wall\": \"connections\"") != json.npos);
  CHECK(json.find("\"cells\": [{\"connections\": 4") != json.npos);
}
