# SPDX-License-Identifier: Apache-2.0
#
# The pure files of engine/, for cmake/tidy.cmake. A pure file engine/ROOM/x.cpp has a test
# tests/ROOM/x_test.cpp, where ROOM is the first folder. The older files in the table below are
# covered by the test of another name that precedes them. The table may only shrink: a new pure file
# comes with its test.

# Rooms of which every file is pure.
set(pure_rooms
  base base/numeric formats formats/codec formats/gguf formats/hdf5 formats/npy formats/onnx
  formats/pytorch formats/safetensors formats/text formats/zip formats/zt plan request)
# Pure files of the other rooms.
set(pure_files
  io/io_cursor runtime/admission_control runtime/drives runtime/queue_depth_tuner runtime/schedule
  load/plan_progress load/stream_state load/window_groups save/safetensors_layout save/shards
  save/write_plan save/zt_layout save/zt/frame_queue)

# "the test: the files that it covers".
set(tested_elsewhere
  "base/strided_copy_test: base/numeric/strided_map"
  "formats/gguf_test: formats/gguf/gguf_metadata formats/gguf/gguf_types"
  "formats/hdf5_test: formats/hdf5/pipe_protocol"
  "formats/json_reader_test: formats/text/input_cursor formats/text/json_text"
  "formats/npy_test: formats/npy/npy_header"
  "formats/onnx_test: formats/onnx/onnx_graph formats/onnx/onnx_tensor formats/text/protobuf_reader"
  "formats/pickle_test: formats/pytorch/pickle_machine"
  "formats/pytorch_test: formats/pytorch/pytorch_legacy formats/pytorch/pytorch_zip"
  "formats/pytorch_test: formats/pytorch/torch_names formats/pytorch/torch_state"
  "formats/pytorch_test: formats/pytorch/torch_tensor"
  "formats/safetensors_test: formats/safetensors/safetensors_json"
  "formats/stream_decoder_test: formats/codec/decoder formats/codec/deflate"
  "formats/stream_decoder_test: formats/codec/filter_chain formats/codec/zstd"
  "formats/zip_test: formats/zip/inflate formats/zip/zip_end"
  "formats/zt_test: formats/shape formats/sparse_indices"
  "formats/zt_test: formats/zt/zt_lengths formats/zt/zt_names formats/zt/zt_object"
  "hdf5/hdf5_test: formats/hdf5/address_base formats/hdf5/attributes formats/hdf5/chunk_index_fix"
  "hdf5/hdf5_test: formats/hdf5/chunk_tree formats/hdf5/dataset formats/hdf5/describe"
  "hdf5/hdf5_test: formats/hdf5/extension formats/hdf5/parse_program formats/hdf5/parser_main"
  "hdf5/hdf5_test: formats/hdf5/process formats/hdf5/type_mapping"
  "keeper/processes_test: base/packet_socket base/shared_memory"
  "load/allocation_log_test: base/allocation_log"
  "load/fill_test: request/destinations request/fill request/fill_state"
  "load/mapped_test: base/file_mapping plan/mappable"
  "load/stored_digest_test: request/choose_digests request/digest"
  "cuda/dlpack_test: request/dlpack_import"
  "plan/arenas_test: plan/arena_layout"
  "plan/properties_test: plan/link_and_order plan/make_plan plan/sort_and_merge"
  "plan/selected_test: plan/split_pieces"
  "request/match_test: request/footprint"
  "request/selection_test: request/block_tensors request/choose request/chosen_catalog"
  "request/selection_test: request/glob request/plan_input_builder request/take_tensors"
  "request/selection_test: request/unreadable"
  "save/cbor_value_test: formats/attribute"
  "save/frame_queue_test: formats/codec/zstd_frame")
