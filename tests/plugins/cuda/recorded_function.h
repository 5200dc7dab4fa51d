// Functions of tests that are recorded: their launches, and what they have to give.
#pragma once

#include "host_code.h"

#include <tenon/cuda.h>
#include <tenon/tenon.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

/// The extension's table.
const tn_cuda_api& cuda_api();
/// "14: the text", or empty.
std::string told(tn_status* status);

/// Kernels over float tensors: "sum" y = a + b, "add" y += a, "times" y = a * number.
class FloatKernels {
 public:
  FloatKernels();
  ~FloatKernels();

  enum class Known { yes, no };  // whether recordings are told what the parameters are
  void sum(tn_call& c, const tenon::Tensor& y, const tenon::Tensor& a, const tenon::Tensor& b,
           Known known = Known::yes);
  void add(tn_call& c, const tenon::Tensor& y, const tenon::Tensor& a);
  /// The number is read from `source`, four bytes of host memory.
  void times(tn_call& c, const tenon::Tensor& y, const tenon::Tensor& a, const float* source);
  /// y = a + the low bits of seed and offset.
  void shift_by_draw(tn_call& c, const tenon::Tensor& y, const tenon::Tensor& a, uint64_t seed,
                     uint64_t offset);

 private:
  HostCode code_;
  tn_cuda_module* module_ = nullptr;
  tn_cuda_kernel *sum_, *add_, *times_, *shift_;
};

/// New memory on the device, as a function's own code asks for it.
tenon::Tensor new_floats(std::vector<int64_t> sizes);
/// The tensor behind an input.
tenon::Tensor input(const tn_call& c, size_t i);

/// A function whose launches are `body`, which gives the outputs.
class RecordedFunction {
 public:
  using Body = std::function<std::vector<tenon::Tensor>(tn_call&)>;
  struct About {
    std::string name = "f";
    uint32_t flags = 0, outputs = TN_CUDA_OUTPUTS_FRESH;
    std::vector<uint32_t> inputs, results;  // flags of each
    uint32_t n_syms = 0, max_sizes = 0, rerecord_limit = 0, min_nodes = 0;
    std::vector<int64_t> capture_sizes;
    std::vector<tenon::Tensor> constants;
  };
  RecordedFunction(About about, Body body);
  ~RecordedFunction();
  RecordedFunction(const RecordedFunction&) = delete;

  /// Throws tenon::Error with what the function says.
  std::vector<tenon::Tensor> operator()(const std::vector<tenon::Tensor>& inputs,
                                        std::vector<int64_t> syms = {});
  /// How often `body` ran.
  int launches() const { return launches_; }
  /// A number of its report: "replays", or a counter of "direct".
  int count(const std::string& what) const;
  std::string report() const;

 private:
  static tn_status* launch(void* self, tn_call* c);

  About about_;
  Body body_;
  std::atomic<int> launches_{0};
  tn_cuda_function* function_ = nullptr;
};
