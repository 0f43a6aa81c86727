# SPDX-License-Identifier: Apache-2.0
#
# Defines the files that `cmake --install` installs. No file contains the prefix, so the tree can be
# moved, unless CMAKE_INSTALL_LIBDIR or CMAKE_INSTALL_INCLUDEDIR is absolute. Then the .pc files
# contain absolute paths. Each library has a separate export set, so that a search for one library
# never requires the dependencies of another.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ringload)

# Components of the installation, each of which is a Debian package.
set(runtime ringload_runtime)
set(dev ringload_dev)
set(tools ringload_tools)
set(of_libraries
  LIBRARY COMPONENT ${runtime} NAMELINK_COMPONENT ${dev}
  ARCHIVE COMPONENT ${dev}
  FILE_SET HEADERS COMPONENT ${dev})

install(TARGETS ringload EXPORT ringload-targets ${of_libraries})
install(EXPORT ringload-targets NAMESPACE ringload:: DESTINATION ${package_folder}
  COMPONENT ${dev})

# needs_when_static(VARIABLE TARGET): sets VARIABLE to ON if TARGET is a static library. Then a
# program must also link its dependencies, which a shared library already contains.
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
    install(TARGETS ringload_${component} EXPORT ringload-${component}-targets ${of_libraries})
    install(EXPORT ringload-${component}-targets NAMESPACE ringload::
      DESTINATION ${package_folder} COMPONENT ${dev})
  endif()
endforeach()
needs_when_static(cuda_needs_toolkit ringload_cuda)
needs_when_static(hdf5_needs_library ringload_hdf5)
needs_when_static(remote_needs_libraries ringload_remote)
set(component_modules "")
if(TARGET ringload_hdf5)
  install(TARGETS ringload_hdf5_parse COMPONENT ${tools})
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
  DESTINATION ${package_folder} COMPONENT ${dev})

# The dependencies of a static library are part of its normal flags. Only a library that is
# installed both as static and shared would need `pkg-config --static`.
get_target_property(kind ringload TYPE)
# The flags include the C++ standard libraries, because a linker for C does not add them.
set(pc_requires Requires.private)
set(pc_runtime "")
if(kind STREQUAL STATIC_LIBRARY)
  set(pc_requires Requires)
  set(pc_runtime " -lstdc++ -lm")
endif()

include(${CMAKE_CURRENT_LIST_DIR}/pc_folders.cmake)
pc_folders("${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_LIBDIR}" "${CMAKE_INSTALL_INCLUDEDIR}")
function(install_pc name)
  configure_file(
    ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT ${dev})
endfunction()
install_pc(ringload)
if(TARGET ringload_cuda)
  # The folder in the file is NVIDIA's default, not the folder of this machine. `pkg-config
  # --define-variable=cuda_libdir=...` changes it.
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
  if(remote_needs_libraries)
    set(pc_remote_requires ", openssl >= 3.0, expat")
  endif()
  install_pc(ringload-remote)
endif()
if(TARGET ringload_mpi)
  install_pc(ringload-mpi)
endif()

if(TARGET ringload_cli)
  install(TARGETS ringload_cli uring_bench COMPONENT ${tools})
  foreach(program ringload uring-bench)
    set(manual ${PROJECT_BINARY_DIR}/manual)
    install(FILES ${manual}/${program}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
      COMPONENT ${tools})
    install(FILES ${manual}/${program}.bash RENAME ${program} COMPONENT ${tools}
      DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${manual}/_${program} COMPONENT ${tools}
      DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
    install(FILES ${manual}/${program}.fish COMPONENT ${tools}
      DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/apps/${program}/schemas/ COMPONENT ${tools}
      DESTINATION ${CMAKE_INSTALL_DATADIR}/ringload/schemas/${program})
  endforeach()
endif()

# The service of a keeper. systemd searches these folders of /usr and /usr/local.
option(RINGLOAD_SYSTEMD "Install the tool's units for systemd" ON)
if(TARGET ringload_cli AND RINGLOAD_SYSTEMD)
  set(units ${PROJECT_SOURCE_DIR}/apps/ringload/systemd)
  configure_file(${units}/ringload-keep@.service.in
    ${PROJECT_BINARY_DIR}/ringload-keep@.service @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/ringload-keep@.service ${units}/ringload-keep@.socket
    DESTINATION lib/systemd/system COMPONENT ${tools})
  install(FILES ${units}/ringload.tmpfiles RENAME ringload.conf
    DESTINATION lib/tmpfiles.d COMPONENT ${tools})
  install(FILES ${units}/ringload.sysusers RENAME ringload.conf
    DESTINATION lib/sysusers.d COMPONENT ${tools})
endif()

if(PROJECT_IS_TOP_LEVEL)
  include(${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
endif()
