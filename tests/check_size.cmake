# Fails when a library without its symbols is larger than a limit in bytes.
#     cmake -DSTRIP=strip -DFILE=libtenon.so -DLIMIT=10000000 -P check_size.cmake
string(RANDOM suffix)
set(stripped ${CMAKE_CURRENT_BINARY_DIR}/stripped_${suffix}.so)
execute_process(COMMAND ${STRIP} -o ${stripped} ${FILE} COMMAND_ERROR_IS_FATAL ANY)
file(SIZE ${stripped} bytes)
file(REMOVE ${stripped})
if(bytes GREATER LIMIT)
  message(FATAL_ERROR "${FILE}: expected at most ${LIMIT} bytes without symbols, found ${bytes}")
endif()
message(STATUS "${bytes} bytes of ${LIMIT}")
