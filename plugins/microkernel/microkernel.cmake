# tenon_microkernel: blocked products, convolutions and attention, a static library in each plugin
# that uses them.
include_guard(GLOBAL)
set(dir ${CMAKE_CURRENT_LIST_DIR})
set(sources attention direct kernels kernels_avx2 kernels_avx512 kernels_base product products_bf16 windows
  winograd)
list(TRANSFORM sources REPLACE "(.+)" "${dir}/\\1.cpp")
add_library(tenon_microkernel STATIC ${sources})
tenon_plugin_compile_settings(tenon_microkernel)
target_include_directories(tenon_microkernel PUBLIC ${dir}/..)

# One source for each level of vectors, chosen when the library is loaded. Always optimised: the
# kernels are of use only when their arrays live in registers. A multiplication and an addition may
# become one instruction: sums of products are promised by their error.
set(kernels_base)
set(kernels_avx2 -mavx2 -mfma)
set(kernels_avx512 ${kernels_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
  -mprefer-vector-width=512)
set(products_bf16 ${kernels_avx512} -mavx512bf16)
foreach(source kernels_base kernels_avx2 kernels_avx512 products_bf16)
  set_property(SOURCE ${dir}/${source}.cpp PROPERTY COMPILE_OPTIONS
    -O3 -ffp-contract=fast -fno-trapping-math -fno-math-errno -Wno-psabi ${${source}})
endforeach()
