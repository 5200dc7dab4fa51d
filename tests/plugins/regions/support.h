// What the tests of graphs in pieces share: compiling and running graphs with the backends of the
// test plugin `regions`.
#pragma once

#include <gtest/gtest.h>

#include "backend/abi/extensions.h"
#include "backend/backend.h"
#include "backend/catalog.h"
#include "graph/artifact.h"
#include "plugins/regions/log.h"
#include "report/events.h"
#include "unit/graph/graph_of.h"

#include <tenon/tenon.h>

namespace tenon {

inline std::shared_ptr<Artifact> compiled(const std::string& backend, std::shared_ptr<Graph> graph,
                                          const std::string& options = "") {
  CompileRequest request;
  request.graph = std::move(graph);
  request.compile_id = "0/0";
  request.options_toml = options;
  return compile_with_backend(backend, request);
}

inline std::vector<Tensor> run(Artifact& artifact, const Graph& graph, std::vector<Tensor> inputs,
                               std::vector<int64_t> syms = {}) {
  std::vector<detail::TensorHead*> heads;
  for (Tensor& t : inputs) heads.push_back(t.release());
  std::vector<Tensor> outputs(graph.outputs().size());
  artifact.call(heads, syms, outputs, /*steal=*/true);
  for (detail::TensorHead* left : heads) EXPECT_EQ(left, nullptr);
  return outputs;
}

inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

class Regions : public testing::Test {
 protected:
  void SetUp() override {
    set_plugin_search({}, {TENON_TEST_PLUGIN_DIR});
    compiled("regions",
             graph_of("input %x: f32[2]\n%y: f32[2] = aten.relu.default(%x)\noutput %y\n"),
             "ops = ['*']");
    log_ = static_cast<const regions_log*>(find_extension("test.regions", 1));
    ASSERT_NE(log_, nullptr);
    log_->clear();
    report::reset_counters();
  }
  const regions_log* log_ = nullptr;
};

}  // namespace tenon
