// The program `tenon` that belongs to this library.
#pragma once

#include <string>

namespace tenon {

struct ProgramTenon {
  std::string path;  ///< empty: there is none
  std::string host;  ///< the file that holds the host: beside it the program was looked for
};
/// build/bin/tenon or <prefix>/bin/tenon.
ProgramTenon program_tenon();

}  // namespace tenon
