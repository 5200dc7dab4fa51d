// Recordings that do not fit their op: refused by name, whatever they are checked on.
#include "debug/op_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace tenon {
namespace {

using ::testing::HasSubstr;

// The error of the only case of a recording of `op` with these arguments.
CaseResult checked(const std::string& op, std::string args) {
  for (size_t at = 0; (at = args.find('"', at)) != std::string::npos; at += 2)
    args.insert(at, "\\");
  std::string header = R"({"__metadata__": {"op": ")" + op + R"(", "cases": "[{\"args\": )" + args +
                       R"(, \"kwargs\": {}, \"out\": null}]"}})";
  std::string path =
      testing::TempDir() + "tenon_recording_" + std::to_string(::getpid()) + ".safetensors";
  auto length = static_cast<uint64_t>(header.size());
  std::ofstream(path, std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&length), 8) << header;
  std::vector<CaseResult> results = check_op_file(path, "eager", {});
  std::remove(path.c_str());
  EXPECT_EQ(results.size(), 1u);
  return results.at(0);
}

TEST(OpRecording, ArgumentsAreComparedWithTheSchemaFirst) {
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"aten.add.Tensor", "[null, null]", "argument self of aten.add.Tensor is missing or null"},
      {"aten.add.Tensor", "[]", "argument self of aten.add.Tensor is missing or null"},
      {"aten.add.Tensor", "[1.5]", "argument other of aten.add.Tensor is missing or null"},
      {"aten.cat.default", "[[1.5, null]]", "argument tensors of aten.cat.default"},
      {"aten.mul.Scalar", "[1.5, null]", "argument other of aten.mul.Scalar is missing or null"},
      {"aten.mul.Scalar", "[1.5, [2]]", ""},
      {"aten.relu.default", "[1.5, 2, 3]", "3 arguments are recorded, aten.relu.default takes 1"},
  };
  for (const auto& [op, args, expected] : cases) {
    CaseResult result = checked(op, args);
    EXPECT_EQ(result.code, ErrorCode::bad_file) << op << args << result.error;
    EXPECT_THAT(result.error, HasSubstr(expected));
  }
}

}  // namespace
}  // namespace tenon
