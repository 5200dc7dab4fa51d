// Recordings that are JSON, for tests that take every file of a folder.
#pragma once

#include "folders.h"
#include "formats/json.h"

#include <gtest/gtest.h>

#include <cctype>
#include <string>

namespace tenon {

/// What a file holds. It is read once and stays.
formats::JsonView json_file(const std::string& path);

/// A parameter that is a path or a name, as the name of a test.
inline std::string test_name_of(const testing::TestParamInfo<std::string>& info) {
  size_t slash = info.param.rfind('/');
  std::string name = slash == std::string::npos ? info.param : info.param.substr(slash + 1);
  if (name.ends_with(".json")) name.resize(name.size() - 5);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

}  // namespace tenon
