# Every file that users and plugin authors get begins with the line that names its licence.
#
#   cmake "-DFOLDERS=host/include|plugin-api" -P check_spdx.cmake
#
# Looks at sources, headers and CMake files in the folders and below; prints the files without it.
string(REPLACE "|" ";" FOLDERS "${FOLDERS}")
set(missing)
set(count 0)
foreach(folder IN LISTS FOLDERS)
  file(GLOB_RECURSE files ${folder}/*.h ${folder}/*.hpp ${folder}/*.inc ${folder}/*.c
    ${folder}/*.cpp ${folder}/*.cmake ${folder}/*.cmake.in ${folder}/CMakeLists.txt)
  foreach(path IN LISTS files)
    math(EXPR count "${count} + 1")
    file(STRINGS ${path} lines LIMIT_COUNT 1)
    if(NOT lines MATCHES "SPDX-License-Identifier: Apache-2\\.0")
      list(APPEND missing ${path})
    endif()
  endforeach()
endforeach()
list(LENGTH missing n_missing)
list(JOIN missing "\n  " missing)
if(count EQUAL 0 OR n_missing GREATER 0)
  message(FATAL_ERROR "${count} files, ${n_missing} do not begin with the line\n"
    "  SPDX-License-Identifier: Apache-2.0\nas a comment; add it to\n  ${missing}")
endif()
message(STATUS "${count} files")
