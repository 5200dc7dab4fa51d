// Control flow on data: conjugate gradients. The loop's end is a look at a tensor, which cuts the
// body into pieces; each piece is compiled once, however often the loop turns.
#include <tenon/tenon.h>

#include <cstdio>
#include <utility>

#include "expect.h"

using tenon::Tensor;

// Solves A x = b for symmetric positive definite A; returns x and the number of steps.
std::pair<Tensor, int> solve(const Tensor& A, const Tensor& b, float tolerance) {
  Tensor x = tenon::zeros_like(b), r = b, p = r, rs = r.dot(r);
  int steps = 0;
  while (rs.item<float>() > tolerance * tolerance && steps++ < 200) {
    Tensor Ap = A.matmul(p), a = rs / p.dot(Ap);
    x = x + a * p;
    r = r - a * Ap;
    Tensor next = r.dot(r);
    p = r + (next / rs) * p;
    rs = next;
  }
  return {x, steps};
}

Tensor positive_definite(int64_t n, double shift) {
  Tensor m = tenon::randn({n, n});
  return m.matmul(m.t()) / n + shift * tenon::eye(n);
}

int main() {
  auto compiled = tenon::compile(solve);
  Tensor b = tenon::randn({64});
  int64_t first_compiles = 0;
  for (double shift : {1.0, 4.0, 0.25}) {  // better and worse conditioned: other trip counts
    Tensor A = positive_definite(64, shift);
    auto [x, steps] = compiled(A, b, 1e-4f);
    double residual = (A.matmul(x) - b).abs().max().item<double>();
    std::printf("shift %.2f: %d steps, residual %.1e\n", shift, steps, residual);
    expect(residual < 1e-3, "the system is solved");
    if (first_compiles == 0) first_compiles = compiled.stats().compiles;
  }
  std::printf("%lld compiles\n", static_cast<long long>(compiled.stats().compiles));
  expect(compiled.stats().compiles == first_compiles, "other trip counts need no compile");
  expect(first_compiles <= 4, "one piece before the loop, its turns, and what follows");
}
