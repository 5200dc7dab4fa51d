// Folds of blocks: into one number, or lane by lane into a block of them.
//
// Sums of f32 with a state in f64: chains within a block are at most n / 64 additions long, and what
// a block gives is added in f64, so that the error does not grow with the number of elements.
#pragma once

namespace blocks::BLOCKS_LEVEL {

BLOCKS_INLINE double log_sum_exp(double p, double q) {
  double high = p < q || q != q ? q : p, low = p < q || q != q ? p : q;
  if (magnitude(high) == __builtin_inf()) return high;
  return high + __builtin_log1p(__builtin_exp(low - high));
}

template <Fold fold, class S>
BLOCKS_INLINE S combined(S p, S q) {
  if constexpr (fold == Fold::sum) return Add::run(p, q);
  if constexpr (fold == Fold::product) return Mul::run(p, q);
  if constexpr (fold == Fold::minimum) return Min::run(p, q);
  if constexpr (fold == Fold::maximum) return Max::run(p, q);
  if constexpr (fold == Fold::any) return static_cast<S>(p | q);
  if constexpr (fold == Fold::all) return static_cast<S>(p & q);
  if constexpr (fold == Fold::log_sum_exp) return static_cast<S>(log_sum_exp(p, q));
}

/// The sums of so many chains become one, which goes into `out`.
template <Fold fold, int64_t chains, class T, class S>
BLOCKS_INLINE void join_chains(S& out, T* sums) {
  for (int64_t half = chains / 2; half > 4; half /= 2)
    for (int64_t k = 0; k < half; ++k) sums[k] = combined<fold, T>(sums[k], sums[k + half]);
  S whole[4];
  for (int64_t k = 0; k < 4; ++k)
    whole[k] = combined<fold, S>(static_cast<S>(sums[k]), static_cast<S>(sums[k + 4]));
  S low = combined<fold, S>(whole[0], whole[1]), high = combined<fold, S>(whole[2], whole[3]);
  out = combined<fold, S>(out, combined<fold, S>(low, high));
}

/// Independent chains, so that additions do not wait for each other and vectors are full; what is
/// left at the end. Their sums go into `out`.
template <Fold fold, int64_t chains, class T, class S>
BLOCKS_INLINE int64_t in_chains(S& out, const T* from, int64_t n) {
  T sums[chains];
  for (int64_t k = 0; k < chains; ++k) sums[k] = from[k];
  int64_t i = chains;
  for (; i + chains <= n; i += chains)
    for (int64_t k = 0; k < chains; ++k) sums[k] = combined<fold, T>(sums[k], from[i + k]);
  join_chains<fold, chains>(out, sums);
  return i;
}
/// The same chains, vector by vector: the compiler does not find those of a minimum by itself.
template <Fold fold, int64_t chains, class S>
BLOCKS_INLINE int64_t in_chains(S& out, const float* from, int64_t n) {
  constexpr int64_t count = chains / lanes;
  auto at = [&](int64_t i) -> Vector { return *reinterpret_cast<const InMemory*>(from + i); };
  Vector sums[count];
#pragma GCC unroll 16
  for (int64_t k = 0; k < count; ++k) sums[k] = at(k * lanes);
  int64_t i = chains;
  for (; i + chains <= n; i += chains)
#pragma GCC unroll 16
    for (int64_t k = 0; k < count; ++k)
      sums[k] = combined<fold, Vector>(sums[k], at(i + k * lanes));
#pragma GCC unroll 16
  for (int64_t half = count / 2; half > 0; half /= 2)
#pragma GCC unroll 16
    for (int64_t k = 0; k < half; ++k) sums[k] = combined<fold, Vector>(sums[k], sums[k + half]);
  float last[lanes];
  __builtin_memcpy(last, sums, sizeof last);
  if constexpr (lanes > 4)
    join_chains<fold, lanes>(out, last);
  else
    for (float x : last) out = combined<fold, S>(out, static_cast<S>(x));
  return i;
}

template <Fold fold, class T, class S>
void into_one(void* state, const void* x, int64_t n) {
  auto* from = static_cast<const T*>(x);
  S& out = *static_cast<S*>(state);
  int64_t i = 0;
  if constexpr (fold != Fold::log_sum_exp) {
    if (n >= 128) i = in_chains<fold, 64>(out, from, n);
    if (n - i >= 16) i += in_chains<fold, 16>(out, from + i, n - i);
  }
  int64_t left = n - i;
  if (left >= 3 && fold != Fold::log_sum_exp) {  // halves onto each other, as longer rows do
    T low = combined<fold, T>(from[i], from[i + 2]), high = from[i + 1];
    if (left > 3) high = combined<fold, T>(high, from[i + 3]);
    out = combined<fold, S>(out, static_cast<S>(combined<fold, T>(low, high)));
    i += left > 3 ? 4 : 3;
  }
  for (; i < n; ++i) out = combined<fold, S>(out, from[i]);
}

template <Fold fold, class T, class S>
void into_lanes(void* state, const void* x, int64_t n) {
  auto* out = static_cast<S*>(state);
  auto* from = static_cast<const T*>(x);
  BLOCKS_EACH out[i] = combined<fold, S>(out[i], from[i]);
}

template <Fold fold, class T>
void scan_one(void* state, const void* x, int64_t n) {
  auto* elements = static_cast<T*>(const_cast<void*>(x));
  T sum = *static_cast<T*>(state);
  for (int64_t i = 0; i < n; ++i) elements[i] = sum = combined<fold, T>(sum, elements[i]);
  *static_cast<T*>(state) = sum;
}
template <Fold fold, class T>
void scan_lanes(void* state, const void* x, int64_t n) {
  auto* sums = static_cast<T*>(state);
  auto* elements = static_cast<T*>(const_cast<void*>(x));
  BLOCKS_EACH elements[i] = sums[i] = combined<fold, T>(sums[i], elements[i]);
}

/// NaN beats all; of equal ones the first is taken.
template <Fold fold, class T>
BLOCKS_INLINE bool is_better(T x, int64_t at, T best, int64_t best_at) {
  bool better = fold == Fold::arg_max ? x > best : x < best;
  bool same = x == best;
  if constexpr (is_real<T>) {
    better = better || (x != x && best == best);
    same = same || (x != x && best != best);
  }
  return better || (same && static_cast<uint64_t>(at) < static_cast<uint64_t>(best_at));
}
template <Fold fold, class T, bool by_lanes>
void best_place(void* state, int64_t* at, const void* x, const int64_t* places, int64_t n) {
  auto* best = static_cast<T*>(state);
  auto* from = static_cast<const T*>(x);
  for (int64_t i = 0; i < n; ++i) {
    int64_t k = by_lanes ? i : 0;
    if (!is_better<fold, T>(from[i], places[i], best[k], at[k])) continue;
    best[k] = from[i];
    at[k] = places[i];
  }
}

// ---- which loop

template <Fold fold, class T>
Accumulate one_or_lanes(bool scans, bool by_lanes) {
  if (scans) return by_lanes ? scan_lanes<fold, T> : scan_one<fold, T>;
  return by_lanes ? into_lanes<fold, T, T> : into_one<fold, T, T>;
}

template <class T>
Accumulate fold_of(Fold fold, bool scans, bool by_lanes) {
  switch (fold) {
    case Fold::sum:
      return one_or_lanes<Fold::sum, T>(scans, by_lanes);
    case Fold::product:
      return one_or_lanes<Fold::product, T>(scans, by_lanes);
    case Fold::minimum:
      return one_or_lanes<Fold::minimum, T>(scans, by_lanes);
    case Fold::maximum:
      return one_or_lanes<Fold::maximum, T>(scans, by_lanes);
    default:
      break;
  }
  if constexpr (is_real<T>) {
    if (fold == Fold::log_sum_exp) return one_or_lanes<Fold::log_sum_exp, T>(scans, by_lanes);
  } else {
    if (fold == Fold::any) return one_or_lanes<Fold::any, T>(scans, by_lanes);
    if (fold == Fold::all) return one_or_lanes<Fold::all, T>(scans, by_lanes);
  }
  return nullptr;
}

// Truth: a sum is "any", a product "all".
Fold of_truth(Fold fold) {
  bool is_any = fold == Fold::sum || fold == Fold::maximum;
  bool is_all = fold == Fold::product || fold == Fold::minimum;
  return is_any ? Fold::any : is_all ? Fold::all : fold;
}

Accumulate find_fold(Fold fold, Type type, Type state, bool by_lanes) {
  if (fold == Fold::sum && type == Type::f32 && state == Type::f64)
    return by_lanes ? into_lanes<Fold::sum, float, double> : into_one<Fold::sum, float, double>;
  if (type == Type::truth) fold = of_truth(fold);
  return with_type(type, [&](auto x) { return fold_of<decltype(x)>(fold, false, by_lanes); });
}

Accumulate find_scan(Fold fold, Type type, bool by_lanes) {
  if (type == Type::truth) fold = of_truth(fold);
  return with_type(type, [&](auto x) { return fold_of<decltype(x)>(fold, true, by_lanes); });
}

AccumulatePlaces find_places(Fold fold, Type type, bool by_lanes) {
  return with_type(type, [&](auto x) -> AccumulatePlaces {
    using T = decltype(x);
    if (fold == Fold::arg_min)
      return by_lanes ? best_place<Fold::arg_min, T, true> : best_place<Fold::arg_min, T, false>;
    return by_lanes ? best_place<Fold::arg_max, T, true> : best_place<Fold::arg_max, T, false>;
  });
}

}  // namespace blocks::BLOCKS_LEVEL
