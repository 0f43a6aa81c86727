// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "progress_bar.hpp"
#include "run_program.hpp"
#include "size.hpp"

namespace tool = ringload::tool;

namespace {

using words_of = std::vector<std::string>;

tool::any_request parsed(const std::vector<const char*>& words) {
  std::vector<const char*> argv = {"ringload"};
  argv.insert(argv.end(), words.begin(), words.end());
  return tool::parse_command_line(static_cast<int>(argv.size()), argv.data());
}

template <class Request>
Request parsed_as(const std::vector<const char*>& words) {
  return std::get<Request>(parsed(words));
}

std::string complaint(const std::vector<const char*>& words) {
  try {
    parsed(words);
  } catch (const tool::usage_error& wrong) {
    return wrong.what();
  }
  return "";
}

}  // namespace

TEST_CASE("command line: defaults are the library's") {
  const auto load = parsed_as<tool::load_request>({"load", "m.safetensors"});
  const ringload::loader_options usual;
  CHECK(load.from.sources == words_of{"m.safetensors"});
  CHECK_FALSE(load.from.how.independent_files);
  CHECK(load.from.wanted.everything());
  CHECK(load.device == "host");
  CHECK(load.options.slots == usual.slots);
  CHECK(load.options.slot_bytes == usual.slot_bytes);
  CHECK(load.options.engine == ringload::read_engine::automatic);
  CHECK(load.how.route == ringload::read_route::automatic);
  CHECK(load.from.how.strictness == ringload::strictness::strict);
  CHECK_FALSE(load.how.dtype.has_value());
  CHECK(load.progress);
  CHECK_FALSE(load.json);
}

TEST_CASE("command line: several devices, and what goes where") {
  const auto load = parsed_as<tool::load_request>(
      {"load", "m", "--device", "cuda:0,cuda:1,host", "--place", "all", "--place", "*.q:dim0"});
  CHECK(load.device == "cuda:0,cuda:1,host");
  REQUIRE(load.from.wanted.places.size() == 2);
  CHECK(load.from.wanted.places[1].glob == "*.q");
}

TEST_CASE("command line: parses every option of load") {
  const auto load = parsed_as<tool::load_request>({"load",
                                                   "m",
                                                   "--device",
                                                   "auto",
                                                   "--json",
                                                   "--engine",
                                                   "threads",
                                                   "--route",
                                                   "buffered",
                                                   "--slots",
                                                   "3",
                                                   "--slot-bytes",
                                                   "64K",
                                                   "--profile",
                                                   "reference",
                                                   "--no-progress",
                                                   "--bytes-in-flight",
                                                   "1M",
                                                   "--copy-threads",
                                                   "5",
                                                   "--reader-threads",
                                                   "7",
                                                   "--huge-pages",
                                                   "reserved"});
  CHECK(load.device == "auto");
  CHECK(load.json);
  CHECK(load.options.engine == ringload::read_engine::threads);
  CHECK(load.how.route == ringload::read_route::buffered);
  CHECK(load.options.slots == 3);
  CHECK(load.options.slot_bytes == 65'536);
  CHECK(load.from.how.strictness == ringload::strictness::reference);
  CHECK_FALSE(load.progress);
  CHECK(load.options.bytes_in_flight == 1'048'576);
  CHECK(load.options.copy_threads == 5);
  CHECK(load.options.reader_threads == 7);
  CHECK(load.options.huge_pages == ringload::huge_pages::reserved);
}

TEST_CASE("command line: several sources, and what of them") {
  const auto ls = parsed_as<tool::ls_request>(
      {"ls", "a", "--select", "w*", "b", "--select", "x[0]", "--except", "*.bias", "c"});
  CHECK(ls.from.sources == words_of{"a", "b", "c"});
  CHECK(ls.from.wanted.select == words_of{"w*", "x[0]"});
  CHECK(ls.from.wanted.except == words_of{"*.bias"});
  const auto load = parsed_as<tool::load_request>({"load", "--slice", "w[0:2,:]", "--slice", "[1]",
                                                   "--shard", "q*:1", "--rank", "1/4", "--experts",
                                                   "--independent-files", "folder"});
  CHECK(load.from.sources == words_of{"folder"});
  CHECK(load.from.how.independent_files);
  REQUIRE(load.from.wanted.slices.size() == 2);
  CHECK(load.from.wanted.slices[0].name == "w");
  CHECK(load.from.wanted.slices[1].name.empty());
  CHECK(load.from.wanted.shards.at(0).dim == 1);
  CHECK(load.from.wanted.rank.value().ranks == 4);
  CHECK(load.from.wanted.experts);
  const auto verify = parsed_as<tool::verify_request>(
      {"verify", "a", "b", "--checksums", "m.sums", "--select", "w"});
  CHECK(verify.load.from.sources == words_of{"a", "b"});
  CHECK(verify.load.from.wanted.select == words_of{"w"});
}

TEST_CASE("command line: what is wrong with a selection is said with its text") {
  CHECK(complaint({"ls", "a", "--slice", "w[x]"}).starts_with("--slice: 'w[x]' has 'x', expected"));
  CHECK(complaint({"ls", "a", "--shard", "w"})
            .starts_with("--shard: 'w' is invalid, expected GLOB:DIM"));
  CHECK(complaint({"ls", "a", "--rank", "4/4"})
            .starts_with("--rank: '4/4' is invalid, expected 0/4"));
  CHECK(complaint({"ls", "a", "--shard", "w:0"}).starts_with("--shard needs --rank"));
  CHECK(complaint({"ls", "a", "--rank", "0/4"}).starts_with("--rank needs --shard or --experts"));
  CHECK(complaint({"sum", "a", "--select", "w", "--checksums", "m.sums"})
            .starts_with("--checksums: cannot be used with a selection"));
  CHECK(complaint({"verify", "a", "--select", "w"}).starts_with("--select requires --checksums"));
}

TEST_CASE("command line: GPUDirect Storage is off unless it is asked for") {
  using ringload::gpu_direct;
  const auto value = [](const char* word) {
    return parsed_as<tool::load_request>({"load", "m", "--gpu-direct", word}).options.gpu_direct;
  };
  CHECK(parsed_as<tool::load_request>({"load", "m"}).options.gpu_direct == gpu_direct::off);
  CHECK(value("auto") == gpu_direct::automatic);
  CHECK(value("required") == gpu_direct::required);
  CHECK_THROWS_AS(value("on"), tool::usage_error);
}

TEST_CASE("command line: huge pages are one of three kinds") {
  using ringload::huge_pages;
  const auto pages = [](const char* kind) {
    return parsed_as<tool::load_request>({"load", "m", "--huge-pages", kind}).options.huge_pages;
  };
  CHECK(parsed_as<tool::load_request>({"load", "m"}).options.huge_pages == huge_pages::transparent);
  CHECK(pages("transparent") == huge_pages::transparent);
  CHECK(pages("none") == huge_pages::none);
  CHECK_THROWS_AS(pages("hugetlb"), tool::usage_error);
}

TEST_CASE("command line: sum takes what load takes") {
  const auto sum = parsed_as<tool::sum_request>({"sum", "--engine=ring", "--route=direct", "m"});
  CHECK(sum.load.from.sources == words_of{"m"});
  CHECK(sum.load.options.engine == ringload::read_engine::ring);
  CHECK(sum.load.how.route == ringload::read_route::direct);
}

TEST_CASE("command line: says where tensors lie") {
  for (const char* command : {"load", "sum"}) {
    const auto how = [&](std::vector<const char*> words) {
      words.insert(words.begin(), {command, "m"});
      const tool::any_request made = parsed(words);
      const auto* load = std::get_if<tool::load_request>(&made);
      return load ? load->how : std::get<tool::sum_request>(made).load.how;
    };
    CHECK(how({}).memory == ringload::tensor_memory::owned);
    const auto mapped = how({"--mapped", "--unmappable", "copy", "--populate"});
    CHECK(mapped.memory == ringload::tensor_memory::mapped);
    CHECK(mapped.unmappable == ringload::on_unmappable::copy);
    CHECK(mapped.populate);
    CHECK(how({"--mapped"}).unmappable == ringload::on_unmappable::refuse);
    CHECK_FALSE(how({"--mapped"}).populate);
    CHECK(how({"--allocation", "tensor"}).allocation == ringload::allocation::per_tensor);
    CHECK(how({"--allocation", "file"}).allocation == ringload::allocation::per_file);
    CHECK(parsed_as<tool::load_request>({"load", "m", "--window", "1M"}).window_bytes == 1'048'576);
  }
}

TEST_CASE("command line: parses the options that check bytes") {
  CHECK(parsed_as<tool::load_request>({"load", "m", "--verify", "m.sums"}).verify == "m.sums");
  CHECK(parsed_as<tool::load_request>({"load", "m"}).verify.empty());
  const auto sum =
      parsed_as<tool::sum_request>({"sum", "m", "--checksums", "m.sums", "--algorithm", "crc32c"});
  CHECK(sum.checksums == "m.sums");
  CHECK(sum.algorithm == ringload::digest_algorithm::crc32c);
  CHECK(parsed_as<tool::sum_request>({"sum", "m"}).algorithm == ringload::digest_algorithm::sha256);
  const auto verify = parsed_as<tool::verify_request>({"verify", "m", "--checksums", "m.sums"});
  CHECK(verify.load.from.sources == words_of{"m"});
  CHECK(verify.checksums == "m.sums");
  CHECK_THROWS_AS(parsed({"sum", "m", "--algorithm", "md5"}), tool::usage_error);
}

TEST_CASE(
    "command line: how to load is for verify with a checksum list, and for nothing else of it") {
  const std::vector<std::vector<const char*>> loading = {
      {"--device", "auto"},     {"--engine", "threads"},   {"--route", "direct"},
      {"--slots", "3"},         {"--slot-bytes", "64K"},   {"--bytes-in-flight", "1M"},
      {"--copy-threads", "5"},  {"--reader-threads", "7"}, {"--huge-pages", "none"},
      {"--gpu-direct", "auto"},
  };
  for (const auto& option : loading) {
    CAPTURE(option.front());
    std::vector<const char*> words = {"verify", "m"};
    words.insert(words.end(), option.begin(), option.end());
    CHECK(complaint(words).starts_with(std::string(option.front()) + " requires --checksums"));
    words.insert(words.end(), {"--checksums", "m.sums"});
    CHECK(parsed_as<tool::verify_request>(words).checksums == "m.sums");
  }
  const auto files = parsed_as<tool::verify_request>(
      {"verify", "m", "--json", "--no-progress", "--profile", "reference"});
  CHECK(files.load.json);
  CHECK_FALSE(files.load.progress);
  CHECK(files.load.from.how.strictness == ringload::strictness::reference);
}

TEST_CASE("command line: digests of a checksum list are of the bytes in the files") {
  CHECK(complaint({"sum", "m", "--dtype", "f32", "--checksums", "m.sums"})
            .starts_with("--dtype: cannot be used with --checksums, which lists digests of the "
                         "unconverted bytes"));
  CHECK(complaint({"verify", "m", "--checksums", "m.sums", "--dtype", "f32"}).find("--dtype") !=
        std::string::npos);
}

TEST_CASE("command line: parses every option of make") {
  const auto make = parsed_as<tool::make_request>({"make", "x", "--bytes", "1.5M", "--tensors", "0",
                                                   "--shards", "2", "--order", "name", "--seed",
                                                   "18446744073709551615", "--force"});
  CHECK(make.path == "x");
  CHECK(make.bytes == 1'572'864);
  CHECK(make.tensors == 0);
  CHECK(make.shards == 2);
  CHECK(make.order == tool::tensor_order::name);
  CHECK(make.seed == 18446744073709551615U);
  CHECK(make.force);

  const auto llama = parsed_as<tool::make_request>({"make", "x", "--bytes=1G", "--shape=llama"});
  CHECK(llama.shapes == tool::tensor_shapes::llama);
  CHECK_FALSE(llama.tensors.has_value());
}

TEST_CASE("command line: help and version are texts, for the tool and for each command") {
  CHECK(parsed_as<tool::text_request>({"--help"}).text.find("Exit code") != std::string::npos);
  CHECK(parsed_as<tool::text_request>({"--version"}).text.starts_with("ringload "));
  for (const char* command : {"ls", "load", "sum", "verify", "make"}) {
    CAPTURE(command);
    const std::string text = parsed_as<tool::text_request>({command, "--help"}).text;
    CHECK(text.find(std::string("ringload ") + command) != std::string::npos);
    CHECK(text.find("Default: ") != std::string::npos);
  }
}

TEST_CASE("command line: help has the library's own defaults") {
  const std::string text = parsed_as<tool::text_request>({"load", "--help"}).text;
  const ringload::loader_options usual;
  CHECK(text.find("for each GPU up to 128). Default: " + std::to_string(usual.slots)) !=
        std::string::npos);
  CHECK(text.find("64M. Default: " + tool::binary_size(usual.slot_bytes)) != std::string::npos);
  CHECK(text.find("io_uring is not used: 1 to 64. Default: " +
                  std::to_string(usual.reader_threads)) != std::string::npos);
}

TEST_CASE("command line: a source may begin with a dash after two") {
  CHECK(parsed_as<tool::ls_request>({"ls", "--", "-x"}).from.sources == words_of{"-x"});
}

TEST_CASE("command line: contradictory options are a usage error") {
  const std::vector<std::vector<const char*>> wrong = {
      {},
      {"lsd"},
      {"ls"},
      {"ls", "a", "b", "--independent-files"},
      {"ls", "a", "--select"},
      {"ls", "a", "--slice", "w"},
      {"load", "a", "--shard", "w", "--rank", "0/2"},
      {"load", "a", "--shard", "w:0"},
      {"load", "a", "--rank", "0/2"},
      {"load", "a", "--rank", "2/2", "--experts"},
      {"sum", "a", "--experts"},
      {"verify", "a", "--checksums", "m", "--slice", "w[0]"},
      {"ls", "a", "--slots", "1"},
      {"ls", "a", "--profile", "lax"},
      {"load", "a", "--slots", "-1"},
      {"load", "a", "--slots", "4294967296"},
      {"load", "a", "--slots", "0x10"},
      {"load", "a", "--slots"},
      {"load", "a", "--slot-bytes", "2 M"},
      {"load", "a", "--engine", "Ring"},
      {"load", "a", "--mapped", "--window", "1M"},
      {"load", "a", "--populate"},
      {"sum", "a", "--unmappable", "copy"},
      {"sum", "a", "--allocation", "arena"},
      {"load", "a", "--route", ""},
      {"load", "a", "--device", "gpu"},
      {"load", "a", "--device", "cuda:"},
      {"load", "a", "--device", "host,"},
      {"load", "a", "--device", "host,,host"},
      {"load", "a", "--place", "everywhere"},
      {"sum", "a", "--device", "host,host"},
      {"load", "a", "--device", "cuda:-1"},
      {"make", "a"},
      {"make", "--bytes", "1K"},
      {"make", "a", "--bytes", "1K", "--shape", "gpt"},
      {"make", "a", "--bytes", "1K", "--shape", "llama", "--tensors", "3"},
      {"make", "a", "--bytes", "1K", "--shards", "100000"},
  };
  for (const auto& words : wrong) {
    std::string line;
    for (const char* word : words) line += std::string(" ") + word;
    CAPTURE(line);
    CHECK_THROWS_AS(parsed(words), tool::usage_error);
  }
}

TEST_CASE("progress: where columns are short the bar shrinks first, then the text") {
  const tool::progress half{1'000'000'000, 2'000'000'000};
  const std::string wide = tool::progress_text("loading", half, 0.5, 100);
  CHECK(wide.find("50%") != std::string::npos);
  CHECK(wide.find("2.00 GB/s") != std::string::npos);
  CHECK(wide.find("[####################....................]") != std::string::npos);
  for (std::size_t columns = 0; columns < 120; ++columns) {
    CHECK(tool::progress_text("loading", half, 0.5, columns).size() <= columns);
  }
}

TEST_CASE("progress: nothing is done while the total is not known, and no time is no speed") {
  const std::string text = tool::progress_text("loading", {0, 0}, 0, 80);
  CHECK(text.find("  0%") != std::string::npos);
  CHECK(text.find("0.00 GB/s") != std::string::npos);
}

TEST_CASE("command line: tensors can be converted to three types, and to no other") {
  CHECK(parsed_as<tool::load_request>({"load", "m", "--dtype", "bf16"}).how.dtype ==
        ringload::dtype::bf16);
  CHECK(parsed_as<tool::sum_request>({"sum", "m", "--dtype", "f16"}).load.how.dtype ==
        ringload::dtype::f16);
  CHECK(parsed_as<tool::load_request>({"load", "m", "--dtype", "f32"}).how.dtype ==
        ringload::dtype::f32);
  CHECK_THROWS_AS(parsed({"load", "m", "--dtype", "f64"}), tool::usage_error);
}

TEST_CASE("command line: parses every option of convert") {
  const auto convert = parsed_as<tool::convert_request>(
      {"convert", "a.gguf", "b.gguf", "out.zt", "--zstd", "19", "--digest", "sha256", "--align",
       "4K", "--dtype", "bf16", "--select", "x*", "--checksums", "list", "--no-progress"});
  CHECK(convert.load.from.sources == words_of{"a.gguf", "b.gguf"});
  CHECK(convert.to == "out.zt");
  CHECK(convert.zstd_level == 19);
  CHECK(convert.digest == ringload::digest_algorithm::sha256);
  CHECK(convert.alignment == 4096);
  CHECK(convert.load.how.dtype == ringload::dtype::bf16);
  CHECK(convert.load.from.wanted.select == words_of{"x*"});
  CHECK(convert.checksums == "list");
  CHECK_FALSE(convert.load.progress);
  CHECK(parsed_as<tool::convert_request>({"convert", "a", "out", "--shard-bytes", "2M"})
            .shard_bytes == 2U << 20);
  CHECK(complaint({"convert", "a"}).find("expected a source, followed by the result") !=
        std::string::npos);
  CHECK(complaint({"convert", "a", "b", "--digest", "crc32c"}).find(".zt") != std::string::npos);
  CHECK_THROWS_AS(parsed({"convert", "a", "b.zt", "--zstd", "0"}), tool::usage_error);
}

TEST_CASE("command line: the verbs that write .zt from .zt") {
  using verb = tool::rewrite_request::verb;
  const auto remove =
      parsed_as<tool::rewrite_request>({"remove", "in.zt", "a", "b", "--output", "out.zt"});
  CHECK(remove.what == verb::remove);
  CHECK(remove.from == words_of{"in.zt"});
  CHECK(remove.names == words_of{"a", "b"});
  CHECK(remove.to == "out.zt");
  const auto append =
      parsed_as<tool::rewrite_request>({"append", "t.zt", "--from", "a.zt", "b.zt"});
  CHECK(append.what == verb::append);
  CHECK(append.to == "t.zt");
  CHECK(append.from == words_of{"a.zt", "b.zt"});
  const auto compress =
      parsed_as<tool::rewrite_request>({"compress", "in.zt", "out.zt", "--level", "7"});
  CHECK(compress.what == verb::compress);
  CHECK(compress.from == words_of{"in.zt"});
  CHECK(compress.to == "out.zt");
  CHECK(compress.zstd_level == 7);
  CHECK(parsed_as<tool::rewrite_request>({"decompress", "a", "b.zt"}).what == verb::decompress);
  CHECK(parsed_as<tool::rewrite_request>({"migrate", "a", "b.zt"}).what == verb::migrate);
  CHECK(parsed_as<tool::rewrite_request>({"merge", "a", "b", "-o", "c.zt"}).from ==
        words_of{"a", "b"});
  const auto replace =
      parsed_as<tool::rewrite_request>({"replace", "t.zt", "a", "--from", "m.safetensors"});
  CHECK(replace.what == verb::replace);
  CHECK(replace.names == words_of{"a"});
  CHECK_THROWS_AS(parsed({"merge", "a", "b"}), tool::usage_error);
  CHECK_THROWS_AS(parsed({"remove", "a", "-o", "b"}), tool::usage_error);
}

TEST_CASE("command line: keep takes sources, with names of their own or without") {
  const auto kept = parsed_as<tool::keep_request>(
      {"keep", "a=x/y.safetensors", "owner/model", "--socket", "/s", "--mode", "0660", "--user",
       "7", "--user", "8", "--dtype", "bf16", "--huge-pages", "reserved"});
  using models = std::vector<tool::kept_source>;
  CHECK(kept.models ==
        models{{"a", "x/y.safetensors", false}, {"owner/model", "owner/model", false}});
  CHECK(kept.socket == "/s");
  CHECK(kept.mode == 0660);
  CHECK(kept.users == std::vector<unsigned>{7, 8});
  CHECK(kept.load.options.huge_pages == ringload::huge_pages::reserved);
  CHECK(parsed_as<tool::keep_request>({"keep", "a", "--socket", "s"}).mode == 0600);
  CHECK(parsed_as<tool::keep_request>({"keep", "a", "--metrics", "127.0.0.1:1"}).socket.empty());
  const auto followed = parsed_as<tool::keep_request>(
      {"keep", "--follow", "m=run", "a", "--follow", "s3://b/run/", "--interval", "20"});
  CHECK(followed.models ==
        models{{"a", "a", false}, {"m", "run", true}, {"s3://b/run/", "s3://b/run/", true}});
  CHECK(followed.interval_ms == 20);
  CHECK(complaint({"keep", "--follow", "m=run", "--dtype", "bf16"}).find("--follow") !=
        std::string::npos);
  CHECK(complaint({"keep", "a", "--interval", "0"}).find("--interval") != std::string::npos);
  CHECK(complaint({"keep", "a=x", "--follow", "a=y"}).find("two models") != std::string::npos);
  CHECK(complaint({"keep", "--socket", "s"}).find("SOURCE") != std::string::npos);
  for (const char* mode : {"1000", "40000000000", "-1", "8", ""}) {
    CHECK(complaint({"keep", "a", "--socket", "s", "--mode", mode}).find("octal mode") !=
          std::string::npos);
  }
}

TEST_CASE("command line: --user of keep takes one number, and not the sources after it") {
  const auto kept =
      parsed_as<tool::keep_request>({"keep", "--socket", "s", "--user", "0", "m=m.safetensors"});
  CHECK(kept.users == std::vector<unsigned>{0});
  CHECK(kept.models == std::vector<tool::kept_source>{{"m", "m.safetensors", false}});
}

TEST_CASE("command line: delta has a choice of encodings and digests") {
  const auto delta =
      parsed_as<tool::delta_request>({"delta", "a", "b", "-o", "weight_v000001", "--indexed",
                                      "overwrite", "--checksum", "adler32"});
  REQUIRE(delta.indexed.has_value());
  CHECK(delta.indexed->encoding == ringload::delta_encoding::overwrite);
  CHECK(delta.indexed->checksum == ringload::delta_checksum::adler32);
  CHECK(complaint({"delta", "a", "b", "-o", "d", "--indexed", "and"})
            .starts_with("--indexed: 'and' is invalid, expected one of xor|overwrite"));
  CHECK(complaint({"delta", "a", "b", "-o", "d", "--indexed", "xor", "--checksum", "md5"})
            .starts_with("--checksum: 'md5' is invalid, expected one of xxh3-128|adler32"));
  CHECK(complaint({"delta", "a", "b", "-o", "d", "--checksum", "adler32"}).find("--indexed") !=
        std::string::npos);
}

TEST_CASE("command line: sum of what is attached takes nothing that is said of loads") {
  const auto sum =
      parsed_as<tool::sum_request>({"sum", "name", "--attach", "/s", "--algorithm", "crc32c"});
  CHECK(sum.attach == "/s");
  CHECK(sum.load.from.sources == std::vector<std::string>{"name"});
  for (const char* option : {"--json", "--mapped", "--slots=3", "--checksums=f", "--select=a"}) {
    const std::string said = complaint({"sum", "name", "--attach", "/s", option});
    CHECK(said.find("with --attach") != std::string::npos);
  }
  CHECK(complaint({"sum", "a", "b", "--attach", "/s"}).find("takes one name") != std::string::npos);
}
