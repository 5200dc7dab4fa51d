// What tests of the inductor backend share: a fixture, and how its results and numbers are read.
#pragma once

#include <gtest/gtest.h>

#include "plugins/regions/support.h"
#include "unit/distance.h"

#include <tenon/tenon.h>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tenon {

class InductorTest : public testing::Test {
 protected:
  void SetUp() override { set_plugin_search({}, {TENON_PLUGIN_DIR}); }
};

inline nlohmann::json stats_of(const Artifact& artifact) {
  return nlohmann::json::parse(artifact.describe(TN_DESC_STATS_JSON));
}

/// Of a text with "$" where the dtype stands.
inline std::shared_ptr<Graph> graph_in(Dtype dtype, std::string body) {
  for (size_t at; (at = body.find('$')) != std::string::npos;)
    body.replace(at, 1, std::string(name_of(dtype)));
  return graph_of(body);
}

/// Results of an artifact less those of the interpreter, the largest of all.
inline double difference(const std::shared_ptr<Graph>& graph, Artifact& artifact,
                         const std::vector<Tensor>& inputs, const std::vector<int64_t>& syms = {}) {
  auto expected = run(*compiled("eager", graph), *graph, inputs, syms);
  auto found = run(artifact, *graph, inputs, syms);
  double most = 0;
  for (size_t i = 0; i < found.size(); ++i) most = std::max(most, distance(found[i], expected[i]));
  return most;
}

/// Two layers with an activation between them, such as "gelu".
inline std::string mlp(const std::string& activation) {
  return R"(
  input %x: f32[128, 64]
  input %w1: f32[64, 256] parameter static_address
  input %b1: f32[256] parameter static_address
  input %w2: f32[256, 64] parameter static_address
  input %b2: f32[64] parameter static_address
  %h: f32[128, 256] = aten.addmm.default(%b1, %x, %w1)
  %g: f32[128, 256] = aten.)" +
         activation + R"(.default(%h)
  %y: f32[128, 64] = aten.addmm.default(%b2, %g, %w2)
  output %y
)";
}
inline std::vector<Tensor> mlp_inputs(int64_t rows = 128) {
  return {randn({rows, 64}), randn({64, 256}), randn({256}), randn({256, 64}), randn({64})};
}

}  // namespace tenon
