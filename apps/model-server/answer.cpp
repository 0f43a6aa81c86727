// SPDX-License-Identifier: Apache-2.0
#include "answer.hpp"

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>
#include <optional>
#include <ringload/error.hpp>
#include <stdexcept>
#include <utility>
#include <variant>

#include "load_request.hpp"
#include "page.hpp"

namespace ringload::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace json = boost::json;

namespace {

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

response with_body(http::status status, std::string_view type, std::string body) {
  response out(status, 11);
  out.set(http::field::content_type, boost::beast::string_view(type.data(), type.size()));
  // Prevents browsers from guessing another content type.
  out.set("X-Content-Type-Options", "nosniff");
  out.set(http::field::cache_control, "no-store");
  out.body() = std::move(body);
  return out;
}

response in_json(http::status status, const json::object& body) {
  return with_body(status, "application/json", json_text(body));
}

response not_allowed(std::string_view methods) {
  response out = problem(http::status::method_not_allowed, "this path does not support the method");
  out.set(http::field::allow, boost::beast::string_view(methods.data(), methods.size()));
  return out;
}

bool reads(const request& asked) {
  return asked.method() == http::verb::get || asked.method() == http::verb::head;
}

response list_models(const services& context) {
  json::object out;
  json::array& list = out["models"].emplace_array();
  for (const auto& [id, model_entry] : context.loads.all()) list.push_back(describe(*model_entry));
  return in_json(http::status::ok, out);
}

// Calls `parse` with the body of the request. Returns the result, or a response that refuses the
// body.
template <class Wish>
std::variant<Wish, response> parse_wish(const request& asked, Wish (*parse)(std::string_view)) {
  // A web page of another site can send forms to this server. To send this content type, the page
  // would need the permission of this server (CORS).
  if (!accepts(view(asked[http::field::content_type]), "application/json")) {
    return problem(http::status::unsupported_media_type, "the body must be application/json");
  }
  try {
    return parse(asked.body());
  } catch (const std::invalid_argument& wrong) {
    return problem(http::status::bad_request, wrong.what());
  }
}

response begin_load(const services& context, const std::string& id, load_order order) {
  switch (context.loads.start(id, std::move(order))) {
    case start_result::started: break;
    case start_result::too_many_models:
      return problem(http::status::service_unavailable,
                     "the limit of models is reached: remove a model");
    case start_result::too_many_loads: {
      response busy =
          problem(http::status::service_unavailable, "the limit of loads at once is reached");
      busy.set(http::field::retry_after, "1");
      return busy;
    }
    case start_result::closing:
      return problem(http::status::service_unavailable, "the server is shutting down");
  }
  response out = in_json(http::status::accepted, describe(*context.loads.find(id)));
  out.set(http::field::location, "/models/" + id);
  return out;
}

response start_load(const services& context, const request& asked) {
  auto parsed = parse_wish(asked, parse_load_wish);
  if (response* refused = std::get_if<response>(&parsed)) return std::move(*refused);
  load_request& wish = std::get<load_request>(parsed);

  auto source = context.allowed.resolve(wish.order.source);
  if (!source) {
    return problem(http::status::forbidden, "no such source beneath the folders that are served");
  }
  if (wish.id.empty()) wish.id = context.loads.free_id();
  wish.order.source = std::move(*source);
  return begin_load(context, wish.id, std::move(wish.order));
}

// Begins to load the next version of a served model, which results from a delta.
response start_version(const services& context, const std::string& id, const request& asked) {
  auto parsed = parse_wish(asked, parse_version_wish);
  if (response* refused = std::get_if<response>(&parsed)) return std::move(*refused);
  auto delta = context.allowed.resolve(std::get<std::string>(parsed));
  if (!delta) {
    return problem(http::status::forbidden, "no such delta beneath the folders that are served");
  }
  const std::shared_ptr<entry> named = context.loads.find(id);
  if (!named) return problem(http::status::not_found, "no such model");
  if (!named->served) return problem(http::status::conflict, "the model is not loaded");
  if (named->latest->under_way()) {
    return problem(http::status::conflict, "a load of this model is in progress");
  }
  load_order order(std::move(*delta));
  order.base = named->served->loaded;
  return begin_load(context, id, std::move(order));
}

response remove_model(const services& context, const std::string& id) {
  switch (context.loads.remove(id)) {
    case remove_result::absent: break;
    case remove_result::cancelling:
      return in_json(http::status::accepted, describe(*context.loads.find(id)));
    case remove_result::removed: return response(http::status::no_content, 11);
  }
  return problem(http::status::not_found, "no such model");
}

response no_catalog(const entry& model_entry) {
  if (model_entry.latest->state != load_state::opening) {
    return problem(http::status::conflict, "no tensor of this model is loaded or being loaded");
  }
  response out = problem(http::status::service_unavailable, "the model is being opened");
  out.set(http::field::retry_after, "1");
  return out;
}

response list_tensors(const services& context, const entry& model_entry, const target& where) {
  const catalog* known = model_entry.catalog();
  if (known == nullptr) {
    return no_catalog(model_entry);
  }
  const auto offset = number_in(where, "offset", 0);
  const auto limit = number_in(where, "limit", listed_tensors);
  if (!offset || !limit) {
    return problem(http::status::bad_request, "offset and limit must be numbers");
  }
  const list_window window = {*offset, std::min(*limit, listed_tensors_max)};
  // A served model is described by its loaded tensors, because the dtype of the server does not
  // apply to a tensor that a delta has added.
  return in_json(http::status::ok, model_entry.served
                                       ? describe(model_entry.served->loaded, window)
                                       : describe(*known, window, context.how.dtype));
}

// Waits for a tensor, and returns it. Returns an empty handle after the timeout, or if the tensor
// cannot be loaded.
asio::awaitable<tensor> await_tensor(std::shared_ptr<entry> model_entry, std::string name,
                                     std::chrono::seconds wait) {
  using namespace asio::experimental::awaitable_operators;
  tensor out;
  if (model_entry->served) {
    out = model_entry->served->loaded.find(name);
    co_return out;
  }
  const std::shared_ptr<attempt> from = model_entry->latest;
  if (from->state != load_state::loading) co_return out;
  auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, wait);
  try {
    // The reads of an awaited tensor have priority. `||` cancels the operation that has not
    // completed first. If the wait for the tensor is cancelled, the load continues.
    auto race =
        from->load.tensor_async(name, asio::use_awaitable) || timer.async_wait(asio::use_awaitable);
    auto first = co_await std::move(race);
    if (first.index() == 0) out = std::get<0>(std::move(first));
  } catch (const boost::system::system_error&) {
    // The state of the model reports the failure of the load.
  }
  co_return out;
}

reply bytes_of(tensor bytes, const request& asked) {
  reply out;
  // A Range header applies to GET only.
  const std::string_view range =
      asked.method() == http::verb::get ? view(asked[http::field::range]) : std::string_view();
  const range_answer wanted = parse_range(range, bytes.size_bytes());
  if (wanted.kind == range_kind::outside) {
    out.head =
        problem(http::status::range_not_satisfiable, "no byte of the tensor is in the range");
    out.head.set(http::field::content_range, "bytes */" + std::to_string(bytes.size_bytes()));
    return out;
  }
  const bool part = wanted.kind == range_kind::part;
  out.head = with_body(part ? http::status::partial_content : http::status::ok,
                       "application/octet-stream", {});
  out.head.set(http::field::accept_ranges, "bytes");
  out.head.set("X-Tensor-Dtype", std::string(name(bytes.dtype())));
  if (part) {
    out.head.set(http::field::content_range, "bytes " + std::to_string(wanted.bytes.begin) + "-" +
                                                 std::to_string(wanted.bytes.end - 1) + "/" +
                                                 std::to_string(bytes.size_bytes()));
  }
  out.bytes = std::move(bytes);
  out.range = wanted.bytes;
  return out;
}

asio::awaitable<reply> tensor_answer(const services& context, std::shared_ptr<entry> model_entry,
                                     std::string name, const request& asked) {
  reply out;
  const catalog* known = model_entry->catalog();
  if (known == nullptr) {
    out.head = no_catalog(*model_entry);
    co_return out;
  }
  const auto info = std::ranges::find(known->tensors, name, &tensor_info::name);
  if (info == known->tensors.end()) {
    out.head = problem(http::status::not_found, "no such tensor");
    co_return out;
  }
  if (!accepts(view(asked[http::field::accept]), "application/octet-stream")) {
    out.head = in_json(http::status::ok, model_entry->served
                                             ? describe(model_entry->served->loaded.at(name))
                                             : describe(*info, context.how.dtype));
    co_return out;
  }
  auto bytes = co_await await_tensor(std::move(model_entry), std::move(name), context.how.timeout);
  if (bytes) {
    out = bytes_of(std::move(bytes), asked);
  } else {
    out.head = problem(http::status::service_unavailable, "the tensor is not loaded yet");
    out.head.set(http::field::retry_after, "1");
  }
  co_return out;
}

// Answers the requests that need not wait: all requests except requests for one tensor and requests
// for a save.
reply answer_at_once(const services& context, const request& asked, const target& where) {
  reply out;
  const std::string first = where.parts.empty() ? std::string() : where.parts[0];
  const std::size_t depth = where.parts.size();
  if (depth <= 1 && (first.empty() || first == "health" || first == "metrics")) {
    if (!reads(asked)) {
      out.head = not_allowed("GET, HEAD");
    } else if (first.empty()) {
      out.head = with_body(http::status::ok, "text/html; charset=utf-8", std::string(page));
      out.head.set("Content-Security-Policy", std::string(page_policy));
    } else if (first == "health") {
      out.head = in_json(http::status::ok, {{"status", "ok"}});
    } else {
      out.head = with_body(http::status::ok, "text/plain; version=0.0.4; charset=utf-8",
                           metrics_text(context.loads, context.counted));
    }
    return out;
  }
  const bool is_version = depth == 3 && where.parts[2] == "version";
  if (first != "models" || (depth == 3 && !is_version && where.parts[2] != "tensors") ||
      depth > 3) {
    out.head = problem(http::status::not_found, "no such path");
    return out;
  }
  if (depth == 1) {
    const bool starts = asked.method() == http::verb::post;
    out.head = starts         ? start_load(context, asked)
               : reads(asked) ? list_models(context)
                              : not_allowed("GET, HEAD, POST");
    return out;
  }
  if (depth == 2 && asked.method() == http::verb::delete_) {
    out.head = remove_model(context, where.parts[1]);
    return out;
  }
  if (is_version) {
    out.head = asked.method() == http::verb::put ? start_version(context, where.parts[1], asked)
                                                 : not_allowed("PUT");
    return out;
  }
  if (!reads(asked)) {
    out.head = not_allowed(depth == 2 ? "GET, HEAD, DELETE" : "GET, HEAD");
    return out;
  }
  const std::shared_ptr<entry> model_entry = context.loads.find(where.parts[1]);
  if (!model_entry) {
    out.head = problem(http::status::not_found, "no such model");
  } else if (depth == 3) {
    out.head = list_tensors(context, *model_entry, where);
  } else if (accepts(view(asked[http::field::accept]), "text/event-stream")) {
    out.head = with_body(http::status::ok, "text/event-stream", {});
    out.events = model_entry;
  } else {
    out.head = in_json(http::status::ok, describe(*model_entry));
  }
  return out;
}

// Returns the response if a save cannot begin. Otherwise sets `path` to the target of the save.
std::optional<response> refusal_of_save(const services& context, const entry* model_entry,
                                        const save_request& wish, std::string& path) {
  auto target = context.targets.resolve(wish.path);
  if (!target) {
    return problem(http::status::forbidden, "no such target beneath the folders for saving");
  }
  path = std::move(*target);
  if (model_entry == nullptr) return problem(http::status::not_found, "no such model");
  if (!model_entry->served) return problem(http::status::conflict, "the model is not loaded");
  if (context.counted.saving) {
    response busy = problem(http::status::service_unavailable, "another model is being saved");
    busy.set(http::field::retry_after, "1");
    return busy;
  }
  return std::nullopt;
}

// Completes when the saved file is complete.
asio::awaitable<reply> save_answer(const services& context, std::string id, const request& asked) {
  reply out;
  save_request wish;
  try {
    if (!accepts(view(asked[http::field::content_type]), "application/json")) {
      out.head = problem(http::status::unsupported_media_type, "the body must be application/json");
      co_return out;
    }
    wish = parse_save_wish(asked.body());
  } catch (const std::invalid_argument& wrong) {
    out.head = problem(http::status::bad_request, wrong.what());
    co_return out;
  }
  const std::shared_ptr<entry> model_entry = context.loads.find(id);
  std::string path;
  if (auto refused = refusal_of_save(context, model_entry.get(), wish, path)) {
    out.head = std::move(*refused);
    co_return out;
  }
  context.counted.saving = true;
  const model saved = model_entry->served->loaded;
  try {
    auto done = co_await save_model(saved, wish, path);
    json::object body;
    body["path"] = path;
    body["bytes"] = done.bytes;
    out.head = in_json(http::status::created, body);
  } catch (const boost::system::system_error& failed) {
    const bool is_conflict = failed.code() == boost::system::errc::file_exists ||
                             failed.code() == errc::unsupported_dtype;
    out.head = problem(is_conflict ? http::status::conflict : http::status::internal_server_error,
                       failed.what());
  }
  context.counted.saving = false;
  co_return out;
}

}  // namespace

response problem(http::status status, std::string_view text) {
  json::object body;
  body["error"] = std::string(text);
  return in_json(status, body);
}

asio::awaitable<reply> answer(const services& context, const request& asked) {
  reply out;
  const auto where = parse_target(view(asked.target()));
  if (!where) {
    out.head = problem(http::status::bad_request, "the request target is malformed");
    co_return out;
  }
  const auto hosts = asked.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && asked.version() >= 11)) {
    out.head = problem(http::status::bad_request,
                       hosts > 1 ? "the request has more than one Host header"
                                 : "the request has no Host header, which HTTP/1.1 requires");
    co_return out;
  }
  // Prevents DNS rebinding: if the host name of a web page resolves to 127.0.0.1, the page must not
  // reach this server through the browser of a user.
  const std::string_view host =
      where->host.empty() ? view(asked[http::field::host]) : std::string_view(where->host);
  if (is_loopback_address(context.how.address) && !host.empty() && !is_loopback_host(host)) {
    out.head = problem(http::status::misdirected_request,
                       "the host of the request must be localhost or a loopback address");
    co_return out;
  }
  const bool one_tensor =
      where->parts.size() == 4 && where->parts[0] == "models" && where->parts[2] == "tensors";
  const bool saves =
      where->parts.size() == 3 && where->parts[0] == "models" && where->parts[2] == "save";
  if (saves && asked.method() == http::verb::post) {
    auto saved = co_await save_answer(context, where->parts[1], asked);
    out = std::move(saved);
    co_return out;
  }
  if (saves) {
    out.head = not_allowed("POST");
    co_return out;
  }
  if (!one_tensor) {
    out = answer_at_once(context, asked, *where);
    co_return out;
  }
  const std::shared_ptr<entry> model_entry = context.loads.find(where->parts[1]);
  if (!reads(asked)) {
    out.head = not_allowed("GET, HEAD");
  } else if (!model_entry) {
    out.head = problem(http::status::not_found, "no such model");
  } else {
    auto found = co_await tensor_answer(context, model_entry, where->parts[3], asked);
    out = std::move(found);
  }
  co_return out;
}

}  // namespace ringload::server
