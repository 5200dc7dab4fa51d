// The linker of kernels: code that calls others and reads constants runs; no damage to an object
// makes it read or write outside of its bytes (the sanitizers see that), and names that are unknown
// are told.
#include <inductor_runtime/linked_code.h>

#include <inductor/jit.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>

#include <cmath>
#include <string>

namespace inductor {
namespace {

using tenon::plugin::error;
using ::testing::HasSubstr;

std::string object_of(const std::string& ir) {
  IrModule out;
  llvm::SMDiagnostic problem;
  out.module = llvm::parseAssemblyString(ir, problem, *out.context);
  EXPECT_TRUE(out.module) << problem.getMessage().str();
  return compile_to_object(std::move(out), 1);
}

// buffers[0][i] = sin(buffers[0][i]) + table[i], two constants in memory.
const char* const kernel = R"(
@table = private constant [2 x double] [double 0.5, double 0.25]
declare double @tenon_inductor_sin_f64(double)
define double @one(double %x, i64 %i) noinline {
  %s = call double @tenon_inductor_sin_f64(double %x)
  %at = getelementptr [2 x double], ptr @table, i64 0, i64 %i
  %c = load double, ptr %at
  %y = fadd double %s, %c
  ret double %y
}
define i32 @k_sum(ptr %buffers, ptr %symbols, i64 %begin, i64 %end, ptr %scratch) {
  %b = load ptr, ptr %buffers
  %p = getelementptr double, ptr %b, i64 %begin
  %x = load double, ptr %p
  %y = call double @one(double %x, i64 %begin)
  store double %y, ptr %p
  ret i32 0
}
)";

std::string refusal(std::vector<std::string> objects) {
  try {
    LinkedCode code(std::move(objects));
  } catch (const error& e) {
    EXPECT_EQ(e.code, TN_DATA_LOSS);
    return e.what();
  }
  return "";
}

TEST(LinkedCode, RunsWithCallsAndConstants) {
  LinkedCode code({object_of(kernel)});
  double values[2] = {1, 2};
  void* buffers[] = {values};
  KernelFunction run = code.find("k_sum");
  for (int64_t i : {0, 1}) EXPECT_EQ(run(buffers, nullptr, i, i + 1, nullptr), 0);
  EXPECT_EQ(values[0], std::sin(1.0) + 0.5);
  EXPECT_EQ(values[1], std::sin(2.0) + 0.25);
  EXPECT_FALSE(code.has("k_other"));
}

TEST(LinkedCode, ObjectsCallEachOther) {
  LinkedCode code({object_of("declare i32 @k_seven()\n"
                             "define i32 @k_call(ptr %a, ptr %b, i64 %c, i64 %d, ptr %e) {\n"
                             "  %x = call i32 @k_seven()\n  ret i32 %x\n}\n"),
                   object_of("define i32 @k_seven() {\n  ret i32 7\n}\n")});
  EXPECT_EQ(code.find("k_call")(nullptr, nullptr, 0, 0, nullptr), 7);
}

TEST(LinkedCode, AnUnknownFunctionIsNamed) {
  EXPECT_THAT(refusal({object_of("declare void @nobody()\n"
                                 "define void @k() {\n  call void @nobody()\n  ret void\n}\n")}),
              HasSubstr("it calls nobody, which is unknown here"));
}

TEST(LinkedCode, VariablesAreRefused) {
  EXPECT_THAT(refusal({object_of("@v = global i32 3\ndefine ptr @k() {\n  ret ptr @v\n}\n")}),
              HasSubstr("variables"));
}

TEST(LinkedCode, CutOffObjectsAreRefused) {
  std::string object = object_of(kernel);
  for (size_t size = 0; size < object.size(); ++size)
    EXPECT_NE(refusal({object.substr(0, size)}), "") << size << " of " << object.size();
}

TEST(LinkedCode, AnyDamagedObjectIsLinkedOrRefused) {
  std::string object = object_of(kernel);
  for (size_t at = 0; at < object.size(); ++at)
    for (char bits : {'\x01', '\x10', '\x80', '\xff'}) {
      std::string damaged = object;
      damaged[at] = static_cast<char>(damaged[at] ^ bits);
      refusal({damaged});  // neither a crash nor another status
    }
}

// What LLVM has no code for is an error, and the thread compiles on.
TEST(LinkedCode, WhatLlvmCannotDoIsAnError) {
  const char* const impossible = R"(
declare i32 @llvm.aarch64.neon.saddlv.i32.v8i8(<8 x i8>)
define i32 @k_impossible(<8 x i8> %x) {
  %y = call i32 @llvm.aarch64.neon.saddlv.i32.v8i8(<8 x i8> %x)
  ret i32 %y
}
)";
  for (int round = 0; round < 3; ++round) {
    try {
      object_of(impossible);
      FAIL() << "there is code";
    } catch (const error& why) {
      EXPECT_THAT(why.what(), HasSubstr("LLVM: "));
    }
    EXPECT_FALSE(object_of(kernel).empty());
  }
}

}  // namespace
}  // namespace inductor
