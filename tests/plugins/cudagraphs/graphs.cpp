// Helpers of the tests.
#include "graphs.h"

#include "needs_gpu.h"

#include <tenon/report.h>

#include <tenon/cuda.h>

#include "backend/abi/extensions.h"
#include "backend/life/plugin_call.h"

#include <cstdlib>
#include <regex>

namespace tenon::graphs {

void Graphs::SetUp() {
  TENON_NEEDS_A_GPU();
  reset();
  manual_seed(7);
}

Options recorded(std::map<std::string, std::string> given, const std::string& name) {
  Options options;
  options.backend = "cudagraphs";
  options.name = name;
  options.options = std::move(given);
  return options;
}

Options fused(std::map<std::string, std::string> given, const std::string& name) {
  given.emplace("cudagraphs", "true");
  Options options = recorded(std::move(given), name);
  options.backend = "inductor";
  return options;
}

void expect_equal(const Tensor& found, const Tensor& expected, const std::string& what) {
  Tensor here = moved(kCPU, found.detach());
  ASSERT_EQ(here.dtype(), expected.dtype()) << what;
  ASSERT_EQ(to_text(here.sizes()), to_text(expected.sizes())) << what;
  Tensor a = here.to(Dtype::f64), b = expected.detach().to(Dtype::f64);
  if (a.numel() == 0) return;
  Tensor off = (a - b).abs() - b.abs() * 2e-5;
  EXPECT_LE(off.max().item<double>().value(), 2e-5) << what << "\n" << here << "\n" << expected;
}

int64_t counted(const std::string& name) {
  std::map<std::string, int64_t> all = counters();
  auto found = all.find(name);
  return found == all.end() ? 0 : found->second;
}
int64_t skips(const std::string& reason) { return counted("cudagraph_skips[" + reason + "]"); }

std::string functions_told() {
  auto* api = static_cast<const tn_cuda_api*>(find_extension(TN_CUDA_ID, TN_CUDA_VERSION));
  TextSink text;
  bool failed = api->describe_functions(text.get()) != nullptr;
  return failed ? "failed" : text.take();
}

// Of the totals of all functions, which have the names as neighbours.
static int64_t total(int which) {
  static const std::regex totals("\"recordings\": ([0-9]+), \"replays\": ([0-9]+)");
  std::string told = functions_told();
  int64_t sum = 0;
  for (std::sregex_iterator at(told.begin(), told.end(), totals), end; at != end; ++at)
    sum += std::atoll((*at)[static_cast<size_t>(which)].str().c_str());
  return sum;
}
int64_t n_recordings() { return total(1); }
int64_t n_replays() { return total(2); }

}  // namespace tenon::graphs
