// Looking for the program beside the library.
#include "backend/find/program.h"

#include "core/own_file.h"

#include <unistd.h>

#include <filesystem>

namespace tenon {

namespace fs = std::filesystem;

ProgramTenon program_tenon() {
  std::error_code error;
  fs::path host = own_file();
  fs::path folder = host.parent_path();
  for (const fs::path& tried : {folder / "tenon", folder.parent_path() / "bin" / "tenon"})
    if (::access(tried.c_str(), X_OK) == 0 && fs::is_regular_file(tried, error))
      return {tried.string(), host.string()};
  return {"", host.string()};
}

}  // namespace tenon
