# SPDX-License-Identifier: Apache-2.0

# pc_folders(PREFIX LIBDIR INCLUDEDIR): sets pc_prefix, pc_libdir and pc_includedir, the folders in
# the files of pkg-config. pkg-config knows the folder of its file. So the prefix is relative to
# this folder, and the installation can be moved. An absolute folder stays absolute. If LIBDIR, the
# parent folder of the files, is absolute, the prefix is PREFIX.
function(pc_folders prefix libdir includedir)
  if(IS_ABSOLUTE "${libdir}")
    set(pc_prefix "${prefix}")
  else()
    file(RELATIVE_PATH above "/prefix/${libdir}/pkgconfig" /prefix)
    string(REGEX REPLACE "/$" "" above "${above}")
    set(pc_prefix "\${pcfiledir}/${above}")
  endif()
  set(pc_prefix "${pc_prefix}" PARENT_SCOPE)
  foreach(folder libdir includedir)
    set(path "${${folder}}")
    if(NOT IS_ABSOLUTE "${path}")
      set(path "\${prefix}/${path}")
    endif()
    set(pc_${folder} "${path}" PARENT_SCOPE)
  endforeach()
endfunction()
