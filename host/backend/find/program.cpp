// Looking for the program beside the library.
#include "backend/find/program.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>

namespace tenon {

namespace fs = std::filesystem;

ProgramTenon program_tenon() {
  Dl_info info{};
  std::error_code error;
  fs::path host;
  if (::dladdr(reinterpret_cast<void*>(&program_tenon), &info) != 0 && info.dli_fname)
    host = fs::canonical(info.dli_fname, error);
  if (error || host.empty()) host = fs::read_symlink("/proc/self/exe", error);
  fs::path folder = host.parent_path();
  for (const fs::path& tried : {folder / "tenon", folder.parent_path() / "bin" / "tenon"})
    if (::access(tried.c_str(), X_OK) == 0 && fs::is_regular_file(tried, error))
      return {tried.string(), host.string()};
  return {"", host.string()};
}

}  // namespace tenon
