# What goes to a machine with a GPU: the program, the plugins, the test programs of the label gpu and
# the benchmark, with the shared libraries that such a machine may lack. `./dev pack` writes it as
# tenon-gpu.tar.xz (CPack, component gpu_tests); nothing of it is in an ordinary installation.

# tenon_pack_gpu(target...): programs, libraries and plugins that go along.
function(tenon_pack_gpu)
  foreach(target IN LISTS ARGN)
    install(TARGETS ${target} RUNTIME_DEPENDENCY_SET tenon_gpu_libraries
      RUNTIME DESTINATION bin COMPONENT gpu_tests EXCLUDE_FROM_ALL
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT gpu_tests NAMELINK_SKIP EXCLUDE_FROM_ALL)
    set_property(GLOBAL APPEND PROPERTY tenon_gpu_targets ${target})
  endforeach()
endfunction()

function(tenon_pack_gpu_plugins)
  foreach(target IN LISTS ARGN)
    if(NOT TARGET ${target})
      continue()
    endif()
    install(TARGETS ${target} RUNTIME_DEPENDENCY_SET tenon_gpu_libraries
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tenon/plugins COMPONENT gpu_tests EXCLUDE_FROM_ALL)
    set_property(GLOBAL APPEND PROPERTY tenon_gpu_targets ${target})
  endforeach()
endfunction()

# After all targets: the libraries that they need, and CPack.
macro(tenon_finish_gpu_pack)
  get_property(tenon_gpu_targets GLOBAL PROPERTY tenon_gpu_targets)
  # What every Linux has, and what is installed as a target.
  install(RUNTIME_DEPENDENCY_SET tenon_gpu_libraries
    PRE_EXCLUDE_REGEXES "^(libc|libm|libdl|librt|libpthread|ld-linux-x86-64)[.]so" "^libtenon[.]so"
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT gpu_tests EXCLUDE_FROM_ALL)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/tests/package/run_gpu_tests DESTINATION .
    COMPONENT gpu_tests EXCLUDE_FROM_ALL)
  add_custom_target(gpu_pack_parts DEPENDS ${tenon_gpu_targets})
  set(CPACK_GENERATOR TXZ)
  set(CPACK_THREADS 1)  # one block: several are larger
  set(CPACK_STRIP_FILES TRUE)
  set(CPACK_PACKAGE_NAME tenon)
  set(CPACK_PACKAGE_FILE_NAME tenon-gpu)
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Tests and benchmarks of Tenon for a machine with a GPU")
  set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
  set(CPACK_COMPONENTS_ALL gpu_tests)
  set(CPACK_COMPONENTS_GROUPING IGNORE)
  set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
  set(CPACK_ARCHIVE_GPU_TESTS_FILE_NAME tenon-gpu)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
  set(CPACK_SOURCE_GENERATOR "")
  include(CPack)
endmacro()
