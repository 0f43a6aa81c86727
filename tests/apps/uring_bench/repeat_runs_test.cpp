// SPDX-License-Identifier: Apache-2.0
#include "repeat_runs.hpp"

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>

#include "report.hpp"

using namespace ringload::bench;

namespace {

measurement of_rate(double gb_per_s) {
  measurement m;
  m.bytes = static_cast<std::uint64_t>(gb_per_s * 1e9);
  m.seconds = 1;
  return m;
}

}  // namespace

TEST_CASE("the median is the middle one, or between the two in the middle") {
  CHECK(median({}) == 0);
  CHECK(median({5}) == 5);
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
}

TEST_CASE("the typical run is the one nearest to the median") {
  repeated runs;
  for (const double rate : {1.0, 9.0, 5.0, 2.0, 8.0}) runs.add(of_rate(rate));
  CHECK(runs.gb_per_s() == doctest::Approx(5));
  CHECK(runs.typical().gb_per_s() == doctest::Approx(5));
  CHECK(runs.least_gb_per_s() == doctest::Approx(1));
  CHECK(runs.most_gb_per_s() == doctest::Approx(9));
}

TEST_CASE("figures that follow from bytes and time") {
  measurement m;
  m.bytes = std::uint64_t{4} << 30;
  m.reads = 2048;
  m.seconds = 2;
  m.cpu_seconds = 1;
  m.cpu_kernel_seconds = 0.5;
  CHECK(m.gb_per_s() == doctest::Approx(2.147483648));
  CHECK(m.iops() == doctest::Approx(1024));
  CHECK(m.cpu_s_per_gib() == doctest::Approx(0.25));
  CHECK(m.cpu_s_per_gib_with_kernel() == doctest::Approx(0.375));
  const measurement nothing;
  CHECK(nothing.gb_per_s() == 0);
  CHECK(nothing.cpu_s_per_gib() == 0);
}

TEST_CASE("run: with an even number of runs, text, JSON and the ratio to fio have one median") {
  compared comparison;
  for (const double rate : {1.0, 2.0, 4.0, 8.0}) {
    measurement m = of_rate(rate);
    m.reads = static_cast<std::uint64_t>(rate * 1000);
    m.cpu_seconds = 1;
    comparison.ours.add(m);
    comparison.fio.add(m);
  }
  run_request request;
  request.path = "file";
  const std::string text = run_text(request, comparison);
  CHECK(text.find("3.000 GB/s, 3000 IOPS; median of 4, 1.000 to 8.000\n") != text.npos);
  CHECK(text.find("1.000 of its rate, 1.00 of its processor time\n") != text.npos);
  std::string json;
  append_run(json, request, comparison);
  const auto parsed = boost::json::parse(json);
  const double rate = parsed.at("gb_per_s").to_number<double>();
  CHECK(rate == doctest::Approx(3));
  CHECK(parsed.at("iops").to_number<double>() == doctest::Approx(3000));
  const auto& fio = parsed.at("fio");
  CHECK(fio.at("rate_ratio").to_number<double>() ==
        doctest::Approx(rate / fio.at("gb_per_s").to_number<double>()));
  CHECK(fio.at("cpu_ratio").to_number<double>() ==
        doctest::Approx(parsed.at("cpu_s_per_gib").to_number<double>() /
                        fio.at("cpu_s_per_gib").to_number<double>()));
}
