// SPDX-License-Identifier: Apache-2.0

// Saves to S3. After every fault, the object is the old one or the new one, and no upload is open.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ringload/remote.hpp>
#include <ringload/ringload.hpp>
#include <string>
#include <vector>

#include "remote/http_loads.hpp"
#include "remote/s3/s3_signature.hpp"
#include "remote/s3_standin.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

namespace asio = boost::asio;

constexpr std::size_t small_bytes = 100'000;
constexpr std::size_t large_bytes = 20 << 20;  // Three parts.
constexpr std::size_t two_parts_bytes = 9 << 20;

const std::string& content() {
  static const std::string bytes = noise(large_bytes, 7);
  return bytes;
}

std::vector<tensor_ref> tensors(std::size_t bytes = large_bytes) {
  return {tensor_ref("a", content().data(), dtype::u8, {bytes - 1000}),
          tensor_ref("b", content().data() + bytes - 1000, dtype::u8, {1000})};
}

remote_options options_for(const s3_standin& s3) {
  remote_options out = quick();
  out.s3.endpoint = s3.endpoint();
  out.s3.access_key_id = "KEYIDEXAMPLE";
  out.s3.secret_access_key = "SECRETEXAMPLE";
  out.s3.session_token = "first";
  return out;
}

loader loader_for(const s3_standin& s3) {
  loader_options within = small_options(4);
  within.slot_bytes = 1 << 20;
  return loader(host(), within, {remote(options_for(s3))});
}

void check_loaded(loader& reader, const std::string& name, std::size_t bytes = large_bytes) {
  const model found = get(reader.load_async(name, use_future));
  REQUIRE(found.size() == 2);
  for (const tensor_ref& saved : tensors(bytes)) {
    const tensor loaded = found.find(saved.name);
    REQUIRE(loaded);
    CHECK(loaded.size_bytes() == saved.shape[0]);
    CHECK(std::memcmp(loaded.data(), saved.data, loaded.size_bytes()) == 0);
  }
}

// The numbers of the requests of this kind.
std::vector<std::string> kinds(const s3_standin& s3) {
  std::vector<std::string> out;
  for (const web_request& request : s3.server.log()) out.push_back(s3_standin::kind_of(request));
  return out;
}

void forget_log(s3_standin& s3) {
  s3.before = {};
  s3.after_effect = {};
  s3.server.forget_log();
}

}  // namespace

TEST_CASE("s3 save: a small object is one signed PUT") {
  s3_standin s3;
  loader saver = loader_for(s3);
  for (const char* const name : {"s3://bucket/m/small.safetensors", "s3://bucket/m/small.zt"}) {
    CAPTURE(name);
    forget_log(s3);
    const save_result saved = get(saver.save_async(name, tensors(small_bytes), use_future));
    CHECK(saved.files == std::vector<std::string>{name});
    CHECK(saved.bytes == s3.objects.at(std::string(name).substr(4)).size());
    const auto log = s3.server.log();
    REQUIRE(log.size() == 1);
    CHECK(log[0].method == "PUT");
    CHECK(log[0].field("x-amz-content-sha256") == remote_http::sha256_hex(log[0].body));
    CHECK(holds(log[0].field("authorization"), "x-amz-content-sha256"));
    check_loaded(saver, name, small_bytes);
  }
}

TEST_CASE("s3 save: a large object is a multipart upload that is completed once") {
  s3_standin s3;
  loader saver = loader_for(s3);
  for (const char* const name : {"s3://bucket/large.safetensors", "s3://bucket/large.zt"}) {
    CAPTURE(name);
    forget_log(s3);
    save_options options;
    options.progress = std::make_shared<save_progress>();
    options.digest = digest_algorithm::crc32c;
    const save_result saved = get(saver.save_async(name, tensors(), options, use_future));
    CHECK(saved.bytes == s3.objects.at(std::string(name).substr(4)).size());
    CHECK(saved.digests.size() == 2);
    CHECK(options.progress->bytes() == saved.bytes);
    const auto sent = kinds(s3);
    CHECK(std::ranges::count(sent, "begin") == 1);
    CHECK(std::ranges::count(sent, "part") == 3);
    CHECK(sent.back() == "complete");
    CHECK(s3.uploads.empty());
    check_loaded(saver, name);
  }
  CHECK(s3.part_bytes_least == 8 << 20);
}

TEST_CASE("s3 save: a writer writes a file of a known and of an unknown size") {
  s3_standin s3;
  loader saver = loader_for(s3);
  writer_options options;
  options.extensions = {remote(options_for(s3))};
  for (const std::size_t bytes : {small_bytes, large_bytes}) {
    CAPTURE(bytes);
    const auto saved = tensors(bytes);
    writer zt("s3://bucket/w.zt", options);
    std::vector<planned_tensor> plan;
    for (const tensor_ref& each : saved) plan.push_back({each.name, each.dtype, each.shape});
    writer safetensors("s3://bucket/w.safetensors", plan, {{"k", "v"}}, options);
    for (const tensor_ref& each : saved) {
      get(zt.add_async(each, use_future));
      get(safetensors.add_async(each, use_future));
    }
    const write_result written = get(zt.finish_async(use_future));
    CHECK(written.bytes == s3.objects.at("/bucket/w.zt").size());
    get(safetensors.finish_async(use_future));
    check_loaded(saver, "s3://bucket/w.zt", bytes);
    check_loaded(saver, "s3://bucket/w.safetensors", bytes);
  }
  CHECK(s3.uploads.empty());
  {
    forget_log(s3);
    writer dropped("s3://bucket/dropped.zt", options);
    get(dropped.add_async(tensors()[0], use_future));
    REQUIRE(comes_true([&] { return std::ranges::count(kinds(s3), "part") == 2; }));
  }
  CHECK(s3.uploads.empty());
  CHECK(!s3.objects.contains("/bucket/dropped.zt"));
}

TEST_CASE("s3 save: each request fails once, and the save succeeds") {
  s3_standin s3;
  loader saver = loader_for(s3);
  get(saver.save_async("s3://bucket/x.safetensors", tensors(two_parts_bytes), use_future));
  check_loaded(saver, "s3://bucket/x.safetensors", two_parts_bytes);
  const std::string expected = s3.objects.at("/bucket/x.safetensors");
  std::size_t requests = 4;
  for (std::uint64_t failing = 0; failing < requests; ++failing) {
    for (const int fault : {0, 1, 2}) {
      CAPTURE(failing);
      CAPTURE(fault);
      forget_log(s3);
      s3.objects.clear();
      const auto fails = [&](const web_request& asked, std::uint64_t number) {
        std::optional<web_reply> reply;
        // The lost response of "begin" leaves an empty upload, as the documentation states.
        if (number != failing || (fault == 2 && s3_standin::kind_of(asked) == "begin"))
          return reply;
        reply = fault == 0 ? web_response(503, {"Retry-After: 0"}) : web_reply{"", after::reset};
        return reply;
      };
      (fault == 2 ? s3.after_effect : s3.before) = fails;
      get(saver.save_async("s3://bucket/x.safetensors", tensors(two_parts_bytes), use_future));
      requests = std::max(requests, s3.server.log().size());
      CHECK(s3.uploads.empty());
      CHECK(s3.objects.at("/bucket/x.safetensors") == expected);
    }
  }
  CHECK(requests >= 5);
}

TEST_CASE("s3 save: if the server dies, the object is old and the upload is removed") {
  s3_standin s3;
  s3.objects["/bucket/x.zt"] = "old";
  for (const char* const kind : {"begin", "part", "complete"}) {
    for (const unsigned status : {403U, 404U, 500U, 0U}) {
      CAPTURE(kind);
      CAPTURE(status);
      forget_log(s3);
      s3.before = [&](const web_request& asked, std::uint64_t number) {
        std::optional<web_reply> reply;
        if (s3_standin::kind_of(asked) != kind || (asked.method == "PUT" && number == 1))
          return reply;
        reply = status == 0 ? web_reply{"", after::closed}
                            : web_response(status, {}, "<Error><Code>Refused</Code></Error>");
        return reply;
      };
      std::optional<error> failed;
      {
        loader saver = loader_for(s3);
        failed = failure_of(saver.save_async("s3://bucket/x.zt", tensors(), use_future));
      }
      // Other parts of the failed upload may still be served.
      REQUIRE(s3.server.wait_until_alone());
      REQUIRE(failed);
      CHECK(failed->place() == "s3://bucket/x.zt");
      if (status == 403) CHECK(failed->code() == errc::access_denied);
      if (status == 500) CHECK(holds(failed->what(), "500"));
      CHECK(s3.objects.at("/bucket/x.zt") == "old");
      CHECK(s3.uploads.empty());
    }
  }
}

TEST_CASE("s3 save: a response 200 with an error is not a success") {
  s3_standin s3;
  loader saver = loader_for(s3);
  for (const char* const code : {"InternalError", "AccessDenied"}) {
    CAPTURE(code);
    forget_log(s3);
    s3.objects["/bucket/x.zt"] = "old";
    s3.etags["/bucket/x.zt"] = "\"old\"";
    s3.before = [&](const web_request& asked, std::uint64_t) {
      std::optional<web_reply> reply;
      if (s3_standin::kind_of(asked) == "complete") {
        reply = web_response(200, {}, std::string("<Error><Code>") + code + "</Code></Error>");
      }
      return reply;
    };
    const auto failed = failure_of(saver.save_async("s3://bucket/x.zt", tensors(), use_future));
    REQUIRE(failed);
    CHECK(s3.objects.at("/bucket/x.zt") == "old");
    CHECK(s3.uploads.empty());
    const auto sent = kinds(s3);
    CHECK(std::ranges::count(sent, "complete") == (std::string(code) == "AccessDenied" ? 1 : 3));
  }
  forget_log(s3);
  std::uint64_t errors = 0;
  s3.before = [&](const web_request& asked, std::uint64_t) {
    std::optional<web_reply> reply;
    if (s3_standin::kind_of(asked) == "complete" && ++errors == 1) {
      reply = web_response(200, {}, "<Error><Code>InternalError</Code></Error>");
    }
    return reply;
  };
  get(saver.save_async("s3://bucket/x.zt", tensors(), use_future));
  forget_log(s3);
  check_loaded(saver, "s3://bucket/x.zt");
}

TEST_CASE("s3 save: a cancellation ends the save and removes the upload") {
  s3_standin s3;
  s3.objects["/bucket/x.zt"] = "old";
  for (std::uint64_t stalled = 0; stalled < 4; ++stalled) {
    CAPTURE(stalled);
    forget_log(s3);
    s3.before = [&](const web_request&, std::uint64_t number) {
      std::optional<web_reply> reply;
      if (number == stalled) reply = web_reply{"", after::stalled};
      return reply;
    };
    {
      loader saver = loader_for(s3);
      asio::cancellation_signal cancel;
      auto ended = saver.save_async("s3://bucket/x.zt", tensors(),
                                    asio::bind_cancellation_slot(cancel.slot(), use_future));
      REQUIRE(comes_true([&] { return s3.server.log().size() > stalled; }));
      cancel.emit(asio::cancellation_type::terminal);
      CHECK(code_of(std::move(ended)) == asio::error::operation_aborted);
    }
    // Other parts of the cancelled upload may still be served.
    REQUIRE(s3.server.wait_until_alone());
    CHECK(s3.objects.at("/bucket/x.zt") == "old");
    CHECK(s3.uploads.empty());
  }
}

TEST_CASE("s3 save: without `replace`, an object is not replaced") {
  s3_standin s3;
  loader saver = loader_for(s3);
  save_options options;
  options.replace = false;
  const boost::system::error_code exists(EEXIST, boost::system::system_category());
  for (const std::size_t bytes : {small_bytes, large_bytes}) {
    CAPTURE(bytes);
    forget_log(s3);
    s3.objects.clear();
    get(saver.save_async("s3://bucket/x.zt", tensors(bytes), options, use_future));
    forget_log(s3);
    CHECK(code_of(saver.save_async("s3://bucket/x.zt", tensors(bytes), options, use_future)) ==
          exists);
    CHECK(kinds(s3) == std::vector<std::string>{"read"});
    // Another program creates the object during the save.
    s3.objects.clear();
    forget_log(s3);
    s3.after_effect = [&](const web_request&, std::uint64_t number) {
      if (number == 0) s3.objects["/bucket/x.zt"] = "other";
      return std::optional<web_reply>();
    };
    CHECK(code_of(saver.save_async("s3://bucket/x.zt", tensors(bytes), options, use_future)) ==
          exists);
    CHECK(s3.objects.at("/bucket/x.zt") == "other");
    CHECK(s3.uploads.empty());
  }
}

TEST_CASE("s3 save: without `replace`, a save succeeds if only the confirmation was lost") {
  s3_standin s3;
  loader saver = loader_for(s3);
  save_options options;
  options.replace = false;
  const std::string path = "/bucket/x.zt";
  const boost::system::error_code exists(EEXIST, boost::system::system_category());
  for (const std::size_t bytes : {small_bytes, large_bytes}) {
    CAPTURE(bytes);
    const std::string last = bytes == small_bytes ? "put" : "complete";
    // `rival` is called before the first publication, whose response is lost.
    const auto save = [&](s3_standin::fault_script rival) {
      forget_log(s3);
      const bool is_obeyed = !rival;
      auto fails_once = [&, rival, is_first = true](const web_request& asked,
                                                    std::uint64_t number) mutable {
        std::optional<web_reply> reply;
        if (!is_first || s3_standin::kind_of(asked) != last) return reply;
        is_first = false;
        if (rival) rival(asked, number);
        reply = web_reply{"", after::reset};
        return reply;
      };
      (is_obeyed ? s3.after_effect : s3.before) = fails_once;
      return code_of(saver.save_async("s3://bucket/x.zt", tensors(bytes), options, use_future));
    };
    s3.objects.clear();
    CHECK(save({}) == boost::system::error_code());
    CHECK(std::ranges::count(kinds(s3), last) == 2);
    CHECK(s3.uploads.empty());
    const std::string saved = s3.objects.at(path);
    const std::string etag = s3.etags.at(path);
    forget_log(s3);
    check_loaded(saver, "s3://bucket/x.zt", bytes);

    // Another program creates an object.
    s3.objects.clear();
    CHECK(save([&](const web_request&, std::uint64_t) {
            s3.objects[path] = "other";
            s3.etags[path] = "\"other\"";
            return std::optional<web_reply>();
          }) == exists);
    CHECK(s3.objects.at(path) == "other");
    CHECK(s3.uploads.empty());

    // Another program creates the same object, and no response is lost.
    s3.objects.clear();
    forget_log(s3);
    s3.after_effect = [&](const web_request&, std::uint64_t number) {
      if (number == 0) s3.objects[path] = saved;
      if (number == 0) s3.etags[path] = etag;
      return std::optional<web_reply>();
    };
    CHECK(code_of(saver.save_async("s3://bucket/x.zt", tensors(bytes), options, use_future)) ==
          exists);
  }
}

TEST_CASE("s3 save: a PUT whose confirmations are all lost is a success if the object is stored") {
  s3_standin s3;
  loader saver = loader_for(s3);
  const std::string path = "/bucket/x.zt";
  const auto save = [&] {
    return failure_of(saver.save_async("s3://bucket/x.zt", tensors(small_bytes), use_future));
  };
  for (const unsigned status : {0U, 500U}) {
    CAPTURE(status);
    const auto lose_puts = [status](const web_request& asked, std::uint64_t) {
      std::optional<web_reply> reply;
      if (s3_standin::kind_of(asked) != "put") return reply;
      reply = status == 0 ? web_reply{"", after::reset} : web_response(status);
      return reply;
    };
    forget_log(s3);
    s3.objects[path] = "old";
    s3.etags[path] = "\"old\"";
    s3.after_effect = lose_puts;
    CHECK(!save());
    CHECK(kinds(s3).back() == "read");
    forget_log(s3);
    check_loaded(saver, "s3://bucket/x.zt", small_bytes);

    forget_log(s3);
    s3.objects[path] = "old";
    s3.etags[path] = "\"old\"";
    s3.before = lose_puts;
    const auto failed = save();
    REQUIRE(failed);
    CHECK(failed->place() == "s3://bucket/x.zt");
    CHECK(holds(failed->what(), "the server did not confirm whether the object was replaced"));
    CHECK(s3.objects.at(path) == "old");
  }
  forget_log(s3);
  s3.before = [](const web_request& asked, std::uint64_t) {
    std::optional<web_reply> reply;
    if (s3_standin::kind_of(asked) == "put") reply = web_response(403);
    return reply;
  };
  const auto refused = save();
  REQUIRE(refused);
  CHECK(!holds(refused->what(), "did not confirm"));
  CHECK(kinds(s3) == std::vector<std::string>{"put"});
}

TEST_CASE("s3 save: credentials that expire during a save are renewed") {
  s3_standin s3;
  remote_options options = options_for(s3);
  std::atomic<int> renewals = 0;
  options.s3.renew = [&] {
    ++renewals;
    return std::optional(s3_keys{"KEYIDEXAMPLE", "SECRETEXAMPLE", "second"});
  };
  s3.before = [&](const web_request&, std::uint64_t number) {
    s3.expected_token = number < 2 ? "first" : "second";
    return std::optional<web_reply>();
  };
  loader_options within = small_options(4);
  within.slot_bytes = 1 << 20;
  loader saver(host(), within, {remote(options)});
  get(saver.save_async("s3://bucket/x.zt", tensors(), use_future));
  CHECK(renewals == 1);
  CHECK(s3.uploads.empty());
  check_loaded(saver, "s3://bucket/x.zt");
}

TEST_CASE("s3 save: memory is bounded while the server accepts nothing") {
  s3_standin s3;
  const extension store = remote(options_for(s3));
  s3.before = [](const web_request& asked, std::uint64_t) {
    std::optional<web_reply> reply;
    if (s3_standin::kind_of(asked) == "part") reply = web_reply{"", after::stalled};
    return reply;
  };
  constexpr std::size_t part_bytes = 8 << 20;
  std::stop_source stop;
  target_request request = {"s3://bucket/x.zt", 20 * part_bytes, true, part_bytes,
                            stop.get_token()};
  std::atomic<int> buffered = 0;
  std::atomic<int> failed = 0;
  {
    const auto target = store.store()->create(request);
    for (std::uint64_t i = 0; i < 12; ++i) {
      target->write_async(
          {i * part_bytes, std::as_bytes(std::span(content()).first(part_bytes))},
          [&](const std::exception_ptr& failure) { ++(failure ? failed : buffered); });
    }
    CHECK(comes_true([&] { return s3.server.log().size() >= 5 && buffered == 8; }));
    stop.request_stop();
    CHECK(comes_true([&] { return failed == 4; }));
    CHECK_THROWS_AS(target->publish(), error);
  }
  CHECK(buffered == 8);
  CHECK(s3.uploads.empty());
  CHECK(s3.objects.empty());
}

TEST_CASE("s3 save: refusals name the reason") {
  s3_standin s3;
  loader saver = loader_for(s3);
  loader without(host(), small_options(2));
  const auto refusal = [&](loader& refusing, const std::string& name,
                           const save_options& given = {}) {
    const auto failed =
        failure_of(refusing.save_async(name, tensors(small_bytes), given, use_future));
    REQUIRE(failed);
    CHECK(failed->place() == name);
    return std::string(failed->what());
  };
  CHECK(holds(refusal(without, "s3://bucket/x.zt"), "no extension accepts this name"));
  CHECK(holds(refusal(saver, "s3://bucket/folder"), "cannot be published as a whole"));
  CHECK(holds(refusal(saver, "http://127.0.0.1/x.zt"), "only reads objects"));
  CHECK(holds(refusal(saver, "hf://owner/model/x.zt"), "only reads objects"));
  CHECK(holds(refusal(saver, "s3://bucket/a//x.zt"), "a part of the key is empty"));
  save_options back;
  back.read_back = true;
  CHECK(holds(refusal(saver, "s3://bucket/x.zt", back), "cannot be read back"));
  writer_options options;
  options.extensions = {remote(options_for(s3))};
  CHECK_THROWS_AS(writer::append("s3://bucket/x.zt", options), error);
  writer zt("s3://bucket/x.zt", options);
  get(zt.add_async(tensors(small_bytes)[1], use_future));
  const auto failed = failure_of(zt.replace_async(tensors(small_bytes)[1], use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::unsupported_feature);
  CHECK(s3.server.log().empty());
}
