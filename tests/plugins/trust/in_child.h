// Tests of plugins in child processes: a folder of plugins, a log of what they do, and how a child
// ended.
#pragma once

#include "backend/backend.h"
#include "backend/catalog.h"
#include "config/config.h"
#include "graph/text/parse.h"
#include "report/log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tenon/ops.h>
#include <tenon/plugins.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tenon::test {

namespace fs = std::filesystem;

inline std::shared_ptr<Artifact> compiled(const std::string& backend) {
  CompileRequest request;
  request.graph = parse_graph(R"(tng 1
graph @f {
  input %x: f32[3]
  %y: f32[3] = aten.add.Tensor(%x, %x)
  output %y
}
)");
  request.stage = Stage::inference;
  request.compile_id = "0/0";
  return compile_with_backend(backend, request);
}

/// Twice [1, 1, 1], computed by the artifact.
inline Tensor twice(Artifact& artifact) {
  Tensor x = make_tensor(IntList{std::vector<int64_t>{3}}, Dtype::f32);
  for (int i = 0; i < 3; ++i) x.data_ptr<float>()[i] = 1;
  detail::TensorHead* inputs[] = {x.head()};
  std::vector<Tensor> outputs(1);
  artifact.call(inputs, {}, outputs);
  return outputs[0];
}

inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

class InChild : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tenon_plugins_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
    fs::create_directory(root_ + "/p");
    ::setenv("LIFE_LOG", (root_ + "/log").c_str(), 1);
    ::setenv("TENON_CACHE_DIR", (root_ + "/cache").c_str(), 1);
    ::unsetenv("LIFE_DO");
  }
  void TearDown() override { fs::remove_all(root_); }

  /// Copies a built plugin into the folder that children search; returns its path.
  std::string put(const std::string& plugin, const std::string& as = "") const {
    std::string file = "tenon_" + plugin + ".so";
    std::string to = root_ + "/p/" + (as.empty() ? file : as);
    std::string aside = root_ + "/aside";  // never over a file that may be mapped
    fs::copy_file(fs::path(TENON_TEST_PLUGIN_DIR) / file, aside);
    fs::rename(aside, to);
    return to;
  }
  /// Runs `f` in a child, which ends as a program does. Returns its exit status, or 1000 and the
  /// number of the signal that ended it.
  template <class F>
  int run(F f, const std::string& told = "") {
    if (!told.empty()) ::setenv("LIFE_DO", told.c_str(), 1);
    std::fflush(nullptr);  // else the child writes it once more
    child_ = ::fork();
    if (child_ == 0) {
      set_plugin_search({}, {root_ + "/p"});
      f();
      std::exit(testing::Test::HasFailure() ? 99 : 0);
    }
    ::unsetenv("LIFE_DO");
    int status = 0;
    ::waitpid(child_, &status, 0);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  /// What the plugins wrote down, line by line.
  std::vector<std::string> log() const {
    std::vector<std::string> out;
    std::ifstream in(root_ + "/log");
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
  }
  static PluginInfo plugin(const std::string& name) {
    for (const PluginInfo& p : plugins())
      if (p.name == name) return p;
    return {};
  }

  std::string root_;
  pid_t child_ = 0;
};

using Lines = std::vector<std::string>;

}  // namespace tenon::test
