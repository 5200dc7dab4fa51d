// What this machine does at most, with all threads of the host: what figures of kernels are
// compared with.
#pragma once

namespace inductor {

struct Peaks {
  double bytes_per_second;  // copying what no cache holds: read plus written
  double flops_per_second;  // f32 products whose operands stay in the first-level cache
};
/// Measured at the first call, which takes some hundredths of a second. Threads: any.
const Peaks& measured_peaks();

}  // namespace inductor
