// Networks and steps on a GPU, directly and recorded: wall time of a call back to back, what
// recordings cost the host, and how long the first call takes.
//
// The first call is measured with whatever cache the process has: set TENON_CACHE_DIR to an empty
// folder for cold compiles, and run twice for warm ones.
#include "measure.h"
#include "transformer.h"

#include "../../examples/07_resnet18/resnet18.h"

#include <array>

namespace bench {

namespace {

namespace nn = tenon::nn;

/// Directly, recorded, and recorded with tuned algorithms, with the times of the first calls.
template <class F, class... Inputs>
void measure_modes(const std::string& name, F f, bool is_whole_step, const Inputs&... inputs) {
  struct Mode {
    const char *name, *first, *loop;
  };
  for (auto [mode, first_call, loop] : {Mode{"", ", first call", ", loop"},
                                        {"reduce-overhead", nullptr, ", recorded loop"},
                                        {"max-autotune", ", first call, tuned", ", tuned loop"}})
    try {
      auto compiled = tenon::compile(f, {.fullgraph = is_whole_step, .mode = mode});
      auto call = [&] { compiled(inputs...); };
      double first = wall_us(call);
      if (first_call) report(name + first_call, first, 0);
      int calls = static_cast<int>(std::clamp(2e5 / wall_us(call), 10.0, 1000.0));
      report(name + loop, loop_time(call, calls), 0);
    } catch (const std::exception& e) {
      std::printf("%s %s: %s\n", name.c_str(), mode, e.what());
    }
}

void measure_resnet18() {
  tenon::NoGradGuard guard;
  for (auto [batch, dtype] :
       {std::pair<int64_t, Dtype>{1, Dtype::f32}, {64, Dtype::f32}, {64, Dtype::bf16}}) {
    resnet::ResNet18 net;
    net.eval();
    net.to(gpu), net.to(dtype);
    Tensor x = tenon::randn({batch, 3, 224, 224}).to(gpu, dtype);
    measure_modes(
        "resnet18 batch " + std::to_string(batch) + " " + tenon::to_text(dtype),
        [&](const Tensor& images) { return net(images); }, false, x);
  }
}

// Inputs that are others each time.
void measure_inputs() {
  constexpr int64_t n = 64 << 20;
  std::vector<Tensor> inputs;
  for (int i = 0; i < 4; ++i) inputs.push_back(tenon::randn({n}).to(gpu, Dtype::f32));
  auto f = tenon::compile([](const Tensor& x) { return (x * 0.5).tanh() * x; },
                          {.mode = "reduce-overhead"});
  size_t next = 0;
  report("another input of 256 MiB, recorded", device_time([&] { f(inputs[next++ % 4]); }),
         8.0 * n);
}

/// Sums of four neighbours, which are four results of sixteen operands.
std::vector<Tensor> sums(const std::vector<Tensor>& in) {
  std::vector<Tensor> out;
  for (size_t i = 0; i + 3 < in.size(); i += 4)
    out.push_back(in[i] + in[i + 1] + in[i + 2] + in[i + 3]);
  return out;
}

/// The host's time alone: the device is waited for between rounds.
double host_time(const std::function<void()>& call) {
  constexpr int calls = 50, repetitions = 15;
  for (int i = 0; i < calls; ++i) call();
  std::vector<double> all;
  for (int r = 0; r < repetitions; ++r) {
    tenon::synchronize(gpu);
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    all.push_back(took.count() / calls);
  }
  return median(all);
}

void measure_replays() {
  std::vector<Tensor> inputs;
  for (int i = 0; i < 16; ++i) inputs.push_back(tenon::randn({256}).to(gpu, Dtype::f32));
  for (const char* backend : {"inductor", "cudagraphs"}) {
    tenon::Options options{.backend = backend};
    if (options.backend == "inductor") options.mode = "reduce-overhead";
    auto f = tenon::compile(sums, options);
    report(std::string("a call of 20 tensors, recorded, ") + backend, host_time([&] { f(inputs); }),
           0);
  }
  Tensor small = inputs[0];
  auto chain = tenon::compile(
      [](const Tensor& x) {
        Tensor y = x;
        for (int i = 0; i < 200; ++i) y = y + 1;
        return y;
      },
      {.backend = "cudagraphs"});
  chain(small);
  double recording = wall_us([&] { chain(small); });
  report("recording 200 nodes, with a run", recording, 0);
  report("200 nodes, recorded loop", loop_time([&] { chain(small); }, 500), 0);
}

}  // namespace

void measure_training() {
  Transformer net;
  net.to(gpu), net.to(Dtype::bf16);
  Tensor x = tenon::randn({batch, positions, width}).to(gpu, Dtype::bf16);
  auto gradients = [&] {
    for (Tensor& p : net.parameters()) p.set_grad({});
    Tensor loss = net(x).square().mean();
    loss.backward();
    return loss.detach();
  };
  measure_modes("2-layer transformer bf16, gradients", gradients, true);
  tenon::optim::AdamW opt(net.parameters(), {.lr = 1e-4});
  measure_modes("2-layer transformer bf16, AdamW step", step_of(net, opt, x), true);
}

void measure_models() {
  measure_replays();
  measure_inputs();
  measure_training();
  measure_images();
}

void measure_images() {
  tenon::set_float32_matmul_precision("high");
  measure_resnet18();
  tenon::set_float32_matmul_precision("highest");
}

}  // namespace bench
