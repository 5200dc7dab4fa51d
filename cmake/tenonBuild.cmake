# Settings shared by every target of the build: language level, warnings, sanitizers, output folders.
include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
# Programs of the build tree find the library beside them, in whatever folder the tree lies.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

find_program(TENON_CCACHE ccache)
if(TENON_CCACHE)
  # What ccache asks for where headers are precompiled. What is in one is told by a file beside it:
  # its bytes differ from build to build. Checkouts in other folders share what was compiled.
  set(launcher env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_COMPILERCHECK=content
    ${TENON_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()
find_program(TENON_MOLD mold)
if(TENON_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Results must not depend on what the compiler happened to contract into fma.
add_compile_options(-ffp-contract=off)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  # Twice as much code at -O3 for the same speed: loops that gain from it ask for it by themselves.
  string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
  add_compile_options(-fno-plt)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fvect-cost-model=dynamic)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Up to 512 MiB a job, the compiler collects no garbage: a tenth less time.
  add_compile_options("SHELL:--param ggc-min-heapsize=524288")
endif()
if(TENON_SANITIZE)
  add_compile_options(-fsanitize=${TENON_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${TENON_SANITIZE})
  if(TENON_SANITIZE STREQUAL thread)
    # The one fence orders atomics that are all seen by the sanitizer.
    add_compile_options(-Wno-tsan)
  endif()
endif()

# tenon_unite_rooms(targets...): which files are compiled as one where CMAKE_UNITY_BUILD is on, as the
# presets for use and for sanitizers have it: half of what a file costs are headers. Each room has
# units of its own, so that a new file touches those of its room only. The preset debug compiles each
# file by itself, which finds the header that a file uses and does not include.
function(tenon_unite_rooms)
  set(most 8)  # files of a unit
  foreach(target ${ARGN})
    get_target_property(sources ${target} SOURCES)
    set(rooms)
    foreach(source ${sources})
      if(source MATCHES "\\.cpp$")
        get_filename_component(room ${source} DIRECTORY)
        file(RELATIVE_PATH room ${PROJECT_SOURCE_DIR} ${room})
        string(MAKE_C_IDENTIFIER "${room}" room)
        list(APPEND rooms ${room})
        list(APPEND files_of_${room} ${source})
      endif()
    endforeach()
    list(REMOVE_DUPLICATES rooms)
    foreach(room ${rooms})
      list(LENGTH files_of_${room} count)
      math(EXPR units "(${count} + ${most} - 1) / ${most}")
      set(place 0)
      foreach(source ${files_of_${room}})
        math(EXPR unit "${place} * ${units} / ${count}")
        set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY UNITY_GROUP ${room}_${unit})
        math(EXPR place "${place} + 1")
      endforeach()
      unset(files_of_${room})
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  endforeach()
endfunction()

# Warnings are errors in our code; third-party headers come in as system headers.
function(tenon_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 reports these wrongly for inlined std::string and std::vector code at -O2 and above.
    # It takes the files of a unit for headers, whose types must not hold anonymous ones.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage> -Wno-restrict -Wno-stringop-overflow
      -Wno-array-bounds -Wno-maybe-uninitialized -Wno-stringop-overread
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
  else()
    # libstdc++ 12 calls a deprecated function of its own in stable_sort.
    target_compile_options(${target} PRIVATE -Wno-missing-field-initializers
      -Wno-missing-designated-field-initializers -Wno-deprecated-declarations)
  endif()
endfunction()

# tenon_precompile_headers(target headers...): headers of other projects. None of ours is precompiled:
# each file includes what it uses, and a change compiles again what it touches only.
function(tenon_precompile_headers target)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.gch.sum
    "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${ARGN}\n")
  target_precompile_headers(${target} PRIVATE ${ARGN})
endfunction()

# tenon_precompile_standard_headers(target [headers...]): most of the time of a small file goes into
# the standard library's headers, and those of others that most files of the target include.
function(tenon_precompile_standard_headers target)
  if(NOT TENON_FUZZ)
    tenon_precompile_headers(${target} <algorithm> <array> <atomic> <cstdint> <functional> <map>
      <memory> <mutex> <optional> <span> <string> <string_view> <unordered_map> <utility> <variant>
      <vector> ${ARGN})
  endif()
endfunction()

# tenon_add_library(NAME name SOURCES ... [LINK ...]): a library of codegen/, linked statically into
# each plugin that uses it. Its headers are included as <name/header.h>.
function(tenon_add_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LINK")
  add_library(tenon_${arg_NAME} STATIC ${arg_SOURCES})
  tenon_plugin_compile_settings(tenon_${arg_NAME})
  tenon_precompile_standard_headers(tenon_${arg_NAME})
  target_include_directories(tenon_${arg_NAME} PUBLIC ${PROJECT_SOURCE_DIR}/codegen)
  target_link_libraries(tenon_${arg_NAME} PUBLIC tenon::plugin_api ${arg_LINK})
endfunction()
