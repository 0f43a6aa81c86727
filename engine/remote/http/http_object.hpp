// SPDX-License-Identifier: Apache-2.0
#pragma once

// An object of a web server, as a byte_source: each read is cut into ranges, which are received
// where they go; but for what comes with the answer that opened it.

#include <memory>
#include <ringload/byte_source.hpp>

#include "remote/http/http_transfer.hpp"
#include "remote/http/net_thread_pool.hpp"
#include "remote/http/object_body.hpp"

namespace ringload::inline v0::remote_http {

std::shared_ptr<byte_source> make_http_object(std::shared_ptr<lanes> by,
                                              std::shared_ptr<object_address> at,
                                              std::shared_ptr<object_body> opened);

}  // namespace ringload::inline v0::remote_http
