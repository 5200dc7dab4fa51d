# tenon_microkernel: blocked products and convolutions in f32, a static library in each plugin that
# uses them.
include_guard(GLOBAL)
set(dir ${CMAKE_CURRENT_LIST_DIR})
set(sources attention kernels kernels_avx2 kernels_avx512 kernels_base product windows winograd)
list(TRANSFORM sources REPLACE "(.+)" "${dir}/\\1.cpp")
add_library(tenon_microkernel STATIC ${sources})
tenon_plugin_compile_settings(tenon_microkernel)
target_include_directories(tenon_microkernel PUBLIC ${dir}/..)

# One source for each level of vectors, chosen when the library is loaded. Always optimised: the
# kernels are of use only when their arrays live in registers. A multiplication and an addition may
# become one instruction: sums of products are promised by their error.
set(avx2 -mavx2 -mfma)
set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
foreach(level base avx2 avx512)
  set_property(SOURCE ${dir}/kernels_${level}.cpp PROPERTY COMPILE_OPTIONS
    -O3 -ffp-contract=fast -fno-trapping-math -fno-math-errno -Wno-psabi ${${level}})
endforeach()
