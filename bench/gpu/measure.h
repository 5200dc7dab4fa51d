// Times of calls on a GPU: medians between events around 20 calls, so that launches of the host are
// behind those of the device; "loop" is the wall time of a call back to back.
#pragma once

#include <tenon/devices.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace bench {

using tenon::Device;
using tenon::Dtype;
using tenon::Tensor;

inline constexpr Device gpu(tenon::DeviceType::cuda);

inline double median(std::vector<double> of) {
  std::nth_element(of.begin(), of.begin() + static_cast<long>(of.size() / 2), of.end());
  return of[of.size() / 2];
}

/// Microseconds on the device.
inline double device_time(const std::function<void()>& call) {
  constexpr int calls = 20, repetitions = 15;
  for (int i = 0; i < 3; ++i) call();
  tenon::synchronize(gpu);
  tenon::Stream stream = tenon::Stream::current(gpu);
  std::vector<double> all;
  for (int r = 0; r < repetitions; ++r) {
    tenon::Event begin(gpu, true), end(gpu, true);
    begin.record(stream);
    for (int i = 0; i < calls; ++i) call();
    end.record(stream);
    end.synchronize();
    all.push_back(begin.elapsed_ms(end) * 1e3 / calls);
  }
  return median(all);
}

/// Microseconds until one call is done.
inline double wall_us(const std::function<void()>& call) {
  tenon::synchronize(gpu);
  auto start = std::chrono::steady_clock::now();
  call();
  tenon::synchronize(gpu);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Microseconds of the host.
inline double loop_time(const std::function<void()>& call, int calls = 2000) {
  constexpr int repetitions = 15;
  for (int i = 0; i < std::min(calls, 100); ++i) call();
  tenon::synchronize(gpu);
  std::vector<double> all;
  for (int r = 0; r < repetitions; ++r) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    tenon::synchronize(gpu);
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    all.push_back(took.count() / calls);
  }
  return median(all);
}

/// `bytes` and `flops` of a call; 0: not told.
inline void report(const std::string& name, double us, double bytes, double flops = 0) {
  std::printf("%-44s %9.2f us", name.c_str(), us);
  if (bytes > 0) std::printf(" %8.0f GB/s", bytes / us / 1e3);
  if (flops > 0) std::printf(" %8.1f TFLOP/s", flops / us / 1e6);
  std::printf("\n");
  std::fflush(stdout);
}

/// Eagerly and compiled. One that fails is told, and the next goes on.
template <class F>
void measure(const std::string& name, double bytes, F f, const std::vector<Tensor>& inputs,
             double flops = 0) {
  try {
    report(name + " eager", device_time([&] { f(inputs); }), bytes, flops);
  } catch (const std::exception& e) {
    std::printf("%s eager: %s\n", name.c_str(), e.what());
  }
  try {
    auto compiled = tenon::compile([f](const std::vector<Tensor>& in) { return f(in); });
    report(name + " compiled", device_time([&] { compiled(inputs); }), bytes, flops);
  } catch (const std::exception& e) {
    std::printf("%s compiled: %s\n", name.c_str(), e.what());
  }
}

using Inputs = std::vector<Tensor>;

/// Products, layers and blocks of them.
void measure_products();
/// Networks, training steps, recordings.
void measure_models();
void measure_images();
void measure_training();
/// One launch of the driver.
void measure_launch();
/// The first calls of "pointwise", "bert" or "step".
void measure_compile(const std::string& what);

}  // namespace bench
