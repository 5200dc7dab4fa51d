# What was recorded of PyTorch (tests/recordings), unpacked into <build>/recordings: by the target
# `recordings`, and for the tests while CMake runs, since they list the folders. TENON_SHARED and
# TENON_REFERENCE in the environment name other folders, as tests/folders.h says.
set(TENON_RECORDINGS ${PROJECT_BINARY_DIR}/recordings)
set(unpack_recordings ${CMAKE_COMMAND} -DFROM=${PROJECT_SOURCE_DIR}/tests/recordings
  -DTO=${TENON_RECORDINGS} -P ${PROJECT_SOURCE_DIR}/cmake/unpack_recordings.cmake)
add_custom_target(recordings COMMAND ${unpack_recordings} VERBATIM)

if(TENON_BUILD_TESTS)
  file(GLOB archives CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/recordings/*.tar.xz)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${archives})
  execute_process(COMMAND ${unpack_recordings} COMMAND_ERROR_IS_FATAL ANY)
endif()

set(TENON_SHARED_FOLDER ${TENON_RECORDINGS})
if(DEFINED ENV{TENON_SHARED})
  set(TENON_SHARED_FOLDER $ENV{TENON_SHARED})
endif()
set(TENON_REFERENCE_FOLDER ${TENON_SHARED_FOLDER}/reference)
if(DEFINED ENV{TENON_REFERENCE})
  set(TENON_REFERENCE_FOLDER $ENV{TENON_REFERENCE})
endif()
