// SPDX-License-Identifier: Apache-2.0
#pragma once

// An object of a web server as a byte_source. Each read is split into ranges, which are received
// directly into the destination. Reads of the first bytes use the answer that opened the object.

#include <memory>
#include <ringload/byte_source.hpp>

#include "remote/http/http_transfer.hpp"
#include "remote/http/net_thread_pool.hpp"
#include "remote/http/object_body.hpp"

namespace ringload::inline v0::remote_http {

std::shared_ptr<byte_source> make_http_object(std::shared_ptr<lanes> threads,
                                              std::shared_ptr<object_address> address,
                                              std::shared_ptr<object_body> opened);

}  // namespace ringload::inline v0::remote_http
