// Backward passes that PyTorch captured: gradients, the order of hooks and callbacks, and how often
// a pass is captured. A recording has its function as Python text; the C++ for each stands in
// passes_of_nodes.cpp and passes_of_user_code.cpp. Where Tenon captures less often than PyTorch, or
// has other nodes, the scenario says so and why.
#include "recordings/recorded_pass.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tenon::recorded_passes {
namespace {

const std::map<std::string, Body>& scenarios() {
  static const std::map<std::string, Body> all = [] {
    auto known = scenarios_of_nodes();
    known.merge(scenarios_of_user_code());
    return known;
  }();
  return all;
}

class CompiledAutogradRecording : public testing::TestWithParam<std::string> {};

TEST_P(CompiledAutogradRecording, IsReproduced) {
  std::string name = test_name_of({GetParam(), 0});
  auto body = scenarios().find(name);
  ASSERT_TRUE(body != scenarios().end()) << "no C++ is written down here for " << name;
  ca::reset();
  body->second(Scenario(name));
}

std::vector<std::string> recorded() {
  std::vector<std::string> files = files_in(reference_folder("compiled_autograd"), ".json");
  std::erase_if(files, [](const std::string& file) { return file.ends_with("index.json"); });
  return files;
}

TEST(CompiledAutogradRecordings, AllAreThere) {
  EXPECT_EQ(recorded().size(), scenarios().size())
      << nothing_in(reference_folder("compiled_autograd"));
}

INSTANTIATE_TEST_SUITE_P(All, CompiledAutogradRecording, testing::ValuesIn(recorded()),
                         test_name_of);

}  // namespace
}  // namespace tenon::recorded_passes
