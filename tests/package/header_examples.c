// SPDX-License-Identifier: Apache-2.0

// The examples in the comments of the C headers. This file is compiled and never run;
// code_blocks.cmake checks that it has every example.

#include <ringload/c.h>
#include <stddef.h>

// c.h
void load_a_tensor(ringload_loader* loader, ringload_checkpoint* checkpoint, ringload_model* model,
                   ringload_tensor* tensor) {
  ringload_loader_create(NULL, NULL, &loader);
  ringload_open(loader, "model.safetensors", NULL, &checkpoint);
  ringload_load(loader, checkpoint, NULL, NULL, &model);
  ringload_model_find(model, "wte.weight", &tensor);
  ringload_tensor_view view = RINGLOAD_STRUCT(ringload_tensor_view);
  ringload_tensor_look(tensor, &view);
}

void default_options(void) {
  ringload_load_options options = RINGLOAD_STRUCT(ringload_load_options);
  (void)options;
}

// c_devices.h
void several_devices(const ringload_device* first_gpu, const ringload_device* second_gpu,
                     const ringload_checkpoint* checkpoint, ringload_loader* loader,
                     ringload_selection* selection, ringload_model* model,
                     ringload_tensor* second_half) {
  const ringload_device* devices[2] = {first_gpu, second_gpu};
  ringload_loader_create_on(devices, 2, NULL, NULL, 0, &loader);
  ringload_selection_create(&selection);
  ringload_selection_on(selection, "*", RINGLOAD_ALL_DEVICES);
  ringload_selection_shard_by_device(selection, "*.mlp.*", 0);
  ringload_load(loader, checkpoint, selection, NULL, &model);
  ringload_model_find_on(model, "layers.0.mlp.weight", 1, &second_half);
}

// c_store.h
ringload_status open_object(void* context, const char* name, void** object, uint64_t* bytes,
                            ringload_store_call* call) {
  (void)context, (void)name, (void)object, (void)bytes;
  return ringload_store_fail(call, RINGLOAD_NOT_FOUND, "the cache has no such model");
}

ringload_status read_object(void* object, uint64_t offset, void* into, uint64_t bytes,
                            uint64_t* bytes_read, ringload_store_call* call) {
  (void)object, (void)offset, (void)into, (void)bytes, (void)bytes_read, (void)call;
  return RINGLOAD_OK;
}

void own_store(ringload_extension* extension, ringload_loader* loader,
               ringload_checkpoint* checkpoint) {
  ringload_store store = RINGLOAD_STRUCT(ringload_store);
  store.prefix = "cache://";
  store.open = open_object;
  store.read = read_object;
  ringload_store_extension(&store, &extension);
  const ringload_extension* extensions[1] = {extension};
  ringload_loader_create_with(NULL, NULL, extensions, 1, &loader);
  ringload_open(loader, "cache://models/7b.safetensors", NULL, &checkpoint);
}

// c_writer.h
void write_a_tensor(ringload_writer* writer, ringload_saved_tensor tensor,
                    ringload_object_options options) {
  ringload_writer_create("model.zt", NULL, &writer);
  ringload_writer_add(writer, &tensor, &options);
  ringload_writer_finish(writer, NULL);
}
