// The folder of models and recordings that is too large for the source tree; tests that read it are
// skipped where it is not there.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tenon {

/// `name` in the folder that TENON_SHARED names, or in shared/ beside the source tree.
inline std::filesystem::path shared_path(const std::string& name) {
  const char* named = std::getenv("TENON_SHARED");
  std::filesystem::path folder = named ? named : TENON_SOURCE_DIR "/../shared";
  return folder / name;
}

inline bool have_shared(const std::string& name) {
  return std::filesystem::exists(shared_path(name));
}

/// Skips the test where that is missing.
#define TENON_NEEDS_SHARED(name)                                      \
  if (!tenon::have_shared(name))                                      \
  GTEST_SKIP() << tenon::shared_path(name).string() << " is missing;" \
               << " set TENON_SHARED to the folder that holds " << (name)

}  // namespace tenon
