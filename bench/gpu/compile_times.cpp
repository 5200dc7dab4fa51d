// How long the first call of compiled code takes, beside what the driver and its libraries take to
// start: one of "pointwise", "bert" and "step" a process.
//
// With TENON_CACHE_DIR at an empty folder it is a cold compile; a second process with the same folder
// shows a warm start.
#include "measure.h"
#include "transformer.h"

#include <tenon/compiler.h>

namespace bench {

namespace {

Tensor on_gpu(std::vector<int64_t> sizes, Dtype dtype) {
  return tenon::randn(sizes).to(gpu, dtype);
}

// Both libraries plan something of other sizes, so that opening them is not counted: attention with
// twice the channels a head, of which what cuDNN compiles for the networks has nothing.
void start_libraries() {
  auto loss = [](const Tensor& q, const Tensor& w) {
    return tenon::scaled_dot_product_attention(q, q, q).matmul(w).sum();
  };
  Tensor q = on_gpu({4, 4, 64, 128}, Dtype::bf16).requires_grad_();
  Tensor w = on_gpu({128, 128}, Dtype::bf16);
  double us = wall_us([&] { tenon::compile(loss)(q, w).backward(); });
  report("start: libraries, a first attention", us, 0);
}

template <class F>
void report_calls(const std::string& name, F call) {
  report(name + ", first call", wall_us(call), 0);
  report(name + ", second call", wall_us(call), 0);
}

void time_pointwise() {
  Tensor x = on_gpu({1 << 20}, Dtype::f32);
  auto f = tenon::compile([](const Tensor& a) { return (a * 0.5).tanh() * a + 1.0; });
  report_calls("pointwise", [&] { f(x); });
}

void time_bert() {
  tenon::NoGradGuard guard;
  Bert net;
  net.eval();
  net.to(gpu), net.to(Dtype::bf16);
  Tensor x = on_gpu({batch, positions, width}, Dtype::bf16);
  auto f = tenon::compile([&](const Tensor& in) { return net(in); });
  report_calls("12 layers", [&] { f(x); });
}

void time_step() {
  Transformer net;
  net.to(gpu), net.to(Dtype::bf16);
  Tensor x = on_gpu({batch, positions, width}, Dtype::bf16);
  tenon::optim::AdamW opt(net.parameters(), {.lr = 1e-4});
  auto f = tenon::compile(step_of(net, opt, x), {.fullgraph = true});
  report_calls("step of 2 layers", [&] { f(); });
}

}  // namespace

void measure_compile(const std::string& what) {
  report("start: device", wall_us([] { on_gpu({16}, Dtype::f32); }), 0);
  if (what != "pointwise") start_libraries();
  if (what == "pointwise") time_pointwise();
  if (what == "bert") time_bert();
  if (what == "step") time_step();
}

}  // namespace bench
