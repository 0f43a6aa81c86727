// SPDX-License-Identifier: Apache-2.0

// Loads of HDF5 files, with libhdf5 in this process and in a separate process, and processes that
// crash, hang, or send wrong messages.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <ringload/hdf5.hpp>
#include <ringload/loader.hpp>
#include <ringload/verify.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "formats/hdf5/attributes.hpp"
#include "formats/hdf5/library.hpp"
#include "formats/hdf5/pipe_protocol.hpp"
#include "formats/hdf5/process.hpp"
#include "support/peak_memory.hpp"
#include "support/safetensors_text.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

const std::filesystem::path data = std::filesystem::path(RINGLOAD_TEST_DATA_DIR) / "hdf5";

hdf5_process in_child(const std::string& program = RINGLOAD_HDF5_PARSE) {
  hdf5_process how;
  how.program = program;
  return how;
}

// Reads with both extensions.
std::vector<extension> each_way() { return {hdf5(), hdf5(in_child())}; }

std::string refusal(const std::filesystem::path& file, const extension& with,
                    strictness strictness = strictness::strict) {
  open_options how;
  how.strictness = strictness;
  try {
    read_catalog(file.native(), how, {with});
  } catch (const error& e) {
    const std::string what = e.what();
    CHECK(what.find('\n') == std::string::npos);
    CHECK(what.find(file.filename().native()) != std::string::npos);
    return what;
  }
  return "nothing";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::filesystem::path script(const temporary_folder& in, const std::string& text) {
  const auto path = in.path() / "program";
  std::ofstream(path) << "#!/bin/sh\n" << text << '\n';
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

}  // namespace

TEST_CASE("hdf5: every dataset is loaded as h5py reads it") {
  for (const extension& with : each_way()) {
    loader from(host(), {}, {with});
    for (const char* name : {"dtypes", "chunked", "chunked_v110", "user_block", "keras"}) {
      CAPTURE(name);
      const auto path = data / (std::string(name) + ".h5");
      const checksum_list expected = parse_checksum_list(file_text(path.native() + ".manifest"));
      CHECK(expected.tensors.size() >= 4);
      load_options how;
      how.verify = &expected;
      const model all = from.load_async(path.native(), how, use_future).get();
      CHECK(all.size() == expected.tensors.size());
    }
  }
}

TEST_CASE("hdf5: a loader without the extension says what it takes") {
  loader from;
  const auto file = data / "keras.h5";
  auto failed = from.open_async(file.native(), use_future);
  CHECK_THROWS_WITH_AS(failed.get(), doctest::Contains("ringload::hdf5()"), error);
}

TEST_CASE("hdf5: names, notes and metadata") {
  for (const extension& with : each_way()) {
    const catalog all = read_catalog((data / "keras.h5").native(), {}, {with});
    CHECK(all.files.at(0).format == "hdf5");
    const auto tensor = [&](const std::string& name) {
      return *std::ranges::find(all.tensors, name, &tensor_info::name);
    };
    CHECK(tensor("tied").offset == tensor("model_weights.dense.dense.kernel:0").offset);
    CHECK(tensor("alias").offset == tensor("model_weights.dense.dense.bias:0").offset);
    CHECK(all.notes.size() == 1);
    CHECK(std::ranges::count(all.metadata,
                             attributes::value_type(
                                 "layer_names", attribute::json(R"(["dense", "dense_1"])"))) == 1);
  }
}

TEST_CASE("hdf5: no file but the one is opened, and no bomb goes off") {
  struct {
    const char* file;
    const char* says;
  } const attacks[] = {
      {"external_link.h5", "link to another file"},
      {"external_link_behind_soft.h5", "link to another file"},
      {"external_storage.h5", "external storage"},
      {"virtual.h5", "virtual dataset"},
      {"bomb.h5", "more than 200 times"},
      {"deep.h5", "nested more than 64 deep"},
      {"same_name.h5", "two paths"},
  };
  for (const extension& with : each_way()) {
    for (const auto& each : attacks) {
      CAPTURE(each.file);
      CHECK(has(refusal(data / each.file, with), each.says));
      CHECK(has(refusal(data / each.file, with, strictness::reference), each.says));
    }
    for (const char* file : {"lzf.h5", "long_double.h5"}) {
      CHECK(has(refusal(data / file, with), "tensor 'x'"));
      CHECK(refusal(data / file, with, strictness::reference) == "nothing");
    }
  }
}

TEST_CASE("hdf5: a damaged chunk names file, tensor and byte") {
  const temporary_folder folder;
  loader from(host(), {}, {hdf5()});
  const auto whole = data / "chunked.h5";
  for (const char* name : {"deflate", "fletcher32", "shuffle_deflate_fletcher32",
                           "fletcher32_shuffle_deflate", "shuffle_fletcher32"}) {
    CAPTURE(name);
    const catalog all = read_catalog(whole.native(), {}, {hdf5()});
    const tensor_info info = *std::ranges::find(all.tensors, name, &tensor_info::name);
    std::string bytes = file_text(whole);
    bytes[info.offset + 9] = static_cast<char>(bytes[info.offset + 9] ^ 0x11);
    const auto broken = folder.path() / "broken.h5";
    std::ofstream(broken, std::ios::binary) << bytes;
    auto failed = from.load_async(broken.native(), use_future);
    try {
      failed.get();
      FAIL("it was loaded");
    } catch (const error& e) {
      CAPTURE(e.what());
      CHECK(e.code() == errc::malformed_stream);
      CHECK(has(e.what(), "broken.h5: "));
      CHECK(has(e.what(), "tensor '" + std::string(name) + "'"));
      CHECK(has(e.what(), "byte "));
    }
  }
}

TEST_CASE("hdf5: a file that ends too early, or is none, is refused with libhdf5's reason") {
  const temporary_folder folder;
  const std::string bytes = file_text(data / "keras.h5");
  for (const extension& with : each_way()) {
    for (const std::size_t end : {std::size_t{8}, std::size_t{100}, bytes.size() / 2}) {
      const auto cut = folder.path() / "cut.h5";
      std::ofstream(cut, std::ios::binary) << bytes.substr(0, end);
      const std::string said = refusal(cut, with);
      CAPTURE(said);
      CHECK(has(said, "cut.h5: libhdf5: "));
      CHECK_FALSE(has(said, "does not say why"));
      CHECK((end == 8 || has(said, "truncated file")));
    }
  }
}

TEST_CASE("hdf5: a process that crashes, hangs, lies or is not there is an error of the file") {
  const temporary_folder folder;
  const auto file = data / "keras.h5";
  CHECK(has(refusal(file, hdf5(in_child(script(folder, "kill -SEGV $$").native()))),
            "ended by signal 11"));
  CHECK(has(refusal(file, hdf5(in_child(script(folder, "exit 3").native()))), "status 3"));
  CHECK(
      has(refusal(file, hdf5(in_child(script(folder, "echo no").native()))), "returned no result"));
  CHECK(has(refusal(file, hdf5(in_child("/no/such/program"))), "cannot be run"));
  hdf5_process hurried = in_child(script(folder, "exec 2>&1; while :; do :; done").native());
  hurried.time_max = std::chrono::milliseconds(20);
  CHECK(has(refusal(file, hdf5(hurried)), "was ended"));
  hdf5_process narrow = in_child();
  narrow.memory_bytes_max = 1 << 20;
  // A sanitizer reserves a huge range of addresses, so no limit can be set.
  if (peak_memory_is_ours) CHECK(refusal(file, hdf5(narrow)) != "nothing");
}

TEST_CASE("hdf5: a process that returns too much is not taken for one that crashed") {
  const temporary_folder folder;
  const auto program = in_child(script(folder, "while :; do echo too much; done").native());
  const unique_fd file(::open((data / "keras.h5").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(file);
  const auto answer = h5::describe_in_process(file.get(), program, 1000);
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code == errc::header_too_large);
  CHECK(has(answer.error().cause(), "returned more than 1,000 bytes"));
  CHECK_FALSE(has(answer.error().cause(), "crashed"));
}

TEST_CASE("hdf5: attributes beyond the limit are counted as left out") {
  using h5::handle;
  const handle access(::H5Pcreate(H5P_FILE_ACCESS), &::H5Pclose);
  REQUIRE(::H5Pset_fapl_core(access.get(), 1 << 16, false) >= 0);  // A file in memory.
  const handle file(::H5Fcreate("limit.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), &::H5Fclose);
  REQUIRE(file);
  const handle space(::H5Screate(H5S_SCALAR), &::H5Sclose);
  for (const char* name : {"a", "b", "c"}) {
    const handle attribute(
        ::H5Acreate2(file.get(), name, H5T_NATIVE_INT, space.get(), H5P_DEFAULT, H5P_DEFAULT),
        &::H5Aclose);
    const int value = 7;
    REQUIRE(::H5Awrite(attribute.get(), H5T_NATIVE_INT, &value) >= 0);
  }
  for (const std::uint64_t room : {0U, 1U, 3U, 4U}) {
    hdf5_contents contents;
    contents.attributes.resize(hdf5_attributes_max - room);
    h5::attribute_reader reader{contents};
    REQUIRE(reader.read_all(file.get(), "").has_value());
    CHECK(contents.attributes.size() ==
          hdf5_attributes_max - room + std::min<std::uint64_t>(room, 3));
    CHECK(contents.attributes_left_out == 3 - std::min<std::uint64_t>(room, 3));
  }
}

TEST_CASE("hdf5: an attribute of several dimensions is left out, and a list is kept") {
  using h5::handle;
  const temporary_folder folder;
  const std::string path = (folder.path() / "attributes.h5").native();
  {
    const handle file(::H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                      &::H5Fclose);
    REQUIRE(file);
    const hsize_t sizes[] = {2, 2, 1};
    for (const int rank : {0, 1, 2, 3}) {
      const handle space(::H5Screate_simple(rank, sizes, nullptr), &::H5Sclose);
      const std::string name = "rank " + std::to_string(rank);
      const handle attribute(::H5Acreate2(file.get(), name.c_str(), H5T_NATIVE_INT, space.get(),
                                          H5P_DEFAULT, H5P_DEFAULT),
                             &::H5Aclose);
      const int values[] = {5, 6, 7, 8};
      REQUIRE(::H5Awrite(attribute.get(), H5T_NATIVE_INT, values) >= 0);
    }
  }
  const catalog found = read_catalog(path, {}, {hdf5()});
  REQUIRE(found.metadata.size() == 2);
  CHECK(found.metadata[0].first == "rank 0");
  CHECK(found.metadata[1] == attributes::value_type("rank 1", attribute::json("[5,6]")));
  REQUIRE(found.notes.size() == 1);
  CHECK(has(found.notes[0], "2 attributes are left out"));
}

namespace {

// The numbers 1, 2, 3 and 4 as BF16.
const std::string bf16_values("\x80\x3F\x00\x40\x40\x40\x80\x40", 8);

// A dataset of four opaque elements, as h5py writes arrays of the package ml_dtypes. If `dtype` is
// not empty, the dataset has an attribute with this text, as Keras writes.
void write_opaque(hid_t file, const char* name, std::size_t element_bytes,
                  const std::string& dtype = "") {
  using h5::handle;
  const hsize_t size = 4;
  const handle type(::H5Tcreate(H5T_OPAQUE, element_bytes), &::H5Tclose);
  const handle space(::H5Screate_simple(1, &size, nullptr), &::H5Sclose);
  const handle dataset(
      ::H5Dcreate2(file, name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      &::H5Dclose);
  std::string values = bf16_values;
  values.resize(size * element_bytes);
  REQUIRE(::H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  if (dtype.empty()) return;
  const handle text(::H5Tcopy(H5T_C_S1), &::H5Tclose);
  REQUIRE(::H5Tset_size(text.get(), H5T_VARIABLE) >= 0);
  const handle scalar(::H5Screate(H5S_SCALAR), &::H5Sclose);
  const handle attribute(
      ::H5Acreate2(dataset.get(), "dtype", text.get(), scalar.get(), H5P_DEFAULT, H5P_DEFAULT),
      &::H5Aclose);
  const char* const value = dtype.c_str();
  REQUIRE(::H5Awrite(attribute.get(), text.get(), &value) >= 0);
}

}  // namespace

TEST_CASE("hdf5: opaque elements are bf16 if the dataset says so, as Keras writes them") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "keras_bf16.h5").native();
  {
    const h5::handle file(::H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                          &::H5Fclose);
    write_opaque(file.get(), "w", 2, "bfloat16");
  }
  for (const extension& with : each_way()) {
    loader from(host(), {}, {with});
    const model all = from.load_async(path, {}, use_future).get();
    const tensor& w = all.at("w");
    CHECK(w.dtype() == dtype::bf16);
    REQUIRE(w.shape().size() == 1);
    CHECK(w.shape()[0] == 4);
    CHECK(std::string(static_cast<const char*>(w.data()), w.size_bytes()) == bf16_values);
  }
}

TEST_CASE(
    "hdf5: other opaque elements of one or two bytes may be numbers, so strict refuses them") {
  const temporary_folder folder;
  struct {
    std::size_t element_bytes;
    const char* dtype;
    bool refused;
  } const cases[] = {
      {1, "", true},         {2, "", true},          {2, "float16", true},
      {1, "bfloat16", true}, {4, "bfloat16", false}, {4, "", false},
  };
  for (const auto& each : cases) {
    CAPTURE(each.element_bytes);
    CAPTURE(each.dtype);
    const std::string path = (folder.path() / "opaque.h5").native();
    {
      const h5::handle file(::H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                            &::H5Fclose);
      write_opaque(file.get(), "w", each.element_bytes, each.dtype);
    }
    const std::string said = refusal(path, hdf5());
    CHECK(has(said, "tensor 'w': its elements are opaque") == each.refused);
    CHECK((said == "nothing") == !each.refused);
    CHECK(refusal(path, hdf5(), strictness::reference) == "nothing");
  }
}

TEST_CASE("hdf5: the process has the file and the pipe, and nothing else of the program") {
  const temporary_folder folder;
  const auto seen = folder.path() / "seen";
  const auto program =
      script(folder, "{ ls /proc/$$/fd | tr '\\n' ' '; env | grep -c RINGLOAD_SECRET; } >'" +
                         seen.native() + "'");
  ::setenv("RINGLOAD_SECRET", "x", 1);
  constexpr int leaked = 77;  // Without O_CLOEXEC.
  REQUIRE(::dup2(2, leaked) == leaked);
  refusal(data / "keras.h5", hdf5(in_child(program.native())));
  ::close(leaked);
  // Besides 0, 1 and 2, a shell may have descriptors for its script and for redirections.
  const std::string found = file_text(seen);
  CHECK(found.starts_with("0 1 "));
  CHECK_FALSE(has(found, std::to_string(leaked)));
  CHECK(found.ends_with(" 0\n"));
}

TEST_CASE("hdf5: many threads parse at once") {
  for (const extension& with : each_way()) {
    std::vector<std::future<std::size_t>> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(std::async(std::launch::async, [with] {
        std::size_t tensors = 0;
        for (int k = 0; k < 3; ++k) {
          tensors += read_catalog((data / "chunked.h5").native(), {}, {with}).tensors.size();
        }
        return tensors;
      }));
    }
    for (auto& each : all) CHECK(each.get() > 90);
  }
}

TEST_CASE("hdf5 message: what is written is read, and nothing else is taken for it") {
  hdf5_contents all;
  hdf5_dataset one;
  one.names = {"a.b", "c"};
  one.dtype = dtype::c64;
  one.big_endian = true;
  one.shape = {2, 3};
  one.layout = hdf5_dataset::kind::chunked;
  one.chunk_shape = {1, 3};
  one.filters = {{chain_filter::kind::shuffle, 8}, {chain_filter::kind::zlib, 0}};
  one.chunks = {{100, 24, 1}, {124, 20, 0}};
  one.chunk_origins = {0, 0, 1, 0};
  one.fill.resize(8);
  all.datasets.push_back(one);
  all.left_out.push_back({"s", "strings", false});
  all.attributes_left_out = 3;
  const std::string text = h5::encode_message(all);
  const auto bytes = std::as_bytes(std::span(text));
  const auto back = h5::decode_message(bytes);
  REQUIRE(back.has_value());
  CHECK(h5::encode_message(*back) == text);
  CHECK(back->datasets.at(0).chunks.at(1).bytes == 20);
  for (std::size_t end = 0; end < bytes.size(); ++end) {
    CHECK_FALSE(h5::decode_message(bytes.first(end)).has_value());
  }
  const std::string why = h5::encode_message(fault{errc::size_overflow, "'x'", "too large"});
  const auto refused = h5::decode_message(std::as_bytes(std::span(why)));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::size_overflow);
  CHECK(refused.error().where() == "'x'");
}

TEST_CASE("hdf5: every error code of the library passes through the pipe") {
  int passed = 0;
  for (int value = 1; !make_error_code(static_cast<errc>(value)).message().starts_with("unknown");
       ++value) {
    const errc code = static_cast<errc>(value);
    const std::string sent = h5::encode_message(fault{code, "'x'", "reason"});
    const auto received = h5::decode_message(std::as_bytes(std::span(sent)));
    REQUIRE_FALSE(received.has_value());
    CHECK(received.error().code == code);
    ++passed;
  }
  CHECK(passed >= static_cast<int>(errc::not_restored));
}
