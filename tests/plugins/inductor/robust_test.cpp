// The inductor backend over time: code that comes from the disk, damaged code there, and a process
// that compiles a thousand graphs.
#include <gtest/gtest.h>

#include "plugins/inductor/graphs.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tenon {
namespace {

namespace fs = std::filesystem;

class InductorRobust : public InductorTest {
 protected:
  /// A chain of pointwise ops that no other test has: the number is a part of the code.
  static std::shared_ptr<Graph> chain(double number) {
    std::string text = "  input %x: f32[64, 100]\n  %a: f32[64, 100] = aten.mul.Scalar(%x, " +
                       std::to_string(number) +
                       ")\n  %b: f32[64, 100] = aten.sin.default(%a)\n"
                       "  %c: f32[64] = aten.sum.dim_IntList(%b, [1])\n  output %c\n";
    return graph_of(text);
  }
  /// Compiles and calls it; whether its code came from the disk.
  static bool comes_from_disk(const std::shared_ptr<Graph>& graph,
                              const std::string& options = "") {
    auto artifact = compiled("inductor", graph, options);
    Tensor x = randn({64, 100});
    Tensor found = run(*artifact, *graph, {x})[0];
    Tensor expected = run(*compiled("eager", graph), *graph, {x})[0];
    EXPECT_LE(abs(found - expected).max().item<double>(), 1e-4);
    return stats_of(*artifact)["from_cache"];
  }

  /// Files of stored code.
  static std::vector<fs::path> stored() {
    std::vector<fs::path> out;
    fs::path folder = fs::path(std::getenv("TENON_CACHE_DIR")) / "kernels";
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) out.push_back(entry.path());
    return out;
  }
};

TEST_F(InductorRobust, CodeThatNobodyHoldsComesFromTheDisk) {
  auto graph = chain(1.5);
  EXPECT_FALSE(comes_from_disk(graph));
  EXPECT_TRUE(comes_from_disk(graph));
}

TEST_F(InductorRobust, CodeForAnotherProcessorIsAMiss) {
  auto graph = chain(2.5);
  EXPECT_FALSE(comes_from_disk(graph));
  EXPECT_FALSE(comes_from_disk(graph, "cpu = 'x86-64'"));
  EXPECT_FALSE(comes_from_disk(graph, "simdlen = 128"));
  EXPECT_TRUE(comes_from_disk(graph, "cpu = 'x86-64'"));
}

TEST_F(InductorRobust, DamagedCodeIsAMiss) {
  auto graph = chain(3.5);
  EXPECT_FALSE(comes_from_disk(graph));
  for (const fs::path& file : stored()) {
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(int64_t(fs::file_size(file) / 2));
    f << "damaged";
  }
  EXPECT_FALSE(comes_from_disk(graph));
  EXPECT_TRUE(comes_from_disk(graph));
  for (const fs::path& file : stored()) fs::resize_file(file, fs::file_size(file) / 3);
  EXPECT_FALSE(comes_from_disk(graph));
  for (const fs::path& file : stored()) std::ofstream(file, std::ios::trunc);
  EXPECT_FALSE(comes_from_disk(graph));
}

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

TEST_F(InductorRobust, CodeIsFreedWithItsArtifact) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  auto compile_some = [](int from, int to) {
    for (int i = from; i < to; ++i) {
      auto graph = chain(10 + i / 64.0);
      auto artifact = compiled("inductor", graph);
      ASSERT_EQ(stats_of(*artifact)["kernels"], 1);
      run(*artifact, *graph, {randn({64, 100})});
    }
  };
  compile_some(0, 200);  // what is made once and kept: LLVM's tables, caches of the host
  int64_t before = resident_bytes();
  compile_some(200, 1000);
  // Code and expressions of one are some 100 KiB, so keeping them would be some 80 MiB.
  EXPECT_LT(resident_bytes() - before, int64_t{12} << 20);
}

}  // namespace
}  // namespace tenon
