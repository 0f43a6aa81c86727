# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` puts under the prefix. Nothing names the prefix itself, so the tree still
# works after it was moved. A second library has an export set of its own, so that finding the first
# never asks for what only the second needs.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ringload)

install(TARGETS ringload EXPORT ringload-targets FILE_SET HEADERS)
install(EXPORT ringload-targets NAMESPACE ringload:: DESTINATION ${package_folder})

# needs_when_static(VARIABLE TARGET): whether who links the library links what it uses as well. A
# shared one has it inside.
function(needs_when_static variable library)
  set(needs OFF)
  if(TARGET ${library})
    get_target_property(kind ${library} TYPE)
    if(kind STREQUAL STATIC_LIBRARY)
      set(needs ON)
    endif()
  endif()
  set(${variable} ${needs} PARENT_SCOPE)
endfunction()

foreach(component cuda c c_cuda hdf5 c_hdf5 remote c_remote mpi)
  if(TARGET ringload_${component})
    install(TARGETS ringload_${component} EXPORT ringload-${component}-targets FILE_SET HEADERS)
    install(EXPORT ringload-${component}-targets NAMESPACE ringload::
      DESTINATION ${package_folder})
  endif()
endforeach()
needs_when_static(cuda_needs_toolkit ringload_cuda)
needs_when_static(hdf5_needs_library ringload_hdf5)
needs_when_static(remote_needs_openssl ringload_remote)
set(component_modules "")
if(TARGET ringload_hdf5)
  install(TARGETS ringload_hdf5_parse)
  list(APPEND component_modules ${CMAKE_CURRENT_LIST_DIR}/Findlibhdf5.cmake)
endif()

# The codecs that this build has: their Find modules, and pkg-config's names.
set(codec_packages "")
set(codec_modules "")
set(pc_codecs "")
if(RINGLOAD_DEFLATE)
  string(APPEND codec_packages " isal")
  list(APPEND codec_modules ${CMAKE_CURRENT_LIST_DIR}/Findisal.cmake)
  string(APPEND pc_codecs ", libisal")
endif()
if(RINGLOAD_ZSTD)
  string(APPEND codec_packages " zstd")
  list(APPEND codec_modules ${CMAKE_CURRENT_LIST_DIR}/Findzstd.cmake)
  string(APPEND pc_codecs ", libzstd")
endif()

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/ringload-config.cmake.in
  ${PROJECT_BINARY_DIR}/ringload-config.cmake
  INSTALL_DESTINATION ${package_folder}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/ringload-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(
  FILES
    ${PROJECT_BINARY_DIR}/ringload-config.cmake
    ${PROJECT_BINARY_DIR}/ringload-config-version.cmake
    ${CMAKE_CURRENT_LIST_DIR}/Findliburing.cmake
    ${codec_modules}
    ${component_modules}
  DESTINATION ${package_folder})

# What a static library leaves to who links it is part of its flags: only with `pkg-config --static`
# it would be for a library that is there in both kinds.
get_target_property(kind ringload TYPE)
# C++'s own libraries, too: a linker that is called for C does not add them.
set(pc_requires Requires.private)
set(pc_runtime "")
if(kind STREQUAL STATIC_LIBRARY)
  set(pc_requires Requires)
  set(pc_runtime " -lstdc++ -lm")
endif()

# pkg-config knows where it found the file; the prefix is so many folders above.
file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
function(install_pc name)
  configure_file(
    ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
install_pc(ringload)
if(TARGET ringload_cuda)
  # `pkg-config --define-variable=cuda_libdir=...` says where another machine's toolkit is.
  set(pc_cuda_libs "")
  if(cuda_needs_toolkit)
    set(pc_cuda_libs " -L\${cuda_libdir} -lcudart_static -ldl -lrt -pthread")
  endif()
  install_pc(ringload-cuda)
endif()

if(TARGET ringload_c)
  install_pc(ringload-c)
endif()
if(TARGET ringload_hdf5)
  set(pc_hdf5_requires "")
  if(hdf5_needs_library)
    set(pc_hdf5_requires ", ${LIBHDF5_PC}")
  endif()
  install_pc(ringload-hdf5)
endif()

if(TARGET ringload_remote)
  set(pc_remote_requires "")
  if(remote_needs_openssl)
    set(pc_remote_requires ", openssl >= 3.0")
  endif()
  install_pc(ringload-remote)
endif()
if(TARGET ringload_mpi)
  install_pc(ringload-mpi)
endif()

if(TARGET ringload_cli)
  install(TARGETS ringload_cli uring_bench)
endif()
