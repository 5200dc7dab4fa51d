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
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

find_program(TENON_CCACHE ccache)
if(TENON_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TENON_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${TENON_CCACHE})
endif()
find_program(TENON_MOLD mold)
if(TENON_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Results must not depend on what the compiler happened to contract into fma.
add_compile_options(-ffp-contract=off)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-fno-plt)
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

# Warnings are errors in our code; third-party headers come in as system headers.
function(tenon_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 reports these wrongly for inlined std::string and std::vector code at -O2 and above.
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-stringop-overflow
      -Wno-array-bounds -Wno-maybe-uninitialized -Wno-stringop-overread
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
  else()
    # libstdc++ 12 calls a deprecated function of its own in stable_sort.
    target_compile_options(${target} PRIVATE -Wno-missing-field-initializers
      -Wno-missing-designated-field-initializers -Wno-deprecated-declarations)
  endif()
endfunction()
