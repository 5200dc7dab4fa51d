// What programs over several steps of small nets share.
#pragma once

#include "program.h"

namespace tenon::programs {

/// Two linear layers with weights that are always the same.
struct SmallNet : nn::Module {
  nn::Linear in, out;
  TENON_MODULE(SmallNet, in, out)
  SmallNet(int64_t a, int64_t b, int64_t c) : in(a, b), out(b, c) {
    set_simply(parameters(), 0.25);
  }
  Tensor forward(const Tensor& x) const { return out(in(x).relu()); }
};

inline void log_weights(Run& run, const nn::Module& m) {
  for (const Tensor& p : m.parameters()) run.log(p.detach());
}

/// For sums that are rounded in another order.
inline Tensor coarse(const Tensor& t) { return (t * 256).round(); }

}  // namespace tenon::programs
