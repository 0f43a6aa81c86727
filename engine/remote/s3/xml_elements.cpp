// SPDX-License-Identifier: Apache-2.0

#include "remote/s3/xml_elements.hpp"

#include <expat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace ringload::inline v0::remote_http {

namespace {

struct delete_parser {
  void operator()(XML_Parser parser) const noexcept { XML_ParserFree(parser); }
};
using parser_handle = std::unique_ptr<std::remove_pointer_t<XML_Parser>, delete_parser>;

fault malformed(std::string cause) { return {errc::malformed_answer, "", std::move(cause)}; }

// State of the callbacks of one parser. Expat is a C library, so no exception may leave a callback.
class element_walk {
 public:
  element_walk(XML_Parser parser, const std::function<result<void>(const xml_element&)>& take)
      : parser_(parser), take_(take) {
    XML_SetUserData(parser, this);
    XML_SetElementHandler(
        parser,
        [](void* walk, const char* name, const char**) {
          of(walk).guard(&element_walk::begin_element, name);
        },
        [](void* walk, const char*) { of(walk).guard(&element_walk::end_element); });
    XML_SetCharacterDataHandler(parser, [](void* walk, const char* text, int bytes) {
      of(walk).guard(&element_walk::add_text, std::string_view(text, std::size_t(bytes)));
    });
    // A DOCTYPE is refused, because its entities can expand a short document to a very long text.
    XML_SetStartDoctypeDeclHandler(parser,
                                   [](void* walk, const char*, const char*, const char*, int) {
                                     of(walk).guard(&element_walk::refuse_doctype);
                                   });
  }

  // Returns the fault that a callback returned, or rethrows the exception that a callback threw.
  result<void> outcome() const {
    if (thrown_) std::rethrow_exception(thrown_);
    return outcome_;
  }

 private:
  static element_walk& of(void* walk) noexcept { return *static_cast<element_walk*>(walk); }

  // Calls a member function. Does nothing after a failure, because Expat may call more callbacks
  // after XML_StopParser().
  template <class... Arguments>
  void guard(result<void> (element_walk::*callback)(Arguments...),
             Arguments... arguments) noexcept {
    if (!outcome_ || thrown_) return;
    try {
      outcome_ = (this->*callback)(arguments...);
    } catch (...) {
      thrown_ = std::current_exception();
    }
    if (!outcome_ || thrown_) XML_StopParser(parser_, XML_FALSE);
  }

  bool has_text() const noexcept { return text_.find_first_not_of(" \t\r\n") != text_.npos; }

  result<void> begin_element(const char* name) {
    if (has_text()) return malformed("text beside a child element");
    if (depth_ == xml_depth_max) return malformed("elements are nested too deep");
    if (depth_ > 0) path_ += '/';
    path_ += name;
    ++depth_;
    text_.clear();
    has_children_ = false;
    return {};
  }

  result<void> end_element() {
    if (has_children_ && has_text()) return malformed("text beside a child element");
    result<void> taken = take_({path_, text_, has_children_});
    const std::size_t slash = path_.rfind('/');
    path_.resize(slash == path_.npos ? 0 : slash);
    --depth_;
    text_.clear();
    has_children_ = true;
    return taken;
  }

  result<void> add_text(std::string_view text) {
    text_ += text;
    return {};
  }

  result<void> refuse_doctype() { return malformed("a DOCTYPE is not supported"); }

  XML_Parser parser_;
  const std::function<result<void>(const xml_element&)>& take_;
  std::string path_;
  std::string text_;
  unsigned depth_ = 0;
  bool has_children_ = false;
  result<void> outcome_;
  std::exception_ptr thrown_;
};

}  // namespace

result<void> parse_xml(std::string_view xml,
                       const std::function<result<void>(const xml_element&)>& take) {
  if (xml.size() > std::numeric_limits<int>::max()) return malformed("the XML text is too long");
  const parser_handle parser(XML_ParserCreate("UTF-8"));
  if (!parser) throw std::bad_alloc();
  element_walk walk(parser.get(), take);
  const XML_Status parsed = XML_Parse(parser.get(), xml.data(), static_cast<int>(xml.size()), 1);
  if (parsed == XML_STATUS_OK) return {};
  const auto index = std::max<XML_Index>(XML_GetCurrentByteIndex(parser.get()), 0);
  const std::string place = "byte " + grouped(static_cast<std::uint64_t>(index));
  if (const auto taken = walk.outcome(); !taken) {
    const fault failure = taken.error();
    return fault{failure.code, place, failure.cause()};
  }
  const XML_Error error = XML_GetErrorCode(parser.get());
  if (error == XML_ERROR_NO_MEMORY) throw std::bad_alloc();
  return fault{errc::malformed_answer, place, std::string("XML: ") + XML_ErrorString(error)};
}

}  // namespace ringload::inline v0::remote_http
