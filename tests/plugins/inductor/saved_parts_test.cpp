// Graphs that were compiled in parts, as data and back: each part is code again.
#include "plugins/inductor/graphs.h"
#include "saved/saved_artifact.h"
#include "unit/message_of.h"

#include <gmock/gmock.h>

#include <bit>
#include <random>

namespace tenon {
namespace {

using testing::HasSubstr;

/// What a file has of an artifact.
struct File {
  explicit File(const Artifact& artifact) {
    ArtifactWriter writer(sections);
    plan = formats::Json(formats::Json::Object{{"artifact", writer.add(artifact.save())},
                                               {"constants", writer.constants()}})
               .dump();
  }
  std::shared_ptr<Artifact> load(size_t n_inputs, size_t n_outputs = 2) const {
    formats::JsonDocument read = formats::parse_json(formats::as_byte_span(plan), "plan");
    auto section = [&](const std::string& name) {
      for (const auto& [known, bytes] : sections.list())
        if (known == name) return formats::Bytes{bytes, nullptr};
      throw UserError(ErrorCode::bad_file, "no section " + name);
    };
    ArtifactReader reader(section, read.view().field("constants"));
    return load_artifact(reader.read(read.view().field("artifact")), n_inputs, n_outputs, "a file");
  }

  Sections sections;
  std::string plan;
};

class InductorSavedParts : public InductorTest {};

constexpr const char* in_pieces = R"(
  symbol u0 size_like in [0, 12] from size(%i, 0)
  input %m: bool[12]
  input %x: f32[12, 40]
  input %w: f32[40, 24]
  %y: f32[12, 40] = aten.sin.default(%x)
  %i: i64[u0, 1] = aten.nonzero.default(%m)
  %j: i64[u0] = aten.select.int(%i, 1, 0)
  %r: f32[u0, 40] = aten.index.Tensor(%y, [%j])
  %p: f32[u0, 24] = aten.mm.default(%r, %w)
  output %p, %y
)";

TEST_F(InductorSavedParts, PiecesAreCodeAgain) {
  auto graph = graph_of(in_pieces);
  auto artifact = compiled("inductor", graph);
  auto again = File(*artifact).load(3);
  EXPECT_EQ(stats_of(*again)["kernels"], stats_of(*artifact)["kernels"]);
  EXPECT_EQ(stats_of(*again)["regions"], 1);
  for (int64_t rows : {5, 0, 12}) {
    std::vector<Tensor> inputs{arange(12).lt(rows), randn({12, 40}), randn({40, 24})};
    EXPECT_LE(difference(graph, *again, inputs, {0}), 1e-4) << rows;
  }
}

// The host makes these views, whose memory is that of a buffer that code wrote.
TEST_F(InductorSavedParts, ViewsOfComplexNumbersAreReadAgain) {
  auto graph = graph_of(R"(
  input %x: f32[6, 2]
  %s: f32[6, 2] = aten.sin.default(%x)
  %c: c64[6] = aten.view_as_complex.default(%s)
  %r: f32[6, 2] = aten.view_as_real.default(%c)
  %y: f32[6, 2] = aten.exp.default(%r)
  %z: f32[6, 2] = aten.cos.default(%y)
  output %y, %z
)");
  auto again = File(*compiled("inductor", graph)).load(1);
  EXPECT_LE(difference(graph, *again, {randn({6, 2})}, {}), 1e-5);
}

TEST_F(InductorSavedParts, RealNumbersAreComputedAgain) {
  auto graph = graph_of(R"(
  symbol s0 in [1, 100] hint 4 from size(%x, 0)
  symbol a float hint 2.0 from %p
  input %x: f32[s0, 5]
  input %p: float a
  %y: f32[s0, 5] = aten.mul.Scalar(%x, 2.0*a + float(s0))
  %z: f32[s0, 5], %m: f32[s0, 1], %r: f32[s0, 1] = aten.native_layer_norm.default(%y, [5], none, none, a)
  output %z, %y
)");
  auto again = File(*compiled("inductor", graph)).load(2);
  for (double a : {0.5, 3.0})
    EXPECT_LE(difference(graph, *again, {randn({7, 5}), {}}, {7, std::bit_cast<int64_t>(a)}), 1e-5);
}

TEST_F(InductorSavedParts, BodiesAreCodeAgain) {
  auto graph = graph_of(R"(
  graph @inner {
    input %a: f32[64]
    %s: f32[64] = aten.sin.default(%a)
    %r: f32[64] = aten.mul.Scalar(%s, 2)
    output %r
  }
  graph @then {
    graph @twice {
      input %b: f32[8]
      %e: f32[8] = aten.exp.default(%b)
      %r: f32[8] = aten.mul.Scalar(%e, 2)
      output %r
    }
    input %a: f32[64]
    %v: f32[8, 8] = aten.view.default(%a, [8, 8])
    %q: f32[8, 8] = higher_order.map.default(@twice, [%v], [])
    %c: f32[64] = aten.view.default(%q, [64])
    output %c
  }
  input %p: bool[]
  input %x: f32[64]
  %y: f32[64] = higher_order.cond.default(%p, @inner, @then, [%x])
  %z: f32[64] = aten.cos.default(%y)
  output %z
)");
  auto artifact = compiled("inductor", graph);
  auto again = File(*artifact).load(2, 1);
  EXPECT_EQ(stats_of(*again)["kernels"], stats_of(*artifact)["kernels"]);
  for (bool which : {true, false})
    EXPECT_LE(difference(graph, *again, {full({}, which, Dtype::bool_), randn({64})}), 1e-5);
}

TEST_F(InductorSavedParts, NodesThatCannotRunAreRefused) {
  File file(*compiled("inductor", graph_of(in_pieces)));
  auto refusal = [&](const std::string& from, const std::string& to) {
    File damaged = file;
    size_t at = damaged.plan.find(from);
    EXPECT_NE(at, std::string::npos) << damaged.plan;
    damaged.plan.replace(at, from.size(), to);
    return message_of([&] { damaged.load(3); });
  };
  EXPECT_THAT(refusal("\"nodes\":[1]", "\"nodes\":[4]"), HasSubstr("node 4"));
  EXPECT_THAT(refusal("\"nodes\":[1]", "\"nodes\":[]"), HasSubstr("node"));
  EXPECT_THAT(refusal("\"nodes\":[1]", "\"nodes\":[99]"), HasSubstr("node 99"));
  EXPECT_THAT(refusal("\"nodes\":[1]", "\"nodes\":[-1]"), HasSubstr("found -1"));
}

// Whatever a plan says, loading it ends in an error or in an artifact.
TEST_F(InductorSavedParts, MutatedPlansAreReadWithoutCrash) {
  File file(*compiled("inductor", graph_of(in_pieces)));
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    File damaged = file;
    for (uint32_t k = 0; k <= random() % 3; ++k)
      damaged.plan[random() % damaged.plan.size()] = "0123456789[]{},:\"x"[random() % 18];
    message_of([&] { damaged.load(3); });
  }
}

}  // namespace
}  // namespace tenon
