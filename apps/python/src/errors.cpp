// SPDX-License-Identifier: Apache-2.0

// Converts exceptions of the library to Python exceptions. ringload._errors chooses the class.

#include <boost/asio/error.hpp>
#include <ringload/error.hpp>
#include <system_error>
#include <typeinfo>
#include <vector>

#include "convert.hpp"
#include "gil.hpp"

namespace ringload::python {

namespace {

#define RINGLOAD_NAMED(code) \
  case errc::code: return #code

// Returns the name of the enumerator, by which Python programs distinguish errors.
const char* name_of(errc code) {
  switch (code) {
    RINGLOAD_NAMED(source_not_found);
    RINGLOAD_NAMED(not_a_checkpoint);
    RINGLOAD_NAMED(ambiguous_source);
    RINGLOAD_NAMED(incomplete_series);
    RINGLOAD_NAMED(invalid_source_name);
    RINGLOAD_NAMED(path_outside_source);
    RINGLOAD_NAMED(not_a_regular_file);
    RINGLOAD_NAMED(header_too_small);
    RINGLOAD_NAMED(header_too_large);
    RINGLOAD_NAMED(header_outside_file);
    RINGLOAD_NAMED(header_not_utf8);
    RINGLOAD_NAMED(malformed_header);
    RINGLOAD_NAMED(invalid_offsets);
    RINGLOAD_NAMED(wrong_tensor_bytes);
    RINGLOAD_NAMED(size_overflow);
    RINGLOAD_NAMED(fractional_bytes);
    RINGLOAD_NAMED(extent_outside_file);
    RINGLOAD_NAMED(trailing_bytes);
    RINGLOAD_NAMED(unsupported_feature);
    RINGLOAD_NAMED(malformed_index);
    RINGLOAD_NAMED(duplicate_tensor);
    RINGLOAD_NAMED(missing_tensor);
    RINGLOAD_NAMED(truncated_file);
    RINGLOAD_NAMED(changed_file);
    RINGLOAD_NAMED(malformed_stream);
    RINGLOAD_NAMED(codec_unavailable);
    RINGLOAD_NAMED(no_such_tensor);
    RINGLOAD_NAMED(memory_exceeded);
    RINGLOAD_NAMED(engine_unavailable);
    RINGLOAD_NAMED(direct_unavailable);
    RINGLOAD_NAMED(invalid_options);
    RINGLOAD_NAMED(device_unavailable);
    RINGLOAD_NAMED(unsupported_dtype);
    RINGLOAD_NAMED(invalid_destination);
    RINGLOAD_NAMED(unexpected_tensor);
    RINGLOAD_NAMED(wrong_dtype);
    RINGLOAD_NAMED(wrong_shape);
    RINGLOAD_NAMED(invalid_selection);
    RINGLOAD_NAMED(not_mappable);
    RINGLOAD_NAMED(invalid_tensor);
    RINGLOAD_NAMED(invalid_saving);
    RINGLOAD_NAMED(read_back_differs);
    RINGLOAD_NAMED(not_restored);
    RINGLOAD_NAMED(malformed_checksum_list);
    RINGLOAD_NAMED(incomplete_checksum_list);
    RINGLOAD_NAMED(digest_unavailable);
    RINGLOAD_NAMED(wrong_digest);
    RINGLOAD_NAMED(wrong_indices);
    RINGLOAD_NAMED(access_denied);
    RINGLOAD_NAMED(remote_failed);
    RINGLOAD_NAMED(malformed_answer);
    RINGLOAD_NAMED(malformed_message);
    RINGLOAD_NAMED(mismatched_call);
    RINGLOAD_NAMED(rank_failed);
    default: return "";  // A code of a newer version of the library.
  }
}

#undef RINGLOAD_NAMED

nb::list list_of(std::span<const std::string> names) {
  nb::list all;
  for (const std::string& name : names) all.append(str_of(name));
  return all;
}

void set(const std::string& kind, int number, std::string_view text, std::string_view place,
         const fill_error* filled_in_part) {
  const nb::object make = nb::module_::import_("ringload._errors").attr("make");
  nb::object made =
      call_python(make, nb::make_tuple(str_of(kind), number, str_of(text), str_of(place)));
  if (filled_in_part != nullptr) {
    made.attr("whole") = list_of(filled_in_part->whole());
    made.attr("torn") = list_of(filled_in_part->torn());
  }
  PyErr_SetObject(made.type().ptr(), made.ptr());
}

void set(const error& failure, const fill_error* filled_in_part) {
  const boost::system::error_code code = failure.code();
  const std::string kind = code == boost::asio::error::operation_aborted ? "cancelled"
                           : code.category() == ringload::category()
                               ? name_of(static_cast<errc>(code.value()))
                           : code.category() == boost::system::system_category() ? "errno"
                                                                                 : "device";
  set(kind, code.value(), failure.what(), failure.place(), filled_in_part);
}

void set_as_python_error(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const fill_error& failed) {
    set(failed, &failed);
  } catch (const error& failed) {
    set(failed, nullptr);
  } catch (const usage_error& wrong) {
    set("usage", 0, wrong.what(), "", nullptr);
  } catch (const std::bad_cast&) {
    PyErr_SetString(PyExc_TypeError, "an argument has the wrong type");
  } catch (const std::system_error& failed) {  // No thread or descriptor could be created.
    set("errno", failed.code().value(), failed.what(), "", nullptr);
  } catch (const boost::system::system_error& failed) {
    const bool cancelled = failed.code() == boost::asio::error::operation_aborted;
    set(cancelled ? "cancelled" : "errno", failed.code().value(), failed.what(), "", nullptr);
  }
}

}  // namespace

void set_python_error(const std::exception_ptr& failure) {
  try {
    set_as_python_error(failure);
  } catch (nb::python_error& instead) {
    instead.restore();  // A signal interrupted the creation of the Python exception.
  }
}

}  // namespace ringload::python
