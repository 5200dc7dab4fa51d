// draw_graph, graph_dumper and explain: what they write, where, and under which names.
#include "backend/backend.h"
#include "backend/catalog.h"
#include "config/config.h"
#include "graph/text/parse.h"
#include "report/log.h"
#include "unit/message_of.h"

#include <tenon/functorch.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

namespace tenon {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view turned_sum = R"(tng 1
graph @f {
  symbol s0 in [2, 64] hint 4 from size(%x, 0)
  input %x: f32[s0, 3]
  input %w: f32[3, 2] strides [1, 3]
  %y: f32[s0, 2] = aten.mm.default(%x, %w)
  %a: f32[s0, 2] = aten.add.Tensor(%y, %y)
  %r: f32[s0, 2] = aten.add.Tensor(%a, %y)
  output %r
}
)";

constexpr std::string_view nothing = "tng 1\ngraph @f {\n  input %x: f32[2]\n  output %x\n}\n";

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class GraphTools : public testing::Test {
 protected:
  void SetUp() override {
    set_plugin_search({}, {});
    std::string pattern = (fs::temp_directory_path() / "tenon_graph_tools_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void compile_text(const std::string& backend, std::string_view text,
                           const std::string& options, const std::string& id = "0/0") {
    CompileRequest request;
    request.graph = parse_graph(text);
    request.stage = Stage::inference;
    request.compile_id = id;
    request.options_toml = options;
    compile_with_backend(backend, request);
  }
  /// The names of what lies in the folder below, sorted.
  std::vector<std::string> names_in(const std::string& below = "") const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / below))
      names.insert(entry.path().filename().string());
    return {names.begin(), names.end()};
  }
  void draw(const std::string& name, const std::string& more = "") const {
    compile_text("draw_graph", turned_sum, "name = \"" + (folder_ / name).string() + "\"\n" + more);
  }

  fs::path folder_;
};

// ---- draw_graph

TEST_F(GraphTools, EachDrawingHasANameOfItsOwn) {
  for (int i = 0; i < 3; ++i) draw("g.dot");
  draw("g.svg");
  EXPECT_THAT(names_in(), ElementsAre("g.dot", "g.svg", "g_1.dot", "g_2.dot"));
  EXPECT_THAT(content_of(folder_ / "g_2.dot"), HasSubstr("digraph"));
  EXPECT_THAT(content_of(folder_ / "g.svg"), StartsWith("<svg "));
}

TEST_F(GraphTools, WithoutAnExtensionTheFlagSaysTheFormat) {
  auto scope = config::patch({{"functorch.torch_compile_graph_format", "raw"}});
  draw("plain");
  EXPECT_THAT(names_in(), ElementsAre("plain.raw"));
  EXPECT_THAT(content_of(folder_ / "plain.raw"), HasSubstr("digraph"));
}

TEST_F(GraphTools, ClearMetaLeavesOpsAndEdges) {
  draw("all.dot");
  draw("all.svg");
  draw("ops.dot", "clear_meta = true\n");
  draw("ops.svg", "clear_meta = true\n");
  EXPECT_THAT(content_of(folder_ / "all.dot"), HasSubstr("f32[s0, 2]"));
  EXPECT_THAT(content_of(folder_ / "all.svg"), HasSubstr("[s0, 2]"));
  for (const char* name : {"ops.dot", "ops.svg"}) {
    std::string text = content_of(folder_ / name);
    EXPECT_THAT(text, HasSubstr("aten.mm.default")) << name;
    EXPECT_THAT(text, Not(HasSubstr("s0"))) << name;
  }
  EXPECT_THAT(content_of(folder_ / "ops.dot"), HasSubstr(" -> "));
}

// The graph as DOT stays, for whoever has the program elsewhere.
TEST_F(GraphTools, OtherFormatsNeedGraphviz) {
  std::string before = std::getenv("PATH");
  setenv("PATH", folder_.c_str(), 1);
  std::string told = message_of<Error>([&] { draw("g.png"); });
  setenv("PATH", before.c_str(), 1);
  EXPECT_THAT(told, HasSubstr("the program `dot` of Graphviz is not there"));
  EXPECT_THAT(told, HasSubstr("svg, dot and raw need no other program"));
  EXPECT_THAT(names_in(), ElementsAre("g.png.dot"));
}

TEST_F(GraphTools, ADrawingNeedsAPlace) {
  EXPECT_THAT(message_of<Error>([] { compile_text("draw_graph", turned_sum, "name = \"\"\n"); }),
              HasSubstr("the option name is empty"));
  std::ofstream(folder_ / "file") << "in the way";
  EXPECT_THAT(message_of<Error>([&] { draw("file/g.svg"); }), HasSubstr("cannot be written"));
}

// ---- graph_dumper

TEST_F(GraphTools, InputsAreListedWithSizesAndStrides) {
  compile_text("graph_dumper", turned_sum, "dir = \"" + folder_.string() + "\"\nname = \"sum\"\n");
  ASSERT_EQ(names_in("sum").size(), 1u);
  std::string own = names_in("sum")[0];
  EXPECT_THAT(own, MatchesRegex("sum_forward_[0-9]+"));
  EXPECT_EQ(content_of(folder_ / "sum" / own / (own + ".input")),
            "x f32 [4, 3] strides [3, 1]\nw f32 [3, 2] strides [1, 3]\n");
  EXPECT_THAT(names_in("sum/" + own), ElementsAre("command.sh", "graph.tng", own + ".input"));
}

TEST_F(GraphTools, AnEmptyGraphIsAWarningAndNoFolder) {
  report::LogCapture log;
  compile_text("graph_dumper", nothing, "dir = \"" + folder_.string() + "\"\nname = \"none\"\n");
  EXPECT_EQ(log.count("graph 0/0 of none is empty: nothing is written"), 1u);
  EXPECT_THAT(names_in(), ElementsAre());
}

/// By the number at the end of their names, which kinds of graphs there are.
std::map<int, std::set<std::string>> kinds_by_number(const std::vector<std::string>& names) {
  std::map<int, std::set<std::string>> out;
  for (const std::string& name : names) {
    size_t number = name.rfind('_'), kind = name.rfind('_', number - 1);
    out[std::stoi(name.substr(number + 1))].insert(name.substr(kind + 1, number - kind - 1));
  }
  return out;
}

// Of four callables the third has no backward.
TEST_F(GraphTools, TheNumberGrowsAfterEachBackward) {
  std::string dumper = functorch::graph_dumper_aot("body", folder_.string());
  for (int i = 0; i < 4; ++i) {
    auto f =
        aot_function([](const Tensor& x) { return (x.sin() * x).sum(); }, {.fw_compiler = dumper});
    Tensor x = ones({3});
    if (i == 2)
      f(x);
    else
      f(x.requires_grad_()).backward();
  }
  std::vector<std::set<std::string>> kinds;
  int before = -1;
  for (const auto& [number, found] : kinds_by_number(names_in("body"))) {
    EXPECT_TRUE(kinds.empty() || number == before + 1) << number << " after " << before;
    before = number;
    kinds.push_back(found);
  }
  std::set<std::string> halves{"backward", "forward", "joint"};
  EXPECT_THAT(kinds, ElementsAre(halves, halves, std::set<std::string>{"forward"}, halves));
}

TEST_F(GraphTools, ANameIsNoPath) {
  for (const char* name : {"", "..", "a/b"})
    EXPECT_THAT(message_of<Error>([&] {
                  compile_text("graph_dumper", turned_sum,
                               "dir = \"" + folder_.string() + "\"\nname = \"" + name + "\"\n");
                }),
                HasSubstr("expected a name without '/'"))
        << name;
}

// ---- print

TEST_F(GraphTools, PrintCompileShowsBothHalves) {
  auto f = aot_function([](const Tensor& x, const Tensor& w) { return relu(matmul(x, w)).sum(); },
                        {.fw_compiler = functorch::print_compile()});
  testing::internal::CaptureStdout();
  f(ones({2, 3}).requires_grad_(), ones({3, 4}).requires_grad_()).backward();
  std::string told = testing::internal::GetCapturedStdout();
  size_t forward = told.find("# forward graph "), backward = told.find("# backward graph ");
  ASSERT_NE(forward, told.npos) << told;
  ASSERT_NE(backward, told.npos) << told;
  EXPECT_LT(forward, backward);
  EXPECT_THAT(told.substr(forward, backward - forward), HasSubstr("aten.relu.default"));
  EXPECT_THAT(told.substr(backward), HasSubstr("tangent"));
}

// ---- explain

TEST_F(GraphTools, ExplainCountsOpsAndTellsOfSymbols) {
  testing::internal::CaptureStdout();
  compile_text("explain", turned_sum, "", "3/1");
  compile_text("explain", nothing, "", "4/0");
  std::string told = testing::internal::GetCapturedStdout();
  EXPECT_THAT(told, HasSubstr("(3/1): 3 ops, 2 inputs, 1 outputs\n  2 x aten.add.Tensor\n  1 x "
                              "aten.mm.default\n  s0 is x.size(0), 2 to 64\nso far: "));
  EXPECT_THAT(told, HasSubstr("(4/0): 0 ops, 1 inputs, 1 outputs\nso far: "));
}

TEST_F(GraphTools, ExplainGoesWhereItIsTold) {
  report::LogCapture log;
  auto scope = config::patch({{"logging.level", "info"}});
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  compile_text("explain", turned_sum, "to = \"stderr\"\n");
  std::string errors = testing::internal::GetCapturedStderr();
  compile_text("explain", turned_sum, "to = \"log\"\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(errors, HasSubstr("3 ops, 2 inputs"));
  EXPECT_EQ(log.count("3 ops, 2 inputs"), 1u);
}

}  // namespace
}  // namespace tenon
