// What happens to the state of a program between its calls, and the arguments of each call.
#pragma once

#include "stateful_ops.h"
#include "stateful_program.h"

namespace tenon::fuzz {

/// Tensors that have become large or infinite are small again.
inline void tame(Tensor& t) {
  bool is_tame = static_cast<bool>(t.numel() <= 64);
  if (is_tame)
    for (double v : t.detach().to(Dtype::f64).contiguous().to_vector<double>())
      is_tame = is_tame && std::fabs(v) < 1e4;
  if (!is_tame) t = full({3}, 0.75);
}

inline void change_state(World& w, const Statement& s) {
  Tensor &m = w.members[s.a % 4], &other = w.members[s.b % 4];
  NoGradGuard off;
  switch (s.op % 20) {
    case 0:
      m = m.clone() + 0.5;
      return;
    case 1:
      m = full({s.n % 3 + 1, 3}, 0.25 * (s.n % 7));
      return;
    case 2:
      m = m.to(m.dtype() == Dtype::f32 ? Dtype::f64 : Dtype::f32);
      return;
    case 3:
      std::swap(m, other);
      return;
    case 4:
      w.flags[s.a % 2] = !w.flags[s.a % 2];
      return;
    case 5:
      w.reals[s.a % 2] = 0.125 * (s.n % 17);
      return;
    case 6:
      w.wholes[s.a % 2] = s.n % 6;
      return;
    case 7:
      if (w.list.size() < 4) w.list.push_back(full({3}, 0.5 * (s.n % 5)));
      return;
    case 8:
      if (!w.list.empty()) w.list.pop_back();
      return;
    case 9:
      w.at = w.at == w.a ? w.b : w.a;
      return;
    case 10:
      w.at->value = full({3}, 0.5 * (s.n % 5));
      return;
    case 11:
      if (!is_expanded(m)) m.mul_(2);
      return;
    case 12:
      if (w.kept.size() < 3) w.kept.push_back(m);
      return;
    case 13:
      w.kept.clear();
      return;
    case 14:
      m = view_of(other, s.n % 6, s.n / 8, most_dims);
      return;
    case 15:
      m = other;
      return;
    case 16:
      w.at = std::make_shared<Cell>(*w.at);
      return;
    case 17:
      w.flags = {s.n % 2 == 0, s.n % 3 == 0};
      return;
    case 18:
      if (w.net) w.net->optimizer->lr = 0.05 * (s.n % 5);
      return;
    default:
      if (w.net) w.net = std::make_unique<Net>(s.n % 2 ? 0.5 : 0.0);
  }
}

inline Arguments make_arguments(World& w, const Statement& s) {
  constexpr int64_t rows_of[] = {4, 4, 4, 5, 3, 1, 2, 7};
  constexpr Dtype dtypes[] = {Dtype::f32, Dtype::f32, Dtype::f32, Dtype::f32,
                              Dtype::f32, Dtype::f64, Dtype::i64};
  int64_t rows = rows_of[s.a % 8];
  auto made = [&](SymIntList sizes) { return (randn(sizes) * 2).to(dtypes[s.b % 7]); };
  double rate = 0.5 * (s.n % 3);
  auto count = static_cast<int64_t>(s.n / 3 % 4);
  Tensor x = made({rows, 3});
  switch (s.op % 8) {
    case 0:
      return {x, x, rate, count};
    case 1:
      return {x, x.select(0, 0), rate, count};
    case 2:
      return {x, w.members[s.n % 4], rate, count};
    case 3:
      return {made({3, rows}).t(), made({3}), rate, count};
    case 4: {
      Tensor whole = made({rows + 1, 3});
      return {whole.narrow(0, 0, rows), whole.narrow(0, 1, rows), rate, count};
    }
    default:
      return {x, made({3}), rate, count};
  }
}

}  // namespace tenon::fuzz
