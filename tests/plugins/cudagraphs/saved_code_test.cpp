// Code for a GPU in files: what one process compiled, another one runs.
#include "graphs.h"
#include "own_process.h"

#include <tenon/compiler.h>
#include <tenon/load_model.h>
#include <tenon/model.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace tenon::graphs {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr const char* file_variable = "TENON_TEST_SAVED_CODE";

// Who carries the tests to another machine says where the archives are.
std::string archive(const std::string& name) {
  const char* carried = std::getenv("TENON_TEST_MODELS");
  return std::string(carried ? carried : TENON_TEST_MODELS) + "/" + name;
}

LoadOptions on_the_gpu(bool is_recorded) {
  return {.backend = "inductor",
          .options = {{"cudagraphs", is_recorded ? "true" : "false"}},
          .device = gpu};
}

/// A folder for caches that is empty at first, and goes with it.
class CacheFolder {
 public:
  CacheFolder() {
    std::string pattern = (fs::temp_directory_path() / "tenon_saved_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
    setenv("TENON_CACHE_DIR", path_.c_str(), 1);
    reset();
  }
  ~CacheFolder() {
    unsetenv("TENON_CACHE_DIR");
    fs::remove_all(path_);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class SavedCode : public Graphs {};

// In this process, then in one that has compiled nothing and finds no cache.
void run_in_a_new_process(const std::string& name, bool is_recorded) {
  Tensor x = (arange(3 * 64, Dtype::f32) % 17 * 0.0625).reshape({3, 64});
  if (name.starts_with("cnn")) x = (arange(3 * 64, Dtype::f32) % 17 * 0.0625).reshape({3, 1, 8, 8});
  auto expected = [&] { return load(archive(name), {.backend = "eager"}).call({x}).tensor(); };
  std::string file;
  if (const char* given = std::getenv(file_variable)) {
    file = given;
  } else {
    file = testing::TempDir() + name + (is_recorded ? ".recorded" : ".direct") + ".tenon";
    Model model = load(archive(name), on_the_gpu(is_recorded));
    for (int i = 0; i < 3; ++i) expect_equal(model.call({there(x)}).tensor(), expected(), "saved");
    model.save(file);
    setenv(file_variable, file.c_str(), 1);
  }
  in_own_process([&] {
    CacheFolder empty;
    Model again = load(file);
    for (int i = 0; i < 4; ++i)
      expect_equal(again.call({there(x * (1.0 + i))}).tensor(),
                   load(archive(name), {.backend = "eager"}).call({x * (1.0 + i)}).tensor(),
                   "loaded");
    EXPECT_EQ(again.compiles(), 0u);
    EXPECT_EQ(n_replays() > 0, is_recorded);
  });
  unsetenv(file_variable);
  fs::remove(file);
}

TEST_F(SavedCode, RunsInANewProcess) { run_in_a_new_process("mlp_digits.pt2", false); }
TEST_F(SavedCode, IsRecordedInANewProcess) { run_in_a_new_process("mlp_digits.pt2", true); }
TEST_F(SavedCode, OfConvolutionsRunsInANewProcess) {
  run_in_a_new_process("cnn_digits.pt2", false);
}

// What a library compiles for a plan is found on disk by the next process.
TEST_F(SavedCode, OfAttentionFindsThePlansOfTheLibrary) {
  constexpr const char* folder_variable = "TENON_CACHE_DIR";
  const bool is_first = !std::getenv(file_variable);
  if (is_first) {
    setenv(folder_variable, (testing::TempDir() + "tenon_saved_plans").c_str(), 1);
    setenv(file_variable, "plans", 1);
    reset();
  }
  auto gradients = [](Device device, bool is_compiled) {
    manual_seed(3);
    std::vector<Tensor> parts;
    for (int i = 0; i < 3; ++i)
      parts.push_back(moved(device, randn({2, 4, 64, 64}).to(Dtype::bf16)).requires_grad_());
    auto body = [](const Tensor& q, const Tensor& k, const Tensor& v) {
      return scaled_dot_product_attention(q, k, v).sum();
    };
    if (is_compiled)
      compile(body, fused({{"cudagraphs", "false"}}))(parts[0], parts[1], parts[2]).backward();
    else
      body(parts[0], parts[1], parts[2]).backward();
    return to_cpu(parts[0].grad()).to(Dtype::f32);
  };
  auto check = [&] {
    Tensor off = (gradients(gpu, true) - gradients(kCPU, false)).abs();
    EXPECT_LT(off.max().item<float>().value(), 0.02f);
  };
  if (is_first) check();
  in_own_process(check);
  fs::remove_all(std::getenv(folder_variable));
  unsetenv(folder_variable);
  unsetenv(file_variable);
}

/// A step whose code has products, kernels of rows and columns, and numbers on the CPU.
Tensor step(const Tensor& x, const Tensor& w, const Tensor& scale) {
  return (x.matmul(w).softmax(-1) * scale + x).relu().sum(0);
}

// Compiled, forgotten, and found in the cache of graphs.
TEST_F(SavedCode, TrainingStepsComeFromTheCacheOfGraphs) {
  for (bool is_recorded : {false, true}) {
    CacheFolder folder;
    Options options = fused({{"cudagraphs", is_recorded ? "true" : "false"}});
    Tensor x = (arange(6 * 8, Dtype::f32) % 5 * 0.25).reshape({6, 8}), scale = tensor(0.5f);
    Tensor w = (arange(64, Dtype::f32) % 7 * 0.125).reshape({8, 8});
    Tensor found, gradient;
    for (int round = 0; round < 2; ++round) {
      reset();
      auto f = compile(step, options);
      for (int i = 0; i < 3; ++i) {
        Tensor parameter = there(w).requires_grad_();
        Tensor y = f(there(x), parameter, scale);
        y.sum().backward();
        if (round == 0 && i == 0) found = to_cpu(y.detach()), gradient = to_cpu(parameter.grad());
        expect_equal(y, found, "result");
        expect_equal(parameter.grad(), gradient, "gradient");
      }
      EXPECT_EQ(counted("aot.cache_hit"), round) << is_recorded << f.explain();
    }
    expect_equal(found, step(x, w, scale));
  }
}

/// A layer of a transformer: attention, products with their functions, norms.
struct Layer : nn::Module {
  nn::Linear in{32, 96}, out{32, 32}, wide{32, 64}, narrow{64, 32};
  nn::LayerNorm first{{32}}, second{{32}};
  TENON_MODULE(Layer, in, out, wide, narrow, first, second)
  Tensor forward(const Tensor& x) {
    Tensor all = in(x).view({2, 8, 3, 4, 8});
    auto part = [&](int64_t which) { return all.select(2, which).transpose(1, 2); };
    Tensor attended = scaled_dot_product_attention(part(0), part(1), part(2));
    Tensor h = first(x + out(attended.transpose(1, 2).reshape({2, 8, 32})));
    return second(h + narrow(gelu(wide(h), "tanh")));
  }
};

TEST_F(SavedCode, NetworksAndTheirStepsComeFromTheCacheOfGraphs) {
  CacheFolder folder;
  for (bool is_step : {false, true})
    for (bool is_recorded : {false, true}) {
      double first_loss = 0;
      for (int round = 0; round < 2; ++round) {
        reset();
        manual_seed(5);
        Layer layer;
        layer.to(gpu), layer.to(Dtype::bf16);
        Tensor x = there(randn({2, 8, 32}).to(Dtype::bf16));
        optim::AdamW opt(layer.parameters(), {.lr = 1e-2});
        Options options = fused({{"cudagraphs", is_recorded ? "true" : "false"}});
        options.fullgraph = is_step;
        auto infer = compile([&](const Tensor& in) { return layer(in).square().mean(); }, options);
        auto step = compile(
            [&] {
              opt.zero_grad();
              Tensor loss = layer(x).square().mean();
              loss.backward();
              opt.step();
              return loss.detach();
            },
            options);
        double loss = 0;
        for (int i = 0; i < 3; ++i) {
          std::optional<NoGradGuard> guard;
          if (!is_step) guard.emplace();
          Tensor y = is_step ? step() : infer(x);
          loss = to_cpu(y.detach()).to(Dtype::f64).item<double>().value();
        }
        if (round == 0) first_loss = loss;
        EXPECT_EQ(loss, first_loss) << is_step << is_recorded;
        EXPECT_EQ(counted("aot.cache_hit"), round) << is_step << is_recorded;
      }
    }
}

// Sizes that no hint had run in loaded code, too.
TEST_F(SavedCode, HasSymbols) {
  for (bool is_recorded : {false, true}) {
    CacheFolder folder;
    Options options = fused({{"cudagraphs", is_recorded ? "true" : "false"}});
    options.dynamic = true;
    for (int round = 0; round < 2; ++round) {
      reset();
      auto f = compile([](const Tensor& x) { return (x * 2.0 + x.size(0)).sum(1); }, options);
      for (int64_t n : {5, 4, 1000, 3, 7, 1000}) {
        Tensor x = arange(n * 12, Dtype::f32).reshape({n, 12}) * 0.01;
        expect_equal(f(there(x)), (x * 2.0 + double(n)).sum(1));
      }
      EXPECT_EQ(counted("aot.cache_hit"), round) << is_recorded << f.explain();
    }
  }
}

// Optimisers write parameters where they lie; their kernels share launches.
TEST_F(SavedCode, WritesItsInputs) {
  CacheFolder folder;
  for (int round = 0; round < 2; ++round) {
    reset();
    auto f = compile(
        [](const Tensor& a, const Tensor& b, const Tensor& c) {
          a.mul_(0.5), b.add_(a * 2.0), c.sub_(1.0);
          return a.sum() + b.sum() + c.sum();
        },
        fused({{"cudagraphs", "false"}}));
    Tensor a = ones({100}), b = ones({100}) * 2.0, c = ones({300});
    Tensor on_a = there(a), on_b = there(b), on_c = there(c);
    for (int i = 0; i < 3; ++i) {
      a.mul_(0.5), b.add_(a * 2.0), c.sub_(1.0);
      expect_equal(f(on_a, on_b, on_c), a.sum() + b.sum() + c.sum());
      expect_equal(on_a, a), expect_equal(on_b, b), expect_equal(on_c, c);
    }
    EXPECT_EQ(counted("aot.cache_hit"), round);
  }
}

}  // namespace
}  // namespace tenon::graphs
