# Runs a model: the status must be 0, or 5 with the name of a higher-order op in the message.
execute_process(COMMAND ${TENON} run ${MODEL} --backend eager RESULT_VARIABLE status
                OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0)
  return()
endif()
if(NOT status EQUAL 5 OR NOT output MATCHES "higher_order\\.[a-z_]+ \\([0-9]+ time")
  message(FATAL_ERROR "expected status 0, or 5 and the missing ops, found ${status}:\n${output}")
endif()
