// Sizes that depend on data: the host runs the op that finds one, and what is behind it is code
// that serves every size, none and one included.
#include "plugins/inductor/graphs.h"

namespace tenon {
namespace {

class InductorDataSizes : public InductorTest {
 protected:
  /// `body` after %i, the rows of %x where %m is true; compared with the interpreter for several
  /// numbers of rows. The kernels that there are.
  static int kernels_of(const std::string& body) {
    auto graph = graph_of(
        "  symbol u0 size_like in [0, 12] from size(%i, 0)\n"
        "  input %m: bool[12]\n  input %x: f32[12, 40]\n  input %w: f32[40, 24]\n"
        "  %i: i64[u0, 1] = aten.nonzero.default(%m)\n"
        "  %j: i64[u0] = aten.select.int(%i, 1, 0)\n"
        "  %r: f32[u0, 40] = aten.index.Tensor(%x, [%j])\n" +
        body);
    auto artifact = compiled("inductor", graph);
    for (int64_t rows : {5, 0, 1, 12, 2}) {
      std::vector<Tensor> inputs{arange(12).lt(rows), randn({12, 40}), randn({40, 24})};
      EXPECT_LE(difference(graph, *artifact, inputs, {0}), 1e-4) << rows << body;
    }
    return stats_of(*artifact)["kernels"];
  }
};

TEST_F(InductorDataSizes, PointwiseOpsAreOneKernel) {
  EXPECT_EQ(kernels_of("  %s: f32[u0, 40] = aten.sin.default(%r)\n"
                       "  %t: f32[u0, 40] = aten.mul.Tensor(%s, %r)\n  output %t\n"),
            1);
}

TEST_F(InductorDataSizes, RowsAreFolded) {
  EXPECT_EQ(kernels_of("  %s: f32[u0, 40] = aten._softmax.default(%r, -1, false)\n"
                       "  output %s\n"),
            1);
  EXPECT_EQ(kernels_of("  %s: f32[u0] = aten.amax.default(%r, [1])\n  output %s\n"), 1);
}

TEST_F(InductorDataSizes, SumsOfNoRowsAreNothing) {
  EXPECT_EQ(kernels_of("  %s: f32[40] = aten.sum.dim_IntList(%r, [0])\n"
                       "  %t: f32[40] = aten.add.Scalar(%s, 1)\n  output %t\n"),
            1);
  EXPECT_EQ(kernels_of("  %s: f32[] = aten.sum.default(%r)\n  output %s\n"), 1);
}

TEST_F(InductorDataSizes, ProductsAndJoinedRows) {
  EXPECT_EQ(kernels_of("  %p: f32[u0, 24] = aten.mm.default(%r, %w)\n"
                       "  %q: f32[u0, 24] = aten.relu.default(%p)\n"
                       "  %c: f32[2*u0, 24] = aten.cat.default([%q, %p])\n  output %c\n"),
            3);  // the rows, and both halves
  kernels_of(
      "  %t: f32[40, u0] = aten.permute.default(%r, [1, 0])\n"
      "  %p: f32[40, 40] = aten.mm.default(%t, %r)\n  output %p\n");
}

TEST_F(InductorDataSizes, RowsAreScatteredBack) {
  kernels_of(
      "  %z: f32[12, 40] = aten.full.default([12, 40], 0.0)\n"
      "  %p: f32[12, 40] = aten.index_put.default(%z, [%j], %r, true)\n  output %p\n");
}

}  // namespace
}  // namespace tenon
