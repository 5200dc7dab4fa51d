# Writes a C++ source that holds files as texts: OUTPUT, FUNCTION (declared in HEADER, in NAMESPACE),
# BASE (the folder that their paths are relative to), FILES separated by '|'.
cmake_minimum_required(VERSION 3.25)
string(REPLACE "|" ";" FILES "${FILES}")
set(rows "")
foreach(file IN LISTS FILES)
  file(READ "${file}" text)
  file(RELATIVE_PATH path "${BASE}" "${file}")
  string(APPEND rows "    {\"${path}\", R\"embedded(${text})embedded\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Written by cmake/embed_files.cmake.
#include \"${HEADER}\"

namespace ${NAMESPACE} {

static constexpr EmbeddedFile ${FUNCTION}_table[] = {
${rows}};

std::span<const EmbeddedFile> ${FUNCTION}() { return ${FUNCTION}_table; }

}  // namespace ${NAMESPACE}
")
