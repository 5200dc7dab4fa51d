// Functions of tests that are recorded: their launches, and what they have to give.
#pragma once

#include <tenon/cuda.h>
#include <tenon/tenon.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

/// The extension's table.
const tn_cuda_api& cuda_api();
/// "14: the text", or empty.
std::string told(tn_status* status);

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
    bool has_stream = true;  // its calls
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
