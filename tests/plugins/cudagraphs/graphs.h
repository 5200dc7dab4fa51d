// What tests of the backend cudagraphs share. They run over the double of the driver and on a GPU.
#pragma once

#include "cuda/double.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace tenon::graphs {

/// Each test begins without recordings and with counters at zero.
class Graphs : public testing::Test {
 protected:
  void SetUp() override;
};

inline Tensor there(const Tensor& t) { return moved(gpu, t); }

/// Options for the backend cudagraphs: TOML values by name.
Options recorded(std::map<std::string, std::string> options = {}, const std::string& name = "step");
/// For inductor in graph mode.
Options fused(std::map<std::string, std::string> options = {}, const std::string& name = "step");

/// Equal dtype and sizes, and values to some units of the last place.
void expect_equal(const Tensor& found, const Tensor& expected, const std::string& what = "");

/// A counter of the process, 0 where it has never counted.
int64_t counted(const std::string& name);
int64_t skips(const std::string& reason);

/// What all functions together say of themselves.
std::string functions_told();
int64_t n_replays();
int64_t n_recordings();

}  // namespace tenon::graphs
