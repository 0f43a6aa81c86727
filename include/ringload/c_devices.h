// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_DEVICES_H
#define RINGLOAD_C_DEVICES_H

// Functions of the C interface that load to several devices, and that copy loaded tensors.
//
// A loader has a list of devices. The position of a device is its index in this list. A load reads
// each byte once and copies the byte to the devices that the selection chooses.
//
//     const ringload_device* devices[2] = {first_gpu, second_gpu};
//     ringload_loader_create_on(devices, 2, NULL, NULL, 0, &loader);
//     ringload_selection_create(&selection);
//     ringload_selection_on(selection, "*", RINGLOAD_ALL_DEVICES);
//     ringload_selection_shard_by_device(selection, "*.mlp.*", 0);
//     ringload_load(loader, checkpoint, selection, NULL, &model);
//     ringload_model_find_on(model, "layers.0.mlp.weight", 1, &second_half);

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Returns the host as a device. The functions of `ringload/c_cuda.h` return GPUs. A function of
/// `ringload/c_keeper.h` returns a host device whose memory other processes can map.
RINGLOAD_C_EXPORT ringload_status ringload_host_device(ringload_device** device);

/// Creates a loader for `count` devices. An element that is null means the host. A device may be
/// listed twice, and then has two positions. The caller may free the devices and the extensions
/// after the call. `limits` may be null. Returns RINGLOAD_INVALID_ARGUMENT if `count` is 0, and
/// RINGLOAD_UNAVAILABLE if a device cannot be used.
RINGLOAD_C_EXPORT ringload_status ringload_loader_create_on(
    const ringload_device* const* devices, size_t count, const ringload_loader_options* limits,
    const ringload_extension* const* extensions, size_t extension_count, ringload_loader** result);
/// Returns the number of devices of a loader. Returns 0 if `loader` is null.
RINGLOAD_C_EXPORT size_t ringload_loader_device_count(const ringload_loader* loader);

// The next functions choose the devices of the tensors that match `glob`, or of all selected
// tensors if the function has no `glob`. If several calls match a tensor, the last call decides. A
// tensor without a matching call is placed on the first device. A load fails with
// RINGLOAD_INVALID_ARGUMENT if a position does not exist. The selection of a fill must not use
// these functions, because each destination already states its device.

/// The position that means all devices.
#define RINGLOAD_ALL_DEVICES 0xFFFFFFFFu

/// Places each tensor as a whole on the device at the position `device`. With RINGLOAD_ALL_DEVICES,
/// each device gets a copy.
RINGLOAD_C_EXPORT ringload_status ringload_selection_on(ringload_selection* selection,
                                                        const char* glob, uint32_t device);
/// Places each selected tensor on the device whose position `device_of` returns, or on all devices
/// if `device_of` returns RINGLOAD_ALL_DEVICES. Before the first read of a load, the library calls
/// `device_of` once for each selected tensor, unless a later call of the selection chooses the
/// device of the tensor. ringload_selection_where() describes the rules for callbacks.
RINGLOAD_C_EXPORT ringload_status ringload_selection_on_choice(
    ringload_selection* selection,
    uint32_t (*device_of)(void* context, const ringload_tensor_info* tensor), void* context);
/// Distributes the tensors. Each tensor is placed on the device that has the fewest bytes so far.
RINGLOAD_C_EXPORT ringload_status ringload_selection_spread(ringload_selection* selection,
                                                            const char* glob);
/// Divides each tensor along `dim` into one part for each device. A part has ceil(size / devices)
/// indices, so the parts of the last devices may be shorter or empty.
RINGLOAD_C_EXPORT ringload_status ringload_selection_shard_by_device(ringload_selection* selection,
                                                                     const char* glob,
                                                                     uint32_t dim);

/// Returns the tensor `name` on the device at the position `device`. Returns RINGLOAD_NOT_FOUND if
/// this device does not have the tensor. ringload_model_find() uses the first device that has the
/// tensor.
RINGLOAD_C_EXPORT ringload_status ringload_model_find_on(const ringload_model* model,
                                                         const char* name, uint32_t device,
                                                         ringload_tensor** tensor);

/// Options of a copy.
typedef struct ringload_tensor_copy_options {
  size_t struct_bytes;
  /// The device of the copy. If null, the device of the tensor is used. ringload_host_device()
  /// returns the host.
  const ringload_device* device;
  /// The dtype of the copy. With RINGLOAD_AS_STORED, the elements are copied unchanged.
  ringload_dtype dtype;
} ringload_tensor_copy_options;

/// Copies a tensor into new memory. The copy does not keep the memory of `tensor` allocated.
/// `options` may be null. The device of `tensor` and the device of the copy must be devices of the
/// loader. The host is always allowed. Any other device fails with RINGLOAD_UNAVAILABLE. A
/// conversion that is not supported fails with RINGLOAD_UNSUPPORTED. The result of the operation is
/// a tensor: see ringload_operation_tensor(). `tensor` may be released before the operation has
/// ended. All work that writes to the tensor must have ended before the call.
RINGLOAD_C_EXPORT ringload_status ringload_tensor_copy_begin(
    ringload_loader* loader, const ringload_tensor* tensor,
    const ringload_tensor_copy_options* options, ringload_operation** operation);
/// Copies a tensor as ringload_tensor_copy_begin() does, and waits for the copy.
RINGLOAD_C_EXPORT ringload_status ringload_tensor_copy(ringload_loader* loader,
                                                       const ringload_tensor* tensor,
                                                       const ringload_tensor_copy_options* options,
                                                       ringload_tensor** copy);

#ifdef __cplusplus
}
#endif

#endif
