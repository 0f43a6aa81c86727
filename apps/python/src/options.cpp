// SPDX-License-Identifier: Apache-2.0

// Converts dictionaries to options of the library. Each function lists the keys that it accepts.

#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <optional>
#include <ringload/group_load.hpp>
#include <ringload/writer.hpp>
#if RINGLOAD_PYTHON_REMOTE
#include <ringload/remote.hpp>
#endif
#include <stdexcept>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "attributes.hpp"
#include "cache_reports.hpp"
#include "convert.hpp"
#include "held.hpp"
#include "network.hpp"
#include "path.hpp"
#include "sha256.hpp"

namespace ringload::python {

namespace {

using setter = std::function<void(nb::handle)>;

// Reports a value of a wrong type.
class wrong_type : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class T>
T checked(nb::handle value, const char* expected) {
  // True and False are integers for Python, but not numbers of this package.
  if (std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && PyBool_Check(value.ptr())) {
    throw wrong_type(expected);
  }
  try {
    return nb::cast<T>(value);
  } catch (const std::bad_cast&) {
    throw wrong_type(expected);
  }
}

template <class T>
constexpr const char* expected_for() {
  if constexpr (std::is_same_v<T, bool>) {
    return "True or False";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "a str";
  } else {
    if (std::is_signed_v<T>) return "an integer";
    return sizeof(T) == 8 ? "an integer of 0 or more" : "an integer of 0 to 4294967295";
  }
}

void apply(const nb::dict& given, std::initializer_list<std::pair<std::string_view, setter>> keys) {
  for (const auto& [key, value] : given) {
    const auto name = text_from(key, "the name of an option");
    const auto known =
        std::find_if(keys.begin(), keys.end(), [&](const auto& k) { return k.first == name; });
    if (known == keys.end()) throw usage_error("there is no option " + name);
    if (value.is_none()) continue;
    try {
      known->second(value);
    } catch (const wrong_type& expected) {
      throw nb::type_error(
          (name + " must be " + expected.what() + ", not " + shown(value)).c_str());
    } catch (const usage_error& wrong) {
      throw usage_error(name + ": " + wrong.what());
    }
  }
}

// Converts a number, a bool or a text.
template <class T>
setter number(T& into) {
  return [&into](nb::handle value) { into = checked<T>(value, expected_for<T>()); };
}

[[maybe_unused]] setter seconds(std::chrono::milliseconds& into) {
  return [&into](nb::handle value) {
    const auto given = checked<double>(value, "a number of seconds");
    if (!(given >= 0 && given < 1e9)) throw usage_error("must be 0 to 1e9 seconds");
    into = std::chrono::milliseconds(std::llround(std::ceil(given * 1000)));
  };
}

template <class T>
setter word(T& into, std::initializer_list<std::pair<std::string_view, T>> words) {
  return [&into, all = std::vector(words)](nb::handle value) {
    const auto given = checked<std::string>(value, "a str");
    std::string known;
    for (const auto& [name, meaning] : all) {
      if (name == given) {
        into = meaning;
        return;
      }
      known.append(known.empty() ? "" : ", ").append(name);
    }
    throw usage_error("'" + given + "' is invalid, expected one of: " + known);
  };
}

setter type(std::optional<dtype>& into) {
  return [&into](nb::handle value) { into = dtype_of(checked<std::string>(value, "a str")); };
}

setter digest(std::optional<digest_algorithm>& into) {
  return [&into](nb::handle value) {
    digest_algorithm chosen = digest_algorithm::crc32c;
    word(chosen,
         {{"crc32c", digest_algorithm::crc32c}, {"sha256", digest_algorithm::sha256}})(value);
    into = chosen;
  };
}

setter strictness(strictness& into) {
  return word(into, {{"strict", strictness::strict}, {"reference", strictness::reference}});
}

setter nameless(unnamed_dtypes& into) {
  return [&into](nb::handle value) {
    for (nb::handle item : value) {
      const dtype chosen = dtype_of(checked<std::string>(item, "names of types"));
      if (bits(chosen) != 8 && bits(chosen) != 16) {
        throw usage_error("'" + name_of(chosen) + "' is invalid, expected types of 8 or 16 bits");
      }
      std::optional<dtype>& type = bits(chosen) == 8 ? into.one_byte : into.two_bytes;
      if (type && *type != chosen) {
        throw usage_error("'" + name_of(*type) + "' and '" + name_of(chosen) +
                          "' have the same width, expected one type for each width");
      }
      type = chosen;
    }
  };
}

setter texts(std::vector<std::pair<std::string, std::string>>& into) {
  return [&into](nb::handle value) {
    for (const auto& [key, text] : checked<nb::dict>(value, "a dict of str to str")) {
      std::string name = text_from(key, "its key");
      const std::string argument = "its value of '" + name + "'";
      into.emplace_back(std::move(name), text_from(text, argument));
    }
  };
}

}  // namespace

group_reading group_reading_of(const std::string& name) {
  auto chosen = group_reading::divided;
  word(chosen, {{"divided", group_reading::divided}, {"own", group_reading::own}})(str_of(name));
  return chosen;
}

loader_options loader_options_of(const nb::dict& given) {
  loader_options within;
  apply(given, {{"slots", number(within.slots)},
                {"slot_bytes", number(within.slot_bytes)},
                {"bytes_in_flight", number(within.bytes_in_flight)},
                {"bytes_per_second_max", number(within.bytes_per_second_max)},
                {"arena_bytes_max", number(within.arena_bytes_max)},
                {"cached_bytes", number(within.cached_bytes)},
                {"copy_threads", number(within.copy_threads)},
                {"reader_threads", number(within.reader_threads)},
                {"engine", word(within.engine, {{"automatic", read_engine::automatic},
                                                {"ring", read_engine::ring},
                                                {"threads", read_engine::threads}})},
                {"huge_pages", word(within.huge_pages, {{"transparent", huge_pages::transparent},
                                                        {"reserved", huge_pages::reserved},
                                                        {"none", huge_pages::none}})},
                {"gpu_direct", word(within.gpu_direct, {{"off", gpu_direct::off},
                                                        {"automatic", gpu_direct::automatic},
                                                        {"required", gpu_direct::required}})},
                {"peer_copies", number(within.peer_copies)},
                {"stop_seconds_max", seconds(within.stop_time_max)}});
  return within;
}

open_options open_options_of(const nb::dict& given) {
  open_options how;
  apply(given, {{"strictness", strictness(how.strictness)},
                {"independent_files", number(how.independent_files)},
                {"nameless", nameless(how.nameless)}});
  return how;
}

loading_options::loading_options(const nb::dict& given) {
  const setter verify = [this](nb::handle value) {
    if (nb::isinstance<nb::dict>(value)) {  // Maps names to lines of a checksum list.
      std::string lines;
      for (const auto& [name, line] : nb::cast<nb::dict>(value)) {
        lines.append(text_from(line, "a digest of verify")).append("\n");
      }
      listed_ = parse_checksum_list(lines, "verify");
      listed_.sha256 = &make_sha256;
      of.verify = &listed_;
      return;
    }
    const std::string text = checked<path_argument>(value, "a str").bytes;
    if (text == "if_present") {
      of.verify = {embedded_digests::if_present, &make_sha256};
    } else if (text == "require") {
      of.verify = {embedded_digests::require, &make_sha256};
    } else {
      listed_ = read_checksum_list(text);
      listed_.sha256 = &make_sha256;
      of.verify = &listed_;
    }
  };
  apply(given,
        {{"strictness", strictness(of.open.strictness)},
         {"nameless", nameless(of.open.nameless)},
         {"route", word(of.route, {{"automatic", read_route::automatic},
                                   {"direct", read_route::direct},
                                   {"buffered", read_route::buffered}})},
         {"dtype", type(of.dtype)},
         {"allocation", word(of.allocation, {{"per_load", allocation::per_load},
                                             {"per_file", allocation::per_file},
                                             {"per_tensor", allocation::per_tensor}})},
         {"tensor_alignment", number(of.tensor_alignment)},
         {"memory",
          word(of.memory, {{"owned", tensor_memory::owned}, {"mapped", tensor_memory::mapped}})},
         {"access", word(of.access, {{"read_only", mapped_access::read_only},
                                     {"copy_on_write", mapped_access::copy_on_write}})},
         {"unmappable",
          word(of.unmappable, {{"refuse", on_unmappable::refuse}, {"copy", on_unmappable::copy}})},
         {"populate", number(of.populate)},
         {"verify", verify}});
}

save_options save_options_of(const nb::dict& given) {
  save_options how;
  how.sha256 = &make_sha256;
  const setter progress = [&how](nb::handle value) {
    how.progress = nb::cast<const held_progress&>(value).of;
  };
  apply(given, {{"format", word(how.format, {{"by_name", save_format::by_name},
                                             {"safetensors", save_format::safetensors},
                                             {"zt", save_format::zt}})},
                {"metadata", texts(how.metadata)},
                {"order", word(how.order, {{"reference", tensor_order::reference},
                                           {"given", tensor_order::given}})},
                {"alignment", number(how.alignment)},
                {"shard_bytes", number(how.shard_bytes)},
                {"shard_count", number(how.shard_count)},
                {"dtype", type(how.dtype)},
                {"replace", number(how.replace)},
                {"sync", number(how.sync)},
                {"read_back", number(how.read_back)},
                {"digest", digest(how.digest)},
                {"progress", progress}});
  return how;
}

delta_options delta_options_of(const nb::dict& given) {
  delta_options options;
  options.sha256 = &make_sha256;
  indexed_delta indexed;
  apply(given, {{"zstd_level", number(options.zstd_level)},
                {"window_bytes", number(options.window_bytes)},
                {"indexed", word(indexed.encoding, {{"xor", delta_encoding::exclusive_or},
                                                    {"overwrite", delta_encoding::overwrite}})},
                {"checksum", word(indexed.checksum, {{"xxh3-128", delta_checksum::xxh3_128},
                                                     {"adler32", delta_checksum::adler32}})},
                {"replace", number(options.replace)},
                {"sync", number(options.sync)}});
  if (given.contains("indexed") && !given["indexed"].is_none()) options.indexed = indexed;
  return options;
}

fill_options fill_options_of(const nb::dict& given) {
  using p = fill_options;
  fill_options how;
  apply(given,
        {{"missing",
          word(how.missing, {{"error", p::on_missing::error}, {"report", p::on_missing::report}})},
         {"unexpected", word(how.unexpected, {{"ignore", p::on_unexpected::ignore},
                                              {"report", p::on_unexpected::report},
                                              {"error", p::on_unexpected::error}})},
         {"dtype",
          word(how.dtype, {{"exact", p::on_dtype::exact}, {"convert", p::on_dtype::convert}})},
         {"shape", word(how.shape,
                        {{"exact", p::on_shape::exact}, {"broadcast", p::on_shape::broadcast}})}});
  return how;
}

writer_options writer_options_of(const nb::dict& given) {
  writer_options how;
  how.sha256 = &make_sha256;
  const setter store = [&how](nb::handle value) {
    how.extensions.emplace_back(nb::cast<held_network&>(value).of);
  };
  apply(given, {{"alignment", number(how.alignment)},
                {"store", store},
                {"zstd_threads", number(how.zstd_threads)},
                {"replace", number(how.replace)},
                {"sync", number(how.sync)}});
  return how;
}

#if RINGLOAD_PYTHON_REMOTE
remote_options remote_options_of(const nb::dict& given) {
  remote_options how;
  const setter hosts = [&how](nb::handle value) {
    for (nb::handle host : value) how.hosts.push_back(text_from(host, "a host"));
  };
  const setter no_proxy = [&how](nb::handle value) {
    for (nb::handle host : value) how.no_proxy.push_back(text_from(host, "a host"));
  };
  const setter on_cached = [&how](nb::handle value) {
    const auto to = std::make_shared<cache_reporter>(nb::cast<held_cache_reports&>(value).of);
    how.hub.on_cached = [to](const hub_cached_file& file) {
      to->to->add({file.name, file.whole, file.missing_bytes, file.error_text});
    };
  };
  const setter path_style = [&how](nb::handle value) {
    how.s3.path_style = checked<bool>(value, "True or False");
  };
  apply(given, {{"connections", number(how.connections)},
                {"chunk_bytes", number(how.chunk_bytes)},
                {"threads", number(how.threads)},
                {"connect_seconds_max", seconds(how.connect_time_max)},
                {"silence_seconds_max", seconds(how.silence_time_max)},
                {"stall_seconds_max", seconds(how.stall_time_max)},
                {"request_seconds_max", seconds(how.request_time_max)},
                {"tries_max", number(how.tries_max)},
                {"retry_seconds", seconds(how.retry_delay)},
                {"retry_seconds_max", seconds(how.retry_delay_max)},
                {"redirects_max", number(how.redirects_max)},
                {"whole_bytes_max", number(how.whole_bytes_max)},
                {"proxy", number(how.proxy)},
                {"no_proxy", no_proxy},
                {"ca_file", number(how.ca_file)},
                {"hosts", hosts},
                {"private_redirects", number(how.private_redirects)},
                {"offline", number(how.offline)},
                {"token", number(how.hub.token)},
                {"endpoint", number(how.hub.endpoint)},
                {"cache_folder", number(how.hub.cache_folder)},
                {"cache", word(how.hub.cache, {{"off", hub_cache::off},
                                               {"read", hub_cache::read},
                                               {"fill", hub_cache::fill}})},
                {"on_cached", on_cached},
                {"region", number(how.s3.region)},
                {"s3_endpoint", number(how.s3.endpoint)},
                {"access_key_id", number(how.s3.access_key_id)},
                {"secret_access_key", number(how.s3.secret_access_key)},
                {"session_token", number(how.s3.session_token)},
                {"path_style", path_style},
                {"gs_endpoint", number(how.gs.endpoint)},
                {"gs_access_key_id", number(how.gs.access_key_id)},
                {"gs_secret_access_key", number(how.gs.secret_access_key)},
                {"azure_endpoint", number(how.azure.endpoint)},
                {"azure_sas_token", number(how.azure.sas_token)}});
  return how;
}
#endif

object_options object_options_of(const nb::dict& given) {
  object_options how;
  const setter attributes = [&how](nb::handle value) {
    how.attributes = attributes_of(nb::cast<nb::dict>(value));
  };
  apply(given, {{"zstd_level", number(how.zstd_level)},
                {"digest", digest(how.digest)},
                {"type", number(how.type)},
                {"attributes", attributes}});
  return how;
}

}  // namespace ringload::python
