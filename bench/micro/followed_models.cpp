// What it costs that the bodies of whole models run on every call: the call of a model with code that
// computes nothing, beside the call that computes, and the same model stated pure.
#include "../../examples/07_resnet18/resnet18.h"

#include <tenon/compiler.h>

#include <benchmark/benchmark.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace tenon;

namespace {

/// A layer of BERT (Devlin et al., 2018).
struct EncoderLayer : nn::Module {
  EncoderLayer(int64_t width, int64_t n_heads)
      : in(width, 3 * width),
        out(width, width),
        wide(width, 4 * width),
        narrow(4 * width, width),
        behind_attention({width}),
        behind_network({width}),
        heads(n_heads) {}
  nn::Linear in, out, wide, narrow;
  nn::LayerNorm behind_attention, behind_network;
  int64_t heads;
  TENON_MODULE(EncoderLayer, in, out, wide, narrow, behind_attention, behind_network)
  Tensor forward(const Tensor& x) {
    int64_t n = x.size(0), positions = x.size(1), width = x.size(2);
    Tensor all = in(x).view({n, positions, 3, heads, width / heads});
    auto part = [&](int64_t which) { return all.select(2, which).transpose(1, 2); };
    Tensor attended = scaled_dot_product_attention(part(0), part(1), part(2));
    Tensor y = behind_attention(x + out(attended.transpose(1, 2).reshape({n, positions, width})));
    return behind_network(y + narrow(gelu(wide(y))));
  }
};

/// Of the size of bert_mini.
struct Encoder : nn::Module {
  nn::Embedding words{1000, 256}, positions{128, 256};
  nn::LayerNorm norm{{256}};
  nn::Sequential layers{EncoderLayer(256, 4), EncoderLayer(256, 4), EncoderLayer(256, 4),
                        EncoderLayer(256, 4)};
  TENON_MODULE(Encoder, words, positions, norm, layers)
  Tensor forward(const Tensor& x) { return layers(norm(words(x) + positions.weight)); }
};

Tensor input_of(const resnet::ResNet18&) { return randn({1, 3, 224, 224}); }
Tensor input_of(const Encoder&) { return randint(0, 1000, {1, 128}); }

template <class Model>
void call(benchmark::State& state, Options options) {
  NoGradGuard no_grad;
  Model model;
  model.eval();
  Tensor x = input_of(model);
  auto f = compile([&](const Tensor& t) { return model(t); }, std::move(options));
  for (int i = 0; i < 3; ++i) f(x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}

template <class Model>
void followed(benchmark::State& state) {
  call<Model>(state, {.backend = "inductor"});
}
template <class Model>
void stated_pure(benchmark::State& state) {
  call<Model>(state, {.backend = "inductor", .pure = true});
}
// The name of a backend whose code gives again what it gave first.
const std::string& backend_without_work() {
  static const std::string name = [] {
    auto backend = [](const compiler::Graph& graph, std::span<const Tensor>) {
      auto results = std::make_shared<std::vector<Tensor>>();
      return [graph, results](const std::vector<Tensor>& inputs) {
        if (results->empty()) *results = graph.run(inputs);
        return *results;
      };
    };
    compiler::register_backend("nothing", backend);
    return "nothing";
  }();
  return name;
}

template <class Model>
void followed_without_work(benchmark::State& state) {
  call<Model>(state, {.backend = backend_without_work()});
}

BENCHMARK(followed<resnet::ResNet18>)->Unit(benchmark::kMicrosecond);
BENCHMARK(stated_pure<resnet::ResNet18>)->Unit(benchmark::kMicrosecond);
BENCHMARK(followed_without_work<resnet::ResNet18>)->Unit(benchmark::kMicrosecond);
BENCHMARK(followed<Encoder>)->Unit(benchmark::kMicrosecond);
BENCHMARK(stated_pure<Encoder>)->Unit(benchmark::kMicrosecond);
BENCHMARK(followed_without_work<Encoder>)->Unit(benchmark::kMicrosecond);

}  // namespace
