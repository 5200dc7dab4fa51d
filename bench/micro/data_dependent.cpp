// Bodies that look at data, compiled and plain: conjugate gradients, loops that compare a number
// each turn, greedy decoding with a cache that grows, threads in a body that waits; and what one
// look costs. Plain and compiled runs take turns, so that both see the same machine: the time of
// such a case is that of the compiled run, `plain_us` is the plain one's, `over_plain` the median
// of their ratios, which is below 1 where compiling pays.
#include <tenon/tenon.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

using namespace tenon;

namespace {

template <class F>
double seconds_of(F f) {
  auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median_of(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The times of two programs that take turns.
struct Turns {
  std::vector<double> plain, ratios;
  void add(double plain_s, double compiled_s) {
    plain.push_back(plain_s);
    ratios.push_back(compiled_s / plain_s);
  }
};

template <class P, class C>
void take_turns(benchmark::State& state, P plain, C compiled) {
  for (int i = 0; i < 5; ++i) {  // sizes become symbols, and every course of the body is met
    plain();
    compiled();
  }
  Turns turns;
  for (auto _ : state) {
    double plain_s = seconds_of(plain), compiled_s = seconds_of(compiled);
    state.SetIterationTime(compiled_s);
    turns.add(plain_s, compiled_s);
  }
  state.counters["plain_us"] = median_of(turns.plain) * 1e6;
  state.counters["over_plain"] = median_of(turns.ratios);
}

const Options inductor{.backend = "inductor"};

// ---- what a look costs

// The same two operations with and without a look between them, which the second one does not need.
template <bool looks>
void two_ops(benchmark::State& state) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor y = x.relu();
        if constexpr (looks) graph_break();
        return y.neg();
      },
      inductor);
  Tensor x = ones({4, 4});
  for (int i = 0; i < 5; ++i) f(x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}
void two_ops_in_one_piece(benchmark::State& state) { two_ops<false>(state); }
BENCHMARK(two_ops_in_one_piece);
void two_ops_with_a_break(benchmark::State& state) { two_ops<true>(state); }
BENCHMARK(two_ops_with_a_break);

// What the break costs besides calling code twice.
void two_bodies_of_one_op(benchmark::State& state) {
  auto f = compile([](const Tensor& x) { return x.relu(); }, inductor);
  auto g = compile([](const Tensor& x) { return x.neg(); }, inductor);
  Tensor x = ones({4, 4});
  g(f(x));
  for (auto _ : state) benchmark::DoNotOptimize(g(f(x)));
}
BENCHMARK(two_bodies_of_one_op);

// A body of `n` operations that compares the number behind each: an operation more is a break more.
void a_look_behind_each_op(benchmark::State& state) {
  auto f = compile(
      [n = state.range(0)](const Tensor& x) {
        Tensor y = x.relu();
        for (int64_t i = 1; i < n && y.item<float>() >= 0; ++i) y = y.relu();
        return y;
      },
      inductor);
  Tensor x = ones({1});
  for (int i = 0; i < 5; ++i) f(x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}
BENCHMARK(a_look_behind_each_op)->Arg(1)->Arg(2)->Arg(11);

// The look comes before any operation.
void one_op_behind_a_look_at_an_argument(benchmark::State& state) {
  auto f = compile([](const Tensor& x) { return x.item<float>() > 0 ? x.relu() : x; }, inductor);
  Tensor x = ones({1});
  for (int i = 0; i < 5; ++i) f(x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}
BENCHMARK(one_op_behind_a_look_at_an_argument);

void five_hundred_parameters(benchmark::State& state) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 500; ++i) parameters.push_back(ones({4, 4}));
  auto f = compile(
      [&](const Tensor& x) {
        for (const Tensor& p : parameters) p.relu();  // dead, but the version depends on them
        return x.relu();
      },
      {.backend = "inductor", .pure = true});
  Tensor x = ones({4, 4});
  f(x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}
BENCHMARK(five_hundred_parameters)->Name("500_parameters");

void five_hundred_arguments(benchmark::State& state) {
  auto f = compile([](const std::vector<Tensor>& xs) { return xs[0]; },
                   {.backend = "eager", .pure = true});
  std::vector<Tensor> xs;
  for (int i = 0; i < 500; ++i) xs.push_back(ones({4, 4}));
  f(xs);
  for (auto _ : state) benchmark::DoNotOptimize(f(xs));
}
BENCHMARK(five_hundred_arguments)->Name("500_tensors");

// ---- loops

std::pair<Tensor, int> conjugate_gradients(const Tensor& a, const Tensor& b, float tolerance) {
  Tensor x = zeros_like(b), r = b, p = r, rs = r.dot(r);
  int turns = 0;
  while (rs.item<float>() > tolerance * tolerance && turns++ < 200) {
    Tensor ap = a.matmul(p), step = rs / p.dot(ap);
    x = x + step * p;
    r = r - step * ap;
    Tensor next = r.dot(r);
    p = r + (next / rs) * p;
    rs = next;
  }
  return {x, turns};
}

// A fresh right-hand side each time, as a solver gets it: the number of turns varies a little.
void conjugate_gradients_of_size(benchmark::State& state) {
  manual_seed(3);
  int64_t n = state.range(0);
  Tensor m = randn({n, n});
  Tensor a = m.matmul(m.t()) / n + eye(n) * 0.1;
  std::vector<Tensor> sides;
  for (int i = 0; i < 16; ++i) sides.push_back(randn({n}));
  float tolerance = 1e-4f * std::sqrt(static_cast<float>(n));
  auto solve = compile(conjugate_gradients, inductor);
  size_t at_plain = 0, at_compiled = 0;
  for (const Tensor& b : sides) solve(a, b, tolerance);
  int64_t turns = 0, solved = 0;
  take_turns(
      state, [&] { conjugate_gradients(a, sides[at_plain++ % sides.size()], tolerance); },
      [&] {
        turns += solve(a, sides[at_compiled++ % sides.size()], tolerance).second;
        ++solved;
      });
  state.counters["turns"] = static_cast<double>(turns) / static_cast<double>(solved);
}
BENCHMARK(conjugate_gradients_of_size)->Arg(16)->Arg(64)->Arg(256)->UseManualTime();

/// 50 turns of `n_ops` operations, a comparison with a number of the data in each.
Tensor fifty_turns(const Tensor& x, int64_t n_ops) {
  Tensor y = x;
  for (int turn = 0; turn < 50; ++turn) {
    for (int64_t i = 1; i < n_ops; ++i) y = i % 2 ? y * 0.99 : y + 0.01;
    if (y.sum().item<float>() < 0) break;
  }
  return y;
}

void loop_of_fifty_turns(benchmark::State& state) {
  int64_t n_ops = state.range(0);
  Tensor x = ones({state.range(1)});
  auto f = compile([=](const Tensor& t) { return fifty_turns(t, n_ops); }, inductor);
  take_turns(
      state, [&] { benchmark::DoNotOptimize(fifty_turns(x, n_ops)); },
      [&] { benchmark::DoNotOptimize(f(x)); });
}
BENCHMARK(loop_of_fifty_turns)
    ->ArgNames({"operations", "n"})
    ->ArgsProduct({{2, 20}, {16, 256, 4096}})
    ->UseManualTime();

// ---- greedy decoding

constexpr int64_t width = 64, n_heads = 4, n_tokens = 128, longest = 256;

/// One transformer layer over one token, and what it has seen so far.
struct Decoder {
  Tensor embedding = randn({n_tokens, width}), positions = randn({longest, width}),
         unembedding = randn({width, n_tokens}) * 0.2, qkv = randn({width, 3 * width}) * 0.1,
         out = randn({width, width}) * 0.1, up = randn({width, 4 * width}) * 0.1,
         down = randn({4 * width, width}) * 0.1;
  Tensor keys = zeros({n_heads, 0, width / n_heads}), values = keys;

  void clear() { keys = values = zeros({n_heads, 0, width / n_heads}); }

  static Tensor heads_of(const Tensor& t) {
    return t.reshape({1, n_heads, width / n_heads}).transpose(0, 1);
  }

  /// The likeliest token behind `token`; the cache is one longer.
  int64_t next(int64_t token) {
    Tensor x = (embedding.select(0, token) + positions.select(0, keys.size(1))).unsqueeze(0);
    Tensor parts = layer_norm(x, {width}).matmul(qkv);
    Tensor q = heads_of(parts.narrow(1, 0, width));
    keys = cat({keys, heads_of(parts.narrow(1, width, width))}, 1);
    values = cat({values, heads_of(parts.narrow(1, 2 * width, width))}, 1);
    Tensor scores = softmax(q.matmul(keys.transpose(1, 2)) * 0.25, -1);
    Tensor seen = scores.matmul(values).transpose(0, 1).reshape({1, width});
    x = x + seen.matmul(out);
    x = x + gelu(layer_norm(x, {width}).matmul(up)).matmul(down);
    return x.matmul(unembedding).argmax().item<int64_t>();
  }
};

/// Decodes `longest` tokens; adds the time of each to `seconds`.
template <class Next>
void decode(Decoder& decoder, Next next, std::vector<std::vector<double>>& seconds) {
  decoder.clear();
  int64_t token = 1;
  for (auto& at_length : seconds) at_length.push_back(seconds_of([&] { token = next(token); }));
}

// The step is compiled; the cache is a member that it replaces. One text comes after another, so that
// most of them find their code in the processor's caches, plain or compiled.
void greedy_decoding(benchmark::State& state) {
  manual_seed(5);
  Decoder decoder;
  auto plain = [&](int64_t token) { return decoder.next(token); };
  auto compiled = compile(plain, inductor);
  std::vector<std::vector<double>> plain_s(longest), compiled_s(longest);
  for (int i = 0; i < 2; ++i) decode(decoder, compiled, compiled_s);
  compiled_s.assign(longest, {});
  constexpr int in_a_row = 4;
  for (auto _ : state) {
    for (int i = 0; i < in_a_row; ++i) decode(decoder, plain, plain_s);
    for (int i = 0; i < in_a_row; ++i) decode(decoder, compiled, compiled_s);
    double sum = 0;
    for (const auto& at_length : compiled_s) sum += at_length.back();
    state.SetIterationTime(sum);
  }
  double plain_sum = 0, compiled_sum = 0, worst = 0;
  for (size_t n = 0; n < plain_s.size(); ++n) {
    double p = median_of(plain_s[n]), c = median_of(compiled_s[n]);
    plain_sum += p;
    compiled_sum += c;
    if (c / p <= worst) continue;
    worst = c / p;
    state.counters["worst_length"] = static_cast<double>(n + 1);
  }
  state.counters["plain_us"] = plain_sum * 1e6;
  state.counters["over_plain"] = compiled_sum / plain_sum;
  state.counters["worst_over_plain"] = worst;
}
BENCHMARK(greedy_decoding)->UseManualTime()->Iterations(10);

// The loop over the tokens is in the body, which looks at each of them.
void greedy_decoding_in_one_body(benchmark::State& state) {
  manual_seed(5);
  Decoder decoder;
  auto body = [&](int64_t first) {
    decoder.clear();
    std::vector<int64_t> tokens{first};
    for (int64_t n = state.range(0); n > 0; --n) tokens.push_back(decoder.next(tokens.back()));
    return tokens;
  };
  auto compiled = compile(body, inductor);
  take_turns(
      state, [&] { benchmark::DoNotOptimize(body(1)); },
      [&] { benchmark::DoNotOptimize(compiled(1)); });
}
BENCHMARK(greedy_decoding_in_one_body)->Arg(1)->Arg(16)->Arg(64)->Arg(256)->UseManualTime();

// ---- threads

template <class F>
double seconds_in_eight_threads(const F& f) {
  return seconds_of([&] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back([&f] { f(ones({4})); });
    for (std::thread& t : threads) t.join();
  });
}

auto cut_body_that_waits() {
  return compile(
      [](const Tensor& x) {
        Tensor y = x * 2.0;
        if (y.sum().item<float>() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return y + 1.0;
      },
      inductor);
}

// Nobody waits for another's body: 50 ms are what one call takes alone.
void eight_threads_in_a_cut_body_of_50_ms(benchmark::State& state) {
  auto f = cut_body_that_waits();
  f(ones({4}));
  for (auto _ : state) state.SetIterationTime(seconds_in_eight_threads(f));
}
BENCHMARK(eight_threads_in_a_cut_body_of_50_ms)->UseManualTime()->Unit(benchmark::kMillisecond);

void eight_threads_in_a_cut_body_of_50_ms_for_the_first_time(benchmark::State& state) {
  cut_body_that_waits()(ones({4}));  // the kernels
  for (auto _ : state) state.SetIterationTime(seconds_in_eight_threads(cut_body_that_waits()));
}
BENCHMARK(eight_threads_in_a_cut_body_of_50_ms_for_the_first_time)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
