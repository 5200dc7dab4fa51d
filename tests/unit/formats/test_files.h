// Real models for the tests of the file formats, and small helpers to make and damage files.
#pragma once

#include "folders.h"
#include "formats/byte_reader.h"
#include "formats/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tenon::formats::testing {

/// The files of the recorded models whose names end with `ending`, sorted.
inline std::vector<std::string> recorded_models(const std::string& ending) {
  std::string folder = shared_folder("models");
  std::vector<std::string> files = files_in(folder, ending);
  EXPECT_FALSE(files.empty()) << nothing_in(folder);
  return files;
}

inline Bytes own_bytes(std::string text) {
  auto owner = std::make_shared<std::string>(std::move(text));
  return {as_byte_span(*owner), owner};
}

/// The code and message of the UserError that `call` must throw.
struct Refusal {
  ErrorCode code;
  std::string message;
};
inline Refusal refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return {error.code(), error.what()};
  }
  ADD_FAILURE() << "expected a UserError, but nothing was thrown";
  return {ErrorCode::internal, ""};
}

/// `text` with its only occurrence of `from` replaced.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  if (at == text.npos || text.find(from, at + 1) != text.npos)
    ADD_FAILURE() << "expected one occurrence of: " << from;
  else
    text.replace(at, from.size(), to);
  return text;
}

/// Writes a number over the bytes at `offset`.
template <class T>
void patch(std::string& bytes, size_t offset, T value) {
  ASSERT_LE(offset + sizeof value, bytes.size());
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

}  // namespace tenon::formats::testing
