// SPDX-License-Identifier: Apache-2.0

#include <ringload/c.h>

#include <algorithm>
#include <ringload/keeper.hpp>
#include <string>
#include <utility>
#include <vector>

#include "c/handles.hpp"
#include "c/status.hpp"
#include "c/structs.hpp"

using namespace ringload::c;

struct ringload_keeper {
  ringload::keeper value;
};

namespace {

const char* const null_keeper_text = "the keeper is null";
const char* const null_name_text = "the name is null";
const char* const null_socket_text = "the socket's path is null";

ringload::keeper_options settings_of(const ringload_keeper_options* from) {
  const ringload_keeper_options c_options = read_struct(from);
  ringload::keeper_options options;
  if (c_options.users_count > 0) required(c_options.users, "the users are null");
  if (c_options.users && c_options.users_count == 0) {
    throw invalid_argument("the list of users is empty, expected a user id, or null for all users");
  }
  options.users.assign(c_options.users, c_options.users + c_options.users_count);
  if (c_options.mode != 0) options.mode = c_options.mode;
  if (c_options.connections_max != 0) options.connections_max = c_options.connections_max;
  return options;
}

[[noreturn]] void throw_not_served(const char* name) {
  throw ringload::error(ringload::errc::source_not_found, name, "no model of this name is served");
}

std::chrono::milliseconds limit_of(uint32_t milliseconds) {
  if (milliseconds == 0) return ringload::attach_timeout;
  return std::chrono::milliseconds(milliseconds);
}

void write_version(ringload_kept_version* output, const ringload::kept_version& version) {
  ringload_kept_version c_version = {};
  c_version.keeper = version.keeper;
  c_version.number = version.number;
  write_struct(output, c_version);
}

}  // namespace

ringload_status ringload_shared_host_device(ringload_device** device) {
  return guarded([&] {
    required(device, "the output pointer for the device is null") = nullptr;
    *device = new ringload_device{ringload::shared_host()};
    return RINGLOAD_OK;
  });
}

ringload_status ringload_keeper_create(const char* socket, const ringload_keeper_options* options,
                                       ringload_keeper** result) {
  return guarded([&] {
    required(result, "the output pointer for the keeper is null") = nullptr;
    *result = new ringload_keeper{
        ringload::keeper(&required(socket, null_socket_text), settings_of(options))};
    return RINGLOAD_OK;
  });
}

void ringload_keeper_release(ringload_keeper* keeper) { delete keeper; }

ringload_status ringload_keeper_publish(ringload_keeper* keeper, const char* name,
                                        const ringload_model* model) {
  return guarded([&] {
    required(keeper, null_keeper_text)
        .value.publish(&required(name, null_name_text), required(model, "the model is null").value);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_keeper_withdraw(ringload_keeper* keeper, const char* name) {
  return guarded([&] {
    if (!required(keeper, null_keeper_text).value.withdraw(&required(name, null_name_text)))
      throw_not_served(name);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_keeper_model(const ringload_keeper* keeper, const char* name,
                                      ringload_kept_model* into) {
  return guarded([&] {
    const std::string model_name = &required(name, null_name_text);
    const std::vector<ringload::kept_model> models =
        required(keeper, null_keeper_text).value.models();
    const auto served = std::find_if(models.begin(), models.end(),
                                     [&](const auto& m) { return m.name == model_name; });
    if (served == models.end()) throw_not_served(name);
    ringload_kept_model model = {};
    model.version = served->version;
    model.bytes = served->bytes;
    model.attached = served->attached;
    write_struct(into, model);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_attach(const char* socket, const char* name, uint32_t milliseconds,
                                ringload_model** attached) {
  return guarded([&] {
    required(attached, "the output pointer for the model is null") = nullptr;
    *attached = new ringload_model{ringload::attach(&required(socket, null_socket_text),
                                                    &required(name, null_name_text),
                                                    limit_of(milliseconds))};
    return RINGLOAD_OK;
  });
}

ringload_status ringload_attached_version(const ringload_model* attached,
                                          ringload_kept_version* version) {
  return guarded([&] {
    write_version(version,
                  ringload::attached_version(required(attached, "the model is null").value));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_served_version(const char* socket, const char* name, uint32_t milliseconds,
                                        ringload_kept_version* version) {
  return guarded([&] {
    write_version(
        version, ringload::served_version(&required(socket, null_socket_text),
                                          &required(name, null_name_text), limit_of(milliseconds)));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_attach_next(const char* socket, const char* name,
                                     const ringload_kept_version* current, uint32_t milliseconds,
                                     ringload_model** attached) {
  return guarded([&] {
    required(attached, "the output pointer for the model is null") = nullptr;
    const ringload_kept_version c_version = read_struct(current);
    const ringload::kept_version version = {c_version.keeper, c_version.number};
    *attached = new ringload_model{ringload::attach_next(&required(socket, null_socket_text),
                                                         &required(name, null_name_text), version,
                                                         limit_of(milliseconds))};
    return RINGLOAD_OK;
  });
}
