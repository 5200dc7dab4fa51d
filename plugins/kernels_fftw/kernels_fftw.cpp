// kernels_fftw: Fourier transforms on the CPU.
//
// Problem: transform some dimensions of a tensor, all others are a batch.
// Method: FFTW's guru interface takes inputs of any strides; results are row-major. A plan is made
// for one slice of the first batch dimension and runs for each, on the host's threads, when there
// is enough to do; else one plan is for all. Plans are estimated, not measured, so that results do
// not depend on the machine's load; the last ones are kept, since making one takes longer than a
// short transform. Memory that is aligned as FFTW's vector code wants it has plans of its own.
// Such plans walk over large strides as they are, where the cache keeps few lines of a power of
// two: columns of large images are brought into a buffer and back, a few at a time. Real input with
// a result of all elements is half transformed, half mirrored.
// Cost: O(n log n) an element of the batch, whatever the factors of n.
#include <tenon/plugin.hpp>

#include <fftw3.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

using namespace tenon::plugin;

namespace {

using Dims = std::vector<fftw_iodim64>;

std::mutex planning;  // FFTW's planner is one for the process

template <class T>
struct Fftw;

#define TENON_FFTW(type, prefix)                              \
  template <>                                                 \
  struct Fftw<type> {                                         \
    using Complex = prefix##_complex;                         \
    using Plan = prefix##_plan;                               \
    static constexpr auto c2c = prefix##_plan_guru64_dft;     \
    static constexpr auto r2c = prefix##_plan_guru64_dft_r2c; \
    static constexpr auto c2r = prefix##_plan_guru64_dft_c2r; \
    static constexpr auto run_c2c = prefix##_execute_dft;     \
    static constexpr auto run_r2c = prefix##_execute_dft_r2c; \
    static constexpr auto run_c2r = prefix##_execute_dft_c2r; \
    static constexpr auto destroy = prefix##_destroy_plan;    \
  }
TENON_FFTW(float, fftwf);
TENON_FFTW(double, fftw);
#undef TENON_FFTW

enum class Kind { c2c, r2c, c2r };

/// A transform of `in` to `out`; places are in elements of each.
struct Job {
  Kind kind;
  bool forward;
  const tn_tensor* in;
  const tn_tensor* out;
  std::vector<int64_t> dims;
  Dims transformed, batch;
  bool in_place = false;
};

template <class T>
struct Plan {
  typename Fftw<T>::Plan plan;
  explicit Plan(typename Fftw<T>::Plan made) : plan(made) {}
  Plan(const Plan&) = delete;
  ~Plan() {
    std::lock_guard lock(planning);
    if (plan) Fftw<T>::destroy(plan);
  }
};

/// The plans of one type that were used last. Threads: safe.
template <class T>
class Plans {
 public:
  using Key = std::vector<int64_t>;
  /// The plan for `key`, made by `make` unless it is known.
  template <class F>
  std::shared_ptr<const Plan<T>> get(const Key& key, const F& make) {
    std::lock_guard lock(using_);
    auto known = std::ranges::find(plans_, key, &std::pair<Key, Shared>::first);
    if (known != plans_.end()) {
      plans_.splice(plans_.begin(), plans_, known);
      return plans_.front().second;
    }
    plans_.emplace_front(key, std::make_shared<Plan<T>>(make()));
    if (plans_.size() > most) plans_.pop_back();
    return plans_.front().second;
  }

 private:
  using Shared = std::shared_ptr<const Plan<T>>;
  static constexpr size_t most = 32;
  std::mutex using_;
  std::list<std::pair<Key, Shared>> plans_;  // the last one used first
};

template <class T>
typename Fftw<T>::Plan planned(const Job& job, const Dims& batch, T* from, T* to, bool aligned) {
  using F = Fftw<T>;
  auto* c_from = reinterpret_cast<typename F::Complex*>(from);
  auto* c_to = reinterpret_cast<typename F::Complex*>(to);
  int rank = static_cast<int>(job.transformed.size()), many = static_cast<int>(batch.size());
  const fftw_iodim64 *dims = job.transformed.data(), *others = batch.data();
  unsigned flags = FFTW_ESTIMATE | (aligned ? 0u : FFTW_UNALIGNED);
  std::lock_guard lock(planning);
  switch (job.kind) {
    case Kind::c2c:
      return F::c2c(rank, dims, many, others, c_from, c_to,
                    job.forward ? FFTW_FORWARD : FFTW_BACKWARD, flags);
    case Kind::r2c:
      return F::r2c(rank, dims, many, others, from, c_to, flags);
    case Kind::c2r:
      return F::c2r(rank, dims, many, others, c_from, to, flags);
  }
  return nullptr;
}

template <class T>
typename Plans<T>::Key key_of(const Job& job, const Dims& batch, bool aligned) {
  typename Plans<T>::Key key{static_cast<int64_t>(job.kind), job.forward, aligned, job.in_place,
                             static_cast<int64_t>(batch.size())};
  for (const Dims* dims : {&job.transformed, &batch})
    for (const fftw_iodim64& d : *dims) key.insert(key.end(), {d.n, d.is, d.os});
  return key;
}

/// Whether FFTW may use vectors for both, and for those that lie these distances (elements) apart.
template <class T>
bool is_aligned(const T* from, const T* to, int64_t in_step, int64_t out_step) {
  constexpr uintptr_t unit = 64;
  auto fits = [](uintptr_t address) { return address % unit == 0; };
  return fits(reinterpret_cast<uintptr_t>(from)) && fits(reinterpret_cast<uintptr_t>(to)) &&
         fits(static_cast<uintptr_t>(in_step) * sizeof(T)) &&
         fits(static_cast<uintptr_t>(out_step) * sizeof(T));
}

template <class T>
void execute(Kind kind, typename Fftw<T>::Plan plan, T* from, T* to) {
  using F = Fftw<T>;
  auto* c_from = reinterpret_cast<typename F::Complex*>(from);
  auto* c_to = reinterpret_cast<typename F::Complex*>(to);
  if (kind == Kind::c2c) F::run_c2c(plan, c_from, c_to);
  if (kind == Kind::r2c) F::run_r2c(plan, from, c_to);
  if (kind == Kind::c2r) F::run_c2r(plan, c_from, to);
}

template <class T>
Plans<T>& plans_of() {
  static auto* plans = new Plans<T>;
  return *plans;
}

template <class T>
void run_whole(const Job& job) {
  constexpr double enough = 1 << 16;  // elements of a slice that are worth a thread
  auto* from = static_cast<T*>(job.in->data);
  auto* to = static_cast<T*>(job.out->data);
  int64_t in_parts = job.kind == Kind::r2c ? 1 : 2, out_parts = job.kind == Kind::c2r ? 1 : 2;
  bool cut =
      !job.batch.empty() && job.batch[0].n > 1 && static_cast<double>(job.out->numel) >= 2 * enough;
  Dims inner(job.batch.begin() + (cut ? 1 : 0), job.batch.end());
  fftw_iodim64 outer = cut ? job.batch[0] : fftw_iodim64{1, 0, 0};
  bool aligned = is_aligned(from, to, outer.is * in_parts, outer.os * out_parts);
  auto kept = plans_of<T>().get(key_of<T>(job, inner, aligned),
                                [&] { return planned(job, inner, from, to, aligned); });
  auto plan = kept->plan;
  if (!plan) throw error(TN_INTERNAL, "FFTW has no plan for this transform");
  if (!cut) return execute(job.kind, plan, from, to);
  double slice = static_cast<double>(job.out->numel) / static_cast<double>(outer.n);
  auto grain = static_cast<int64_t>(std::max(1.0, enough / slice));
  parallel_for(0, outer.n, grain, [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i)
      execute(job.kind, plan, from + i * outer.is * in_parts, to + i * outer.os * out_parts);
  });
}

bool is_readable(const tn_tensor* t) {
  return t && t->device_type == TN_DEV_CPU && (t->data || t->numel == 0) &&
         !(t->flags & (TN_T_FAKE | TN_T_CONJ | TN_T_NEG));
}
bool is_double(const tn_tensor* t) { return t->dtype == TN_F64 || t->dtype == TN_C128; }

/// The dimensions to transform, in [0, rank).
std::vector<int64_t> dims_at(const kernel_call& call, const tn_tensor* t) {
  const tn_arg& a = call.args[1];
  std::vector<int64_t> dims =
      a.kind == TN_ARG_INT ? std::vector{a.u.i} : std::vector(a.u.ints, a.u.ints + a.count);
  for (int64_t& d : dims) d = d < 0 ? d + t->ndim : d;
  return dims;
}
int64_t number_at(const kernel_call& call, size_t i) { return call.args[i].u.i; }

/// The transform sizes are those of the real side, `whole`.
Job job_of(Kind kind, bool forward, const tn_tensor* in, const tn_tensor* out,
           const std::vector<int64_t>& dims) {
  Job job{kind, forward, in, out, dims, {}, {}};
  const tn_tensor* whole = kind == Kind::c2r ? out : in;
  auto place = [&](int64_t d) {
    return fftw_iodim64{whole->sizes[d], in->strides[d], out->strides[d]};
  };
  for (int64_t d : dims) job.transformed.push_back(place(d));
  for (int64_t d = 0; d < in->ndim; ++d)
    if (std::ranges::find(dims, d) == dims.end() && in->sizes[d] != 1)
      job.batch.push_back(place(d));
  return job;
}

// ---- columns

/// A line of the cache.
constexpr int64_t line = 64;

int64_t distance(const tn_tensor* t, int64_t d) {
  int64_t step = 1;
  for (int32_t k = static_cast<int32_t>(d) + 1; k < t->ndim; ++k) step *= t->sizes[k];
  return step;
}

bool is_row_major(const tn_tensor* t) {
  for (int32_t d = 0; d < t->ndim; ++d)
    if (t->sizes[d] != 1 && t->strides[d] != distance(t, d)) return false;
  return true;
}

/// Whether columns of a row-major complex tensor are long and lie where the cache keeps few lines
/// of each: plans then take up to 10 times as long. Elsewhere a buffer gains nothing.
bool has_long_columns(const tn_tensor* t, const std::vector<int64_t>& dims) {
  constexpr int64_t shortest = 1 << 18, unit = 1024;  // bytes
  int64_t item = is_double(t) ? 16 : 8;
  return t->ndim > 0 && t->sizes[t->ndim - 1] > 1 && std::ranges::any_of(dims, [&](int64_t d) {
           int64_t step = distance(t, d) * item;
           return d + 1 < t->ndim && t->sizes[d] > 1 && step % unit == 0 &&
                  t->sizes[d] * step >= shortest;
         });
}

/// Transforms dimension `d` of row-major complex `from`, of the shape of `t`, into `to`, which may
/// be the same: as many columns at a time as have elements in one line.
template <class T>
void run_columns(const tn_tensor* t, bool forward, int64_t d, const T* from, T* to) {
  int64_t n = t->sizes[d], inner = distance(t, d);
  int64_t width = std::min<int64_t>(line / (2 * sizeof(T)), inner);
  int64_t blocks = (inner + width - 1) / width, outer = t->numel / (n * inner);
  auto memory = [&] {
    auto bytes = static_cast<size_t>((n * width * 2 * sizeof(T) + line - 1) / line * line);
    void* buffer = std::aligned_alloc(line, bytes);
    if (!buffer) throw std::bad_alloc();
    return std::unique_ptr<T, decltype(&std::free)>(static_cast<T*>(std::memset(buffer, 0, bytes)),
                                                    std::free);
  };
  auto any = memory();
  Job job{Kind::c2c, forward, t, t, {}, {{n, width, width}}, {{width, 1, 1}}, true};
  auto kept = plans_of<T>().get(key_of<T>(job, job.batch, true), [&] {
    return planned(job, job.batch, any.get(), any.get(), true);
  });
  if (!kept->plan) throw error(TN_INTERNAL, "FFTW has no plan for this transform");
  constexpr int64_t enough = 1 << 16;  // elements that are worth a thread
  int64_t grain = std::max<int64_t>(1, enough / (n * width));
  parallel_for(0, outer * blocks, grain, [&](int64_t lo, int64_t hi) {
    auto own = memory();
    T* buffer = own.get();
    for (int64_t b = lo; b < hi; ++b) {
      int64_t column = b % blocks * width, at = 2 * (b / blocks * n * inner + column);
      auto bytes = static_cast<size_t>(std::min(width, inner - column)) * 2 * sizeof(T);
      for (int64_t i = 0; i < n; ++i)
        std::memcpy(buffer + 2 * i * width, from + at + 2 * i * inner, bytes);
      execute(Kind::c2c, kept->plan, buffer, buffer);
      for (int64_t i = 0; i < n; ++i)
        std::memcpy(to + at + 2 * i * inner, buffer + 2 * i * width, bytes);
    }
  });
}

/// The same dimension by dimension: rows by plans, columns through a buffer. `in` is row-major, and
/// overwritten where results are real.
template <class T>
void run_apart(const Job& job, bool has_rows) {
  int64_t last = job.in->ndim - 1;
  bool to_real = job.kind == Kind::c2r;
  const tn_tensor* wide = to_real ? job.in : job.out;
  auto* to = static_cast<T*>(wide->data);
  const T* from = to_real ? to : static_cast<const T*>(job.in->data);
  auto rows = [&] { run_whole<T>(job_of(job.kind, job.forward, job.in, job.out, {last})); };
  if (has_rows && !to_real) rows(), from = to;
  for (int64_t d : job.dims)
    if (d != last && wide->sizes[d] > 1) run_columns(wide, job.forward, d, from, to), from = to;
  if (to_real) rows();
}

template <class T>
void run(const Job& job) {
  const tn_tensor* wide = job.kind == Kind::c2r ? job.in : job.out;
  int64_t last = job.in->ndim - 1;
  bool has_rows = std::ranges::find(job.dims, last) != job.dims.end();
  bool fits = job.kind == Kind::c2c || job.dims.back() == last;
  if (fits && is_row_major(job.in) && has_long_columns(wide, job.dims))
    run_apart<T>(job, has_rows);
  else
    run_whole<T>(job);
}

template <class T>
void scale(const tn_tensor* out, const Job& job, int64_t norm, bool complex) {
  double n = 1;
  for (const fftw_iodim64& d : job.transformed) n *= static_cast<double>(d.n);
  if (norm == 0) return;
  auto factor = static_cast<T>(norm == 1 ? 1 / std::sqrt(n) : 1 / n);
  auto* data = static_cast<T*>(out->data);
  parallel_for(0, out->numel * (complex ? 2 : 1), 1 << 16, [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i) data[i] *= factor;
  });
}

void transform(const Job& job, int64_t norm) {
  if (job.in->numel == 0 || job.out->numel == 0) return;
  bool complex = job.kind != Kind::c2r;
  if (is_double(job.in)) {
    run<double>(job);
    scale<double>(job.out, job, norm, complex);
  } else {
    run<float>(job);
    scale<float>(job.out, job, norm, complex);
  }
}

tensor copied(const tn_tensor* t, int32_t dtype) {
  tensor out = tensor::empty(sizes(t), dtype);
  out.copy_from(t);
  return out;
}

/// `t` itself, or a copy for a transform whose columns take row-major memory.
tensor in_rows(const tn_tensor* t, const std::vector<int64_t>& dims) {
  if (is_row_major(t) || !has_long_columns(t, dims))
    return tensor::share(const_cast<tn_tensor*>(t));
  return copied(t, t->dtype);
}

bool c2c(const kernel_call& call) {
  const tn_tensor* in = call.tensor_at(0);
  if (!is_readable(in)) return false;
  tensor out = tensor::empty(sizes(in), in->dtype);
  std::vector<int64_t> dims = dims_at(call, in);
  tensor own = in_rows(in, dims);
  if (dims.empty())
    out.copy_from(in);
  else
    transform(job_of(Kind::c2c, number_at(call, 3) != 0, own.get(), out.get(), dims),
              number_at(call, 2));
  call.give(0, std::move(out));
  return true;
}

/// Fills the result of a real tensor from its half along the last dimension: the element at -k is
/// the conjugate of that at k.
template <class T>
void mirror(const tn_tensor* half, const tn_tensor* out, const std::vector<int64_t>& dims) {
  int32_t last = out->ndim - 1;
  int64_t n = out->sizes[last], kept = half->sizes[last];
  auto twin_of = [&](int64_t row) {
    int64_t twin = 0, step = 1;
    for (int32_t d = last; d-- > 0; step *= out->sizes[d], row /= out->sizes[d]) {
      int64_t at = row % out->sizes[d];
      bool turns = at > 0 && std::ranges::find(dims, d) != dims.end();
      twin += step * (turns ? out->sizes[d] - at : at);
    }
    return twin;
  };
  parallel_for(0, out->numel / n, std::max<int64_t>(1, (1 << 15) / n), [&](int64_t lo, int64_t hi) {
    for (int64_t row = lo; row < hi; ++row) {
      T* to = static_cast<T*>(out->data) + 2 * row * n;
      const T* from = static_cast<const T*>(half->data);
      const T* twin = from + 2 * twin_of(row) * kept;
      std::copy_n(from + 2 * row * kept, 2 * kept, to);
      for (int64_t k = kept; k < n; ++k) {
        to[2 * k] = twin[2 * (n - k)];
        to[2 * k + 1] = -twin[2 * (n - k) + 1];
      }
    }
  });
}

tensor half_of_real(const tn_tensor* in, const std::vector<int64_t>& dims, int64_t norm) {
  std::vector<int64_t> shape(sizes(in).begin(), sizes(in).end());
  shape[dims.back()] = shape[dims.back()] / 2 + 1;
  tensor out = tensor::empty(shape, is_double(in) ? TN_C128 : TN_C64);
  tensor own = in_rows(in, dims);
  transform(job_of(Kind::r2c, true, own.get(), out.get(), dims), norm);
  return out;
}

tensor whole_of_real(const tn_tensor* in, const std::vector<int64_t>& given, int64_t norm) {
  std::vector<int64_t> dims = given;
  int32_t dtype = is_double(in) ? TN_C128 : TN_C64;
  tensor out = tensor::empty(sizes(in), dtype);
  auto last = std::ranges::find(dims, int64_t{in->ndim - 1});
  if (last == dims.end()) {
    tensor wide = copied(in, dtype);
    transform(job_of(Kind::c2c, true, wide.get(), out.get(), dims), norm);
    return out;
  }
  std::swap(*last, dims.back());
  tensor half = half_of_real(in, dims, norm);
  if (in->numel > 0) (is_double(in) ? mirror<double> : mirror<float>)(half.get(), out.get(), dims);
  return out;
}

bool r2c(const kernel_call& call) {
  const tn_tensor* in = call.tensor_at(0);
  if (!is_readable(in)) return false;
  bool onesided = number_at(call, 3) != 0;
  call.give(0,
            (onesided ? half_of_real : whole_of_real)(in, dims_at(call, in), number_at(call, 2)));
  return true;
}

// FFTW overwrites what it transforms to real numbers.
bool c2r(const kernel_call& call) {
  const tn_tensor* in = call.tensor_at(0);
  if (!is_readable(in)) return false;
  std::vector<int64_t> dims = dims_at(call, in), shape(sizes(in).begin(), sizes(in).end());
  shape[dims.back()] = number_at(call, 3);
  tensor out = tensor::empty(shape, is_double(in) ? TN_F64 : TN_F32);
  tensor own = copied(in, in->dtype);
  transform(job_of(Kind::c2r, false, own.get(), out.get(), dims), number_at(call, 2));
  call.give(0, std::move(out));
  return true;
}

constexpr kernel_row rows[] = {
    {"aten._fft_c2c.default", c2c},
    {"aten._fft_r2c.default", r2c},
    {"aten._fft_c2r.default", c2r},
};

}  // namespace

TENON_PLUGIN(p) { p.kernels(TN_DEV_CPU, rows); }
