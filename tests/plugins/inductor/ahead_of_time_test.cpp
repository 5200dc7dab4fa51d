// Models with their code in files: what comes back is what was saved, and what cannot be saved says
// so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "backend/catalog.h"
#include "unit/formats/written_archive.h"

#include <tenon/load_model.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

namespace tenon {
namespace {

using ::testing::HasSubstr;

class AheadOfTime : public testing::Test {
 protected:
  void SetUp() override { set_plugin_search({}, {TENON_PLUGIN_DIR}); }
  void TearDown() override { std::filesystem::remove(file_); }

  static Model loaded(LoadOptions options = {.backend = "inductor"}) {
    return load(archive, options);
  }
  static Tensor inputs(int64_t rows) { return arange(rows * 64).reshape({rows, 64}) / 640.0; }
  static bool same_bits(const Tensor& a, const Tensor& b) {
    return a.to_vector<float>() == b.to_vector<float>();
  }
  /// The code and message of the error that `call` must throw.
  template <class F>
  static std::pair<ErrorCode, std::string> refusal(F call) {
    try {
      call();
    } catch (const Error& error) {
      return {error.code(), error.what()};
    }
    return {ErrorCode::internal, "nothing was thrown"};
  }

  static constexpr const char* archive = TENON_TEST_DATA_DIR "/models/mlp_digits.pt2";
  std::string file_ = (std::filesystem::temp_directory_path() /
                       ("ahead_of_time_" + std::to_string(::getpid()) + ".tenon"))
                          .string();
};

TEST_F(AheadOfTime, OneFileServesAllSizesWithTheSameBits) {
  Model model = loaded();
  model.prepare({inputs(3)});
  model.save(file_);
  Model shipped = load(file_);
  for (int64_t rows : {3, 1, 17}) {
    Tensor x = inputs(rows);
    EXPECT_TRUE(same_bits(shipped(x), model(x))) << rows << " rows";
  }
  EXPECT_EQ(shipped.compiles(), 0u);
  EXPECT_EQ(shipped.parameter_names(), model.parameter_names());
  EXPECT_EQ(to_text(shipped.inputs().at(0)), to_text(model.inputs().at(0)));
}

TEST_F(AheadOfTime, WeightsAreSavedAsTheyAre) {
  Model model = loaded();
  Tensor before = Tensor(model(inputs(2))).clone();
  model.parameter(model.parameter_names().at(0)).mul_(2.0);
  Tensor after = model(inputs(2));
  model.save(file_);
  Model shipped = load(file_);
  EXPECT_FALSE(same_bits(before, after));
  EXPECT_TRUE(same_bits(shipped(inputs(2)), after));
}

TEST_F(AheadOfTime, WritingALoadedWeightLeavesTheFileAlone) {
  Model model = loaded();
  Tensor expected = model(inputs(2));
  model.save(file_);
  {
    Model shipped = load(file_);
    shipped.parameter(shipped.parameter_names().at(0)).zero_();
    EXPECT_FALSE(same_bits(shipped(inputs(2)), expected));
  }
  EXPECT_TRUE(same_bits(load(file_)(inputs(2)), expected));
}

TEST_F(AheadOfTime, AFileIsLoadedWhileOthersReplaceIt) {
  Model model = loaded();
  Tensor expected = model(inputs(4));
  model.save(file_);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (std::string next = file_ + ".next"; !done;) {
      std::filesystem::copy_file(file_, next);
      std::filesystem::rename(next, file_);
    }
  });
  for (int i = 0; i < 300; ++i)
    EXPECT_EQ(refusal([&] { load(file_); }).second, "nothing was thrown") << "load " << i;
  done = true;
  writer.join();
  EXPECT_TRUE(same_bits(load(file_)(inputs(4)), expected));
}

TEST_F(AheadOfTime, ASavedModelIsSavedAgain) {
  Model model = loaded();
  Tensor expected = model(inputs(4));
  model.save(file_);
  Model shipped = load(file_);
  shipped.save(file_ + ".again");
  EXPECT_TRUE(same_bits(load(file_ + ".again")(inputs(4)), expected));
  std::filesystem::remove(file_ + ".again");
}

// x.add_(1); return y * 2
TEST_F(AheadOfTime, CodeForArgumentsThatShareMemoryIsSaved) {
  using formats::testing::WrittenArchive;
  WrittenArchive archive;
  archive.call("add_.Tensor", "x", WrittenArchive::with(1), "add_")
      .call("mul.Tensor", "y", WrittenArchive::with(2), "mul");
  Model live = archive.load("inductor", {"mul"});
  auto expect_sums = [](const Model& model) {
    Tensor x = ones({4, 4}), y = ones({4, 4}), z = ones({4, 4});
    EXPECT_EQ(Tensor(model(x, x)).sum().item<float>().value(), 64);
    EXPECT_EQ(Tensor(model(x, y)).sum().item<float>().value(), 32);
    EXPECT_EQ(Tensor(model(z, z.t())).sum().item<float>().value(), 64);
  };
  expect_sums(live);
  live.save(file_);
  Model saved = load(file_);
  expect_sums(saved);
  EXPECT_EQ(saved.compiles(), 0U);
}

TEST_F(AheadOfTime, WhatCannotBeSavedSaysWhy) {
  auto saving = [&](LoadOptions options) {
    Model model = loaded(options);
    model(inputs(2));
    return refusal([&] { model.save(file_); });
  };
  auto [eager, why_eager] = saving({.backend = "aot_eager"});
  EXPECT_EQ(eager, ErrorCode::unsupported);
  EXPECT_THAT(why_eager, HasSubstr("backend aot_eager cannot save what it compiles"));
  auto [random, why_random] = saving({.backend = "inductor", .random_weights = true});
  EXPECT_EQ(random, ErrorCode::unsupported);
  EXPECT_THAT(why_random, HasSubstr("random weights"));
  auto [training, why_training] = saving({.backend = "inductor", .training = true});
  EXPECT_EQ(training, ErrorCode::unsupported);
  EXPECT_THAT(why_training, HasSubstr("loaded for training"));
  auto [early, why_early] = refusal([&] { loaded().save(file_); });
  EXPECT_THAT(why_early, HasSubstr("nothing was compiled yet"));
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(AheadOfTime, AFileHasItsOwnBackendAndOptions) {
  Model model = loaded();
  model.prepare({inputs(2)});
  model.save(file_);
  for (const LoadOptions& options :
       {LoadOptions{.backend = "eager"}, LoadOptions{.random_weights = true},
        LoadOptions{.training = true}}) {
    auto [code, why] = refusal([&] { load(file_, options); });
    EXPECT_EQ(code, ErrorCode::invalid_argument);
    EXPECT_THAT(why, HasSubstr("holds compiled code for inference"));
  }
  EXPECT_THAT(refusal([&] { load_model(file_); }).second, HasSubstr("holds compiled code"));
}

}  // namespace
}  // namespace tenon
