# Runs `tenon plugin check FILE ARGUMENTS` (separated by '|') and judges how it ended and what it printed: STATUS, and
# LINE, a regular expression over the report, whose lines are joined.
cmake_minimum_required(VERSION 3.25)
string(REPLACE "|" ";" ARGUMENTS "${ARGUMENTS}")
execute_process(COMMAND ${TENON} plugin check ${FILE} ${ARGUMENTS}
  RESULT_VARIABLE status OUTPUT_VARIABLE report ERROR_VARIABLE messages)
string(REPLACE "\n" " " joined "${report}")
string(REGEX REPLACE " +" " " joined "${joined}")
if(NOT status EQUAL STATUS OR NOT joined MATCHES "${LINE}")
  message(FATAL_ERROR "expected status ${STATUS} and '${LINE}', found status ${status}:\n${report}${messages}")
endif()
