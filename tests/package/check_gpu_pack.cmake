# Checks that a machine with nothing but glibc can run what is packed for GPUs: every library that a
# file in it needs is in it.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --component gpu_tests --prefix ${WORK}
  --strip RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "the component gpu_tests cannot be installed:\n${out}")
endif()

set(of_the_system libc.so.6 libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0 ld-linux-x86-64.so.2)
file(GLOB programs ${WORK}/bin/*)
file(GLOB libraries ${WORK}/${LIBDIR}/*.so* ${WORK}/${LIBDIR}/tenon/plugins/*.so)
set(there)
foreach(library IN LISTS libraries)
  get_filename_component(name ${library} NAME)
  list(APPEND there ${name})
endforeach()
foreach(file IN LISTS programs libraries)
  execute_process(COMMAND ${READELF} -d ${file} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "NEEDED[^[]*\\[[^]]*" needed "${dynamic}")
  foreach(entry IN LISTS needed)
    string(REGEX REPLACE ".*\\[" "" name "${entry}")
    if(NOT name IN_LIST there AND NOT name IN_LIST of_the_system)
      message(SEND_ERROR "${file} needs ${name}, which is not packed")
    endif()
  endforeach()
endforeach()

foreach(expected bin/tenon bin/gpu_tests bin/gpu_graph_tests bin/gpu models/mlp_digits.pt2
        run_gpu_tests ${LIBDIR}/tenon/plugins/tenon_cuda.so
        ${LIBDIR}/tenon/plugins/tenon_inductor_cuda.so ${LIBDIR}/tenon/plugins/tenon_eager.so)
  if(NOT EXISTS ${WORK}/${expected})
    message(SEND_ERROR "${expected} is not packed")
  endif()
endforeach()
# The program that was carried finds the plugins that were carried, with the libraries beside them.
set(ENV{LD_LIBRARY_PATH} ${WORK}/${LIBDIR})
execute_process(COMMAND ${WORK}/bin/tenon backends --all --json OUTPUT_VARIABLE out
  COMMAND_ERROR_IS_FATAL ANY)
string(FIND "${out}" "${WORK}/${LIBDIR}/tenon/plugins/tenon_inductor_cuda.so" at)
if(at EQUAL -1)
  message(SEND_ERROR "the packed program does not find the packed plugins:\n${out}")
endif()
file(REMOVE_RECURSE ${WORK})
