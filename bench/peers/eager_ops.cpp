// Times eager ops by request: the side of Tenon in bench/peers/eager_ops.py.
//
// Reads lines "NAME ELEMENTS" and answers each with the nanoseconds of one call, the least mean of
// some batches. "threads N" sets the number of threads. An unknown name is answered with "none".
#include <tenon/tenon.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <tuple>

using namespace tenon;

namespace {

/// An op ready to be called again and again.
using Call = std::function<Tensor()>;
using Maker = std::function<Call(int64_t n)>;

int64_t side(int64_t n) { return static_cast<int64_t>(std::sqrt(static_cast<double>(n))); }
Tensor square(int64_t n) { return randn({side(n), side(n)}); }
Tensor positive(int64_t n) { return rand({side(n), side(n)}) + 0.1; }
Tensor rows_of(int64_t n) { return randn({n / 64 > 0 ? n / 64 : 1, 64}); }
Tensor images(int64_t n) { return randn({1, 16, side(n / 16), side(n / 16)}); }

Tensor symmetric(int64_t n) {
  Tensor x = square(n);
  return x.matmul(x.t()) + eye(SymInt(side(n))) * side(n);
}
Tensor symmetric_batch(int64_t n) { return symmetric(256).expand({n / 256, 16, 16}).contiguous(); }

/// f of tensors that `parts` make, each by the number of elements.
template <class F, class... Part>
Maker made(F f, Part... parts) {
  return [=](int64_t n) -> Call {
    return [f, values = std::make_tuple(parts(n)...)] { return std::apply(f, values); };
  };
}
Tensor transposed(int64_t n) { return square(n).t(); }
Tensor row(int64_t n) { return randn({side(n)}); }
Tensor column(int64_t n) { return randn({side(n), 1}); }
Tensor bf16(int64_t n) { return square(n).to(Dtype::bf16); }
Tensor f16(int64_t n) { return square(n).to(Dtype::f16); }

template <class F>
Maker of_square(F f) {
  return [f](int64_t n) -> Call { return [f, x = square(n)] { return f(x); }; };
}
template <class F>
Maker of_made(Tensor (*make)(int64_t), F f) {
  return [make, f](int64_t n) -> Call { return [f, x = make(n)] { return f(x); }; };
}
template <class F>
Maker of_two(F f) {
  return [f](int64_t n) -> Call { return [f, x = square(n), y = positive(n)] { return f(x, y); }; };
}

const std::map<std::string, Maker>& makers() {
  using T = const Tensor&;
  static const std::map<std::string, Maker> all = {
      {"add", of_two([](T x, T y) { return x + y; })},
      {"mul", of_two([](T x, T y) { return x * y; })},
      {"div", of_two([](T x, T y) { return x / y; })},
      {"maximum", of_two([](T x, T y) { return maximum(x, y); })},
      {"gt", of_two([](T x, T y) { return x > y; })},
      {"pow", of_two([](T x, T y) { return y.pow(x); })},
      {"where", of_two([](T x, T y) { return where(x > y, x, y); })},
      {"lerp", of_two([](T x, T y) { return x.lerp(y, 0.3); })},
      {"add_row", made([](T x, T y) { return x + y; }, square, row)},
      {"add_column", made([](T x, T y) { return x + y; }, square, column)},
      {"mul_row", made([](T x, T y) { return x * y; }, square, row)},
      {"mul_column", made([](T x, T y) { return x * y; }, square, column)},
      {"mul_transposed", made([](T x, T y) { return x * y; }, square, transposed)},
      {"gelu_transposed", made([](T x) { return x.gelu(); }, transposed)},
      {"gelu_row", made([](T x) { return x.expand({x.size(0), x.size(0)}).gelu(); }, row)},
      {"gelu_bf16", made([](T x) { return x.gelu(); }, bf16)},
      {"gelu_f16", made([](T x) { return x.gelu(); }, f16)},
      {"add_f16", made([](T x) { return x + x; }, f16)},
      {"mul_bf16", made([](T x, T y) { return x * y; }, bf16, bf16)},
      {"softmax_bf16", made([](T x) { return x.softmax(-1); }, bf16)},
      {"sum_rows_bf16", made([](T x) { return x.sum({-1}); }, bf16)},
      {"amax_columns", made([](T x) { return x.amax({0}); }, square)},
      {"cumsum_columns", made([](T x) { return x.cumsum(0); }, square)},
      {"batch_norm", [](int64_t n) -> Call {
         return [x = images(n), w = ones({16}), b = zeros({16}), m = zeros({16}), v = ones({16})] {
           return batch_norm(x, w, b, m, v, false, 0.1, 1e-5, false);
         };
       }},
      {"add_transposed", of_two([](T x, T y) { return x + y.t(); })},
      {"relu", of_square([](T x) { return x.relu(); })},
      {"exp", of_square([](T x) { return x.exp(); })},
      {"tanh", of_square([](T x) { return x.tanh(); })},
      {"sigmoid", of_square([](T x) { return x.sigmoid(); })},
      {"gelu", of_square([](T x) { return x.gelu(); })},
      {"silu", of_square([](T x) { return x.silu(); })},
      {"sin", of_square([](T x) { return x.sin(); })},
      {"clamp", of_square([](T x) { return x.clamp(-0.5, 0.5); })},
      {"masked_fill", of_square([](T x) { return x.masked_fill(x > 0, 0); })},
      {"to_bf16", of_square([](T x) { return x.to(Dtype::bf16); })},
      {"add_bf16", made([](T x) { return x + x; }, bf16)},
      {"sum", of_square([](T x) { return x.sum(); })},
      {"sum_rows", of_square([](T x) { return x.sum({-1}); })},
      {"sum_columns", of_square([](T x) { return x.sum({0}); })},
      {"mean_rows", of_square([](T x) { return x.mean({-1}); })},
      {"var_rows", of_square([](T x) { return x.var({-1}, true); })},
      {"amax_rows", of_square([](T x) { return x.amax({-1}); })},
      {"argmax_rows", of_square([](T x) { return x.argmax(-1); })},
      {"softmax", of_square([](T x) { return x.softmax(-1); })},
      {"log_softmax", of_square([](T x) { return x.log_softmax(-1); })},
      {"layer_norm", [](int64_t n) -> Call {
         return [x = rows_of(n), w = ones({64}), b = zeros({64})] {
           return layer_norm(x, {64}, w, b);
         };
       }},
      {"cumsum", of_square([](T x) { return x.cumsum(-1); })},
      {"sort", of_square([](T x) { return std::get<0>(x.sort(-1)); })},
      {"topk", of_square([](T x) { return std::get<0>(x.topk(8, -1)); })},
      {"gather", [](int64_t n) -> Call {
         return [x = square(n), i = randint(side(n), {side(n), side(n)})] {
           return x.gather(1, i);
         };
       }},
      {"index_select", [](int64_t n) -> Call {
         return [x = rows_of(n), i = randint(std::max<int64_t>(n / 64, 1), {n / 64})] {
           return x.index_select(0, i);
         };
       }},
      {"scatter_add", [](int64_t n) -> Call {
         return [x = square(n), i = randint(side(n), {side(n), side(n)})] {
           return x.scatter_add(1, i, x);
         };
       }},
      {"cat", of_two([](T x, T y) { return cat({x, y}, 0); })},
      {"contiguous", of_square([](T x) { return x.t().contiguous(); })},
      {"matmul", of_two([](T x, T y) { return x.matmul(y); })},
      {"cholesky", of_made(symmetric, [](T x) { return linalg_cholesky(x); })},
      {"solve", [](int64_t n) -> Call {
         return [x = symmetric(n), y = square(n)] { return linalg_solve(x, y); };
       }},
      {"inv", of_made(symmetric, [](T x) { return linalg_inv(x); })},
      {"qr", of_square([](T x) { return std::get<0>(linalg_qr(x)); })},
      {"svd", of_square([](T x) { return std::get<0>(linalg_svd(x, false)); })},
      {"eigh", of_made(symmetric, [](T x) { return std::get<0>(linalg_eigh(x)); })},
      {"cholesky_batch", of_made(symmetric_batch, [](T x) { return linalg_cholesky(x); })},
      {"solve_batch", [](int64_t n) -> Call {
         return [x = symmetric_batch(n), y = randn({n / 256, 16, 1})] {
           return linalg_solve(x, y);
         };
       }},
      {"linear", [](int64_t n) -> Call {
         return [x = rows_of(n), w = randn({64, 64}), b = randn({64})] { return linear(x, w, b); };
       }},
      {"conv2d", [](int64_t n) -> Call {
         return [x = images(n), w = randn({16, 16, 3, 3})] {
           return conv2d(x, w, {}, {1, 1}, {1, 1});
         };
       }},
      {"max_pool2d", [](int64_t n) -> Call {
         return [x = images(n)] { return max_pool2d(x, {2, 2}); };
       }},
      {"avg_pool2d", [](int64_t n) -> Call {
         return [x = images(n)] { return avg_pool2d(x, {2, 2}); };
       }},
  };
  return all;
}

double seconds_of(const Call& call, int count) {
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Batches of about 5 ms, the least mean of ten.
double nanoseconds_of(const Call& call) {
  call();
  double once = seconds_of(call, 1);
  int count = std::max(1, static_cast<int>(0.005 / std::max(once, 1e-9)));
  double least = INFINITY;
  for (int batch = 0; batch < 10; ++batch) least = std::min(least, seconds_of(call, count) / count);
  return least * 1e9;
}

}  // namespace

int main() {
  NoGradGuard inference;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t n = 0;
    words >> name >> n;
    if (name == "threads") {
      config::set("compiler.threads", n);
      continue;
    }
    auto found = makers().find(name);
    if (found == makers().end())
      std::puts("none");
    else
      std::printf("%.1f\n", nanoseconds_of(found->second(n)));
    std::fflush(stdout);
  }
}
