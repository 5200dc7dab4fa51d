// What the kernels compute, and their launches by the table.
#include "float_kernels.h"

#include "core/tensor/tensor_impl.h"
#include "double.h"
#include "recorded_function.h"

#include <cstring>
#include <stdexcept>

using namespace tenon;

namespace {

void check(tn_status* status) {
  if (status) throw std::runtime_error(told(status));
}

tn_str str(std::string_view text) { return {text.data(), text.size()}; }

template <class T>
T arg(const FakeCudaLaunch& launch, size_t i) {
  return *static_cast<T*>(launch.args[i]);
}

// Elements of `a`, and of `b`, where there is one, become elements of y.
template <class F>
int32_t pointwise(const FakeCudaLaunch& launch, size_t n_arrays, F&& f) {
  auto n = arg<int64_t>(launch, n_arrays);
  for (size_t i = 0; i < n_arrays; ++i)
    if (!launch.may_touch(arg<float*>(launch, i), static_cast<size_t>(n) * sizeof(float)))
      return 700;
  auto* y = arg<float*>(launch, 0);
  auto* a = arg<float*>(launch, 1);
  for (int64_t i = 0; i < n; ++i) y[i] = f(y[i], a[i], i);
  return 0;
}

int32_t run_sum(const FakeCudaLaunch& l) {
  auto* b = arg<float*>(l, 2);
  return pointwise(l, 3, [&](float, float a, int64_t i) { return a + b[i]; });
}
int32_t run_add(const FakeCudaLaunch& l) {
  return pointwise(l, 2, [](float y, float a, int64_t) { return y + a; });
}
int32_t run_times(const FakeCudaLaunch& l) {
  auto number = arg<float>(l, 3);
  return pointwise(l, 2, [&](float, float a, int64_t) { return a * number; });
}
int32_t run_shift(const FakeCudaLaunch& l) {
  auto by = static_cast<float>(arg<uint64_t>(l, 3) % 64 + arg<uint64_t>(l, 4) % 4096);
  return pointwise(l, 2, [&](float, float a, int64_t) { return a + by; });
}

/// Parameters of a launch, each a word.
struct Words {
  std::vector<uint64_t> words;
  std::vector<tn_cuda_arg> info;

  Words& address(const Tensor& t) {
    return add(reinterpret_cast<uint64_t>(impl_of(t)->data), {TN_CUDA_ARG_ADDRESS, 8, 0, nullptr});
  }
  Words& add(uint64_t word, tn_cuda_arg about) {
    words.push_back(word);
    info.push_back(about);
    return *this;
  }
  Words& count(const Tensor& t) {
    return add(static_cast<uint64_t>(t.numel()), {TN_CUDA_ARG_VALUE, 8, 0, nullptr});
  }
  void launch(tn_cuda_kernel* kernel, const tn_call& c, bool is_told = true, uint32_t flags = 0) {
    std::vector<void*> places;
    for (uint64_t& word : words) places.push_back(&word);
    tn_cuda_launch how{};
    how.struct_size = sizeof how;
    how.grid[0] = how.grid[1] = how.grid[2] = 1;
    how.block[0] = 32;
    how.block[1] = how.block[2] = 1;
    how.stream = c.stream;
    how.flags = flags;
    how.args = places.data();
    how.arg_info = is_told ? info.data() : nullptr;
    how.n_args = static_cast<uint32_t>(info.size());
    check(cuda_api().launch(kernel, &how));
  }
};

}  // namespace

FloatKernels::FloatKernels() {
  code_.add("sum", {{8, 8, 8, 8}, run_sum});
  code_.add("add", {{8, 8, 8}, run_add});
  code_.add("times", {{8, 8, 8, 8}, run_times});
  code_.add("shift", {{8, 8, 8, 8, 8}, run_shift});
  check(cuda_api().module_load(0, str("host kernels of floats"), &module_));
  auto find = [&](const char* name, tn_cuda_kernel** out) {
    check(cuda_api().kernel(module_, str(name), out));
  };
  find("sum", &sum_);
  find("add", &add_);
  find("times", &times_);
  find("shift", &shift_);
}

FloatKernels::~FloatKernels() {
  synchronize(gpu);
  cuda_api().module_release(module_);
}

void FloatKernels::sum(tn_call& c, const Tensor& y, const Tensor& a, const Tensor& b, Known known) {
  Words().address(y).address(a).address(b).count(y).launch(sum_, c, known == Known::yes);
}
void FloatKernels::sum_and_wait(tn_call& c, const Tensor& y, const Tensor& a, const Tensor& b) {
  Words().address(y).address(a).address(b).count(y).launch(sum_, c, true, TN_CUDA_LAUNCH_WAIT);
}
void FloatKernels::add(tn_call& c, const Tensor& y, const Tensor& a) {
  Words().address(y).address(a).count(y).launch(add_, c);
}
void FloatKernels::times(tn_call& c, const Tensor& y, const Tensor& a, const float* source) {
  uint64_t word = 0;
  std::memcpy(&word, source, sizeof *source);
  Words()
      .address(y)
      .address(a)
      .count(y)
      .add(word, {TN_CUDA_ARG_NUMBER, 8, 4, source})
      .launch(times_, c);
}
void FloatKernels::shift_by_draw(tn_call& c, const Tensor& y, const Tensor& a, uint64_t seed,
                                 uint64_t offset) {
  Words()
      .address(y)
      .address(a)
      .count(y)
      .add(seed, {TN_CUDA_ARG_SEED, 8, 0, nullptr})
      .add(offset, {TN_CUDA_ARG_OFFSET, 8, 0, nullptr})
      .launch(shift_, c);
}
