// Weights in the form that the library reads fastest, made once for each version of a parameter.
#pragma once

#include <tenon/plugin.hpp>

#include <memory>
#include <mutex>
#include <vector>

namespace blas {

/// w[out, in], dense, as [in, out].
using Packed = std::vector<float>;
Packed pack(const tn_tensor* w);

/// The packed weights of one artifact. Threads: any.
class PackedWeights {
 public:
  /// Of the parameter that is input `input`. A parameter keeps its address and its contents from
  /// call to call until its version moves, so equal ids and versions mean that the copy is good.
  std::shared_ptr<const Packed> of(size_t input, const tn_tensor* w);

 private:
  struct Entry {
    uint64_t storage_id = 0, version = 0;
    int64_t offset = 0;
    std::shared_ptr<const Packed> packed;
  };
  std::mutex lock_;
  std::vector<Entry> entries_;  // by input
};

}  // namespace blas
