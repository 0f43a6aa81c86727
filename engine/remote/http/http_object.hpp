// SPDX-License-Identifier: Apache-2.0
#pragma once

// Implements byte_source for an object of a web server. Splits each read into ranges, and receives
// each range directly into the destination. Reads of the first bytes use the response that opened
// the object.

#include <memory>
#include <ringload/byte_source.hpp>

#include "remote/http/http_transfer.hpp"
#include "remote/http/net_thread_pool.hpp"
#include "remote/http/object_body.hpp"

namespace ringload::inline v0::remote_http {

std::shared_ptr<byte_source> make_http_object(std::shared_ptr<net_thread_pool> threads,
                                              std::shared_ptr<object_address> address,
                                              std::shared_ptr<object_body> opened);

}  // namespace ringload::inline v0::remote_http
