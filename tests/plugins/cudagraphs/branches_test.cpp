// Launches of a recording that run at once: which do, that each waits for what it needs, and that
// none of them has memory that another one still uses.
#include "graphs.h"

#include "backend/backend.h"
#include "graph/artifact.h"
#include "graph/text/parse.h"

#include <tenon/plugin.h>

#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <random>

namespace tenon::graphs {
namespace {

class Branches : public Graphs {
 protected:
  void TearDown() override {
    if (is_double()) seed_streams(1);
  }
};

/// What inductor tells of a graph, recorded on at most so many branches.
nlohmann::json told_of(const std::string& body, int most) {
  CompileRequest request;
  request.graph =
      parse_graph("tng 1\ngraph @f {\n  input %x: f32[128, 128] on cuda:0\n" + body + "}\n");
  request.stage = Stage::inference;
  request.compile_id = "0/1";
  request.options_toml = "cudagraphs = true\ncuda_branches = " + std::to_string(most);
  std::shared_ptr<Artifact> code = compile_with_backend("inductor", request);
  return nlohmann::json::parse(code->describe(TN_DESC_STATS_JSON));
}

std::string product(const std::string& result, const std::string& a, const std::string& b) {
  return "  %" + result + ": f32[128, 128] on cuda:0 = aten.mm.default(%" + a + ", %" + b + ")\n";
}

TEST_F(Branches, AreAsManyAsThereIsToDoAtOnce) {
  std::string chain = product("a", "x", "x") + product("b", "a", "x") + product("c", "b", "a");
  EXPECT_EQ(told_of(chain + "  output %c\n", 4)["branches"], 1);
  std::string fork = product("a", "x", "x") + product("b", "a", "x") + product("c", "x", "a") +
                     product("d", "a", "a");
  EXPECT_EQ(told_of(fork + "  output %b, %c, %d\n", 4)["branches"], 3);
  EXPECT_EQ(told_of(fork + "  output %b, %c, %d\n", 2)["branches"], 2);
  EXPECT_EQ(told_of(fork + "  output %b, %c, %d\n", 1)["branches"], 1);
}

// What is read by two and what lives across branches keeps its memory.
TEST_F(Branches, NeedMemoryOfTheirOwn) {
  std::string fork;
  for (const char* branch : {"a", "b"}) {
    std::string last = "x";
    for (int i = 0; i < 4; ++i) {
      std::string next = branch + std::to_string(i);
      fork += product(next, last, branch[0] == 'a' ? "x" : last);
      last = next;
    }
  }
  fork += product("y", "a3", "b3") + "  output %y\n";
  nlohmann::json one = told_of(fork, 1), two = told_of(fork, 4);
  EXPECT_EQ(two["branches"], 2);
  EXPECT_GT(two["planned_bytes"], one["planned_bytes"]);
  EXPECT_LE(two["planned_bytes"], two["naive_bytes"]);
}

// ---- random graphs

constexpr int64_t n = 64;

/// Products and kernels over earlier values, some of which come out.
struct Program {
  struct Step {
    uint32_t op, a, b;
  };
  std::vector<Step> steps;
  size_t n_results;

  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
    std::vector<Tensor> values = inputs;
    for (const Step& s : steps) {
      const Tensor &a = values[s.a % values.size()], &b = values[s.b % values.size()];
      switch (s.op % 6) {
        case 0:
          values.push_back(a.sum({1}, true) * (1.0 / n) + b);
          break;
        case 1:
          values.push_back((a.t().contiguous() - b) * 0.5);
          break;
        default:
          values.push_back((a.matmul(b) * (1.0 / n)).tanh());
      }
    }
    return {values.end() - static_cast<long>(n_results), values.end()};
  }
};

Program random_program(uint64_t seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  Program out;
  // Few of the first values and many of the last ones: wide graphs that meet again.
  for (uint32_t i = 0; i < 14; ++i)
    out.steps.push_back({static_cast<uint32_t>(random()), static_cast<uint32_t>(random()),
                         static_cast<uint32_t>(random())});
  out.n_results = 1 + random() % 4;
  return out;
}

TEST_F(Branches, OfRandomGraphsGiveWhatTheCpuGivesInEachOrder) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    reset();
    Program program = random_program(seed);
    auto f = compile([&](const std::vector<Tensor>& in) { return program(in); },
                     fused({{"cuda_graph_poison", "true"}, {"skip_cudagraph_warmup", "true"}}));
    for (uint64_t order = 1; order <= 4; ++order) {
      if (is_double()) seed_streams(100 * seed + order);
      std::vector<Tensor> here{randn({n, n}), randn({n, n})};
      std::vector<Tensor> found = f(std::vector<Tensor>{there(here[0]), there(here[1])});
      std::vector<Tensor> expected = program(here);
      for (size_t i = 0; i < expected.size(); ++i)
        expect_equal(found[i], expected[i],
                     "program " + std::to_string(seed) + ", result " + std::to_string(i));
    }
    EXPECT_EQ(n_replays(), 3) << f.explain();
  }
}

}  // namespace
}  // namespace tenon::graphs
