// Files in /proc.
#include "cli/bench/process_memory.h"

#include <cstdlib>
#include <fstream>

namespace tenon::cli {

std::string proc_value(const char* file, std::string_view name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    size_t at = line.find_first_not_of(" \t:", name.size());
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }
uint64_t peak_memory() {
  return std::strtoull(proc_value("/proc/self/status", "VmHWM").c_str(), nullptr, 10) * 1024;
}

}  // namespace tenon::cli
