// Broken plugins for tests: where they are, what is said about them, and whether the rest works.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "backend/catalog.h"
#include "core/tensor/tensor_impl.h"
#include "graph/text/parse.h"

#include <tenon/compile.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace tenon::test {

inline std::string fault_file(const std::string& name) {
  return std::string(TENON_FAULT_DIR) + "/tenon_fault_" + name + ".so";
}

/// `text` with each `from` replaced by `to`.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// The text with {dir} for the folder of the fixtures and {machine} for ours, without the nearest
/// names, which depend on what is installed.
inline std::string portable(std::string text) {
  text = text.substr(0, text.find("; the nearest are "));
#if defined(__aarch64__)
  text = replaced(text, "aarch64", "{machine}");
#else
  text = replaced(text, "x86-64", "{machine}");
#endif
  return replaced(text, TENON_FAULT_DIR, "{dir}");
}

/// What `f` throws.
inline std::string told_by(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return portable(e.what());
  }
  return "no error";
}

constexpr std::string_view doubled = R"(tng 1
graph @f {
  input %x: f32[4, 3]
  %y: f32[4, 3] = aten.add.Tensor(%x, %x)
  output %y
}
)";

inline std::shared_ptr<Artifact> compiled(const std::string& backend,
                                          std::string_view graph = doubled) {
  CompileRequest request;
  request.graph = parse_graph(graph);
  request.stage = Stage::captured;
  request.grad_enabled = true;
  request.compile_id = "0/0";
  return compile_with_backend(backend, request);
}

inline Tensor called(Artifact& artifact, const Tensor& x) {
  detail::TensorHead* inputs[] = {x.head()};
  std::vector<Tensor> outputs(1);
  artifact.call(inputs, {}, outputs);
  return outputs[0];
}

inline Tensor ones_4_3() {
  Tensor x = make_tensor(IntList{std::vector<int64_t>{4, 3}}, Dtype::f32);
  std::fill_n(x.data_ptr<float>(), 12, 1.0f);
  return x;
}

inline std::string compile_error(const std::string& backend) {
  return told_by([&] { compiled(backend); });
}

/// Makes these fixtures known, besides the installed plugins.
inline void know(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) files.push_back(fault_file(name));
  set_plugin_search(files, {});
}

/// That the process goes on: another plugin compiles and runs, and all are listed.
inline void expect_the_rest_works() {
  std::vector<std::string> names = list_backends({});
  EXPECT_THAT(names, testing::Contains("aot_eager"));
  Tensor y = called(*compiled("aot_eager"), ones_4_3());
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(12, 2.0f));
}

inline void expect_works(const std::string& backend) {
  Tensor y = called(*compiled(backend), ones_4_3());
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(12, 2.0f)) << backend;
}

/// "broken P11": what the listing says of a file.
inline std::string listed_as(const std::string& name) {
  std::string state;
  for (const BackendInfo& b : all_backends())
    if (b.file == fault_file(name)) state = b.state;
  for (const RefusedPlugin& r : refused_plugins())
    if (r.file == fault_file(name)) state += (state.empty() ? "" : " ") + r.code;
  return state;
}

}  // namespace tenon::test
