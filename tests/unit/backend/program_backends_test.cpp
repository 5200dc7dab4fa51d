// Backends of the program and gradients: what their code gives is on the tape where the graph says
// so, and steps of training run whatever way the code takes.
#include "unit/message_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tenon/compiler.h>
#include <tenon/tenon.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tenon {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;
using Code = std::function<Tensors(const Tensors&)>;
using MakeCode = std::function<Code(const compiler::Graph&)>;

/// The name of a backend whose code is what `make` gives.
std::string backend_of(const MakeCode& make) {
  static int n = 0;
  std::string name = "program_" + std::to_string(n++);
  compiler::register_backend(
      name,
      [make](const compiler::Graph& graph, auto) -> compiler::CompiledCode { return make(graph); });
  return name;
}

Tensor product(const Tensor& x, const Tensor& w) { return x * w; }

// No operation of the library: nothing of it is on the tape.
Tensors product_by_hand(const Tensors& in) {
  Tensor out = empty(in[0].sizes());
  for (int64_t i = 0; i < in[0].numel(); ++i)
    out.data_ptr<float>()[i] = in[0].data_ptr<float>()[i] * in[1].data_ptr<float>()[i];
  return {out};
}

TEST(ProgramBackends, AResultWithoutTheHistoryThatItNeedsIsRefused) {
  auto f =
      tenon::compile(product, {.backend = backend_of([](const auto&) { return product_by_hand; })});
  Tensor x = ones({3}), w = ones({3}).requires_grad_();
  std::string refused = message_of([&] { f(x, w); });
  EXPECT_THAT(refused, HasSubstr("output 0 has no gradient history, although it depends on inputs "
                                 "that need gradients; give what Graph::run() gives"));
  EXPECT_THAT(refused, HasSubstr("backend 'program_"));
}

TEST(ProgramBackends, ResultsThatNeedNoHistoryMayComeFromAnywhere) {
  auto f =
      tenon::compile(product, {.backend = backend_of([](const auto&) { return product_by_hand; })});
  EXPECT_EQ(f(ones({3}), ones({3}) * 2).to_vector<float>(), std::vector<float>(3, 2));
  NoGradGuard off;
  EXPECT_EQ(f(ones({3}), ones({3}).requires_grad_()).to_vector<float>(), std::vector<float>(3, 1));
}

TEST(ProgramBackends, WhileGradientsAreOffNothingGetsAHistory) {
  auto f = tenon::compile(product, {.backend = backend_of([](const compiler::Graph& graph) {
                                      return [graph](const Tensors& in) {
                                        EnableGradGuard on;
                                        return graph.run(in);
                                      };
                                    })});
  Tensor w = ones({3}).requires_grad_();
  NoGradGuard off;
  EXPECT_FALSE(f(ones({3}), w).requires_grad());
}

Code compiled_again(const compiler::Graph& graph) {
  auto run = [graph](const Tensors& in) { return graph.run(in); };
  auto again =
      std::make_shared<CompiledFunction<Code>>(tenon::compile(Code(run), {.backend = "aot_eager"}));
  return [again](const Tensors& in) { return (*again)(in); };
}

Code on_another_thread(const compiler::Graph& graph) {
  return [graph](const Tensors& in) {
    Tensors out;
    std::exception_ptr failure;
    std::thread other([&, mode = is_grad_enabled()] {
      EnableGradGuard as_here(mode);
      try {
        out = graph.run(in);
      } catch (...) {
        failure = std::current_exception();
      }
    });
    other.join();
    if (failure) std::rethrow_exception(failure);
    return out;
  };
}

// The weights after three steps.
std::vector<float> trained(const std::string& backend) {
  Tensor w = tensor({1.0f, 2.0f, 3.0f}).requires_grad_();
  optim::SGD opt({w}, {.lr = 0.125, .momentum = 0.5});
  auto step = tenon::compile(
      [&](const Tensor& x) {
        opt.zero_grad();
        Tensor loss = (x * w).square().mean();
        loss.backward();
        opt.step();
        return loss.detach();
      },
      {.backend = backend, .fullgraph = true});
  for (int i = 0; i < 3; ++i) step(tensor({0.5f, -1.0f, 2.0f}) * (i + 1));
  return w.detach().to_vector<float>();
}

TEST(ProgramBackends, AWholeStepMayBeCompiledAgainOrRunOnAnotherThread) {
  std::vector<float> eager = trained("eager");
  for (const MakeCode& make : {MakeCode(compiled_again), MakeCode(on_another_thread)})
    EXPECT_EQ(trained(backend_of(make)), eager);
}

}  // namespace
}  // namespace tenon
