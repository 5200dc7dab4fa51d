// Products and convolutions of which everything but the addresses is fixed before the first call.
//
// Problem: a compiled graph calls the same few products and convolutions again and again, and what
// they cost beside the arithmetic is time: plans that are looked up, weights that are packed,
// results that are read again for an activation.
//
// Method: make() fixes shape, strides, what is done to a convolution's result (PostOp) and how the
// work is cut for so many workers, and makes oneDNN's one-thread primitives. The caller packs the
// weights into memory of its own, once. Then run() does one slice: no look-up, no lock, no
// allocation of ours but scratch memory of the thread, which grows to the largest tile that it has
// seen (oneDNN itself makes a small table of the arguments). Slices write different parts of the
// result and may run on any threads at the same time, also for two calls at once.
//
// make() gives null where oneDNN has no fast kernel for all of it: for the shape, for the dtype on
// this CPU, or for these post-ops. With fewer post-ops there may be one.
//
// Nothing here needs the host: the workers are a parameter, and the caller spreads the slices.
// Results do not depend on the threads that run them; the cut depends on `workers`, and another
// cut may differ in the last bits.
#pragma once

#include <tenon/plugin.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace onednn {

/// Applied to the result in f32, in order, after the bias and before the rounding to the dtype.
/// Errors measured for |x| <= 12: tanh, sigmoid, silu 3e-7 relative; gelu 5e-7 absolute, so that
/// its small results for x < -3 have few correct digits, as in any 1 + erf(x) in f32.
enum class PostOp {
  relu,
  gelu,
  tanh,
  sigmoid,
  silu,
  hardswish,    ///< x * clip(x + 3, 0, 6) / 6
  hardsigmoid,  ///< clip(x + 3, 0, 6) / 6
  add,          ///< of an operand with the sizes, strides and dtype of the result
};

// ---- source[m, k] x weights + bias -> result[m, n]

struct InnerProductShape {
  int32_t dtype;  ///< of all tensors, the bias too: TN_F32 or TN_BF16
  int64_t m, k, n;
  bool bias = false;
};

/// Of a dense source, into a dense result.
class PreparedInnerProduct {
 public:
  static std::shared_ptr<const PreparedInnerProduct> make(const InnerProductShape& shape,
                                                          int64_t workers);
  ~PreparedInnerProduct();

  /// The packed weights: how many bytes, best aligned to 64, only read after they were packed.
  size_t packed_bytes() const;
  /// From weights with element (n, k) at these strides.
  void pack(const void* weights, int64_t n_stride, int64_t k_stride, void* packed) const;
  /// The same in parts, which may be packed on any threads at the same time.
  int64_t pack_parts() const;
  void pack_part(int64_t part, const void* weights, int64_t n_stride, int64_t k_stride,
                 void* packed) const;
  /// Two that agree in this and in k and n can share packed weights.
  uint64_t packed_layout() const;

  int64_t slices() const;
  /// What of the result a slice writes: a caller can go on with it while it is in the cache.
  struct Piece {
    int64_t row, rows, column, columns;
  };
  Piece piece(int64_t slice) const;
  /// Runs one slice on this thread. All addresses are those of whole tensors; `bias` is read where
  /// the shape has one.
  void run(int64_t slice, const void* source, const void* packed, const void* bias,
           void* result) const;

 private:
  struct Plan;
  explicit PreparedInnerProduct(std::unique_ptr<const Plan> plan);
  std::unique_ptr<const Plan> plan_;
};

// ---- convolution, channels first or last

/// Space is depth, height and width; of fewer dimensions the first ones have length 1 and kernel 1.
struct ConvolutionShape {
  int32_t dtype;  ///< of all tensors: TN_F32 or TN_BF16
  int64_t images, channels, out_channels;
  int64_t source[3], result[3];  ///< lengths
  int64_t kernel[3], stride[3], padding[3], dilation[3];
  int64_t groups;
  bool bias;
  int64_t source_strides[5], result_strides[5];  ///< n, c, d, h, w
  bool has_wide_bias = false;                    ///< in f32, whatever the dtype

  int32_t bias_dtype() const { return has_wide_bias ? int32_t{TN_F32} : dtype; }
  /// The first dimension of space that oneDNN is told of.
  int first() const { return source[0] == 1 && result[0] == 1 && kernel[0] == 1 ? 1 : 0; }
  bool is_depthwise() const { return groups > 1 && groups == channels; }
  int64_t weights() const {
    return out_channels * (channels / groups) * kernel[0] * kernel[1] * kernel[2];
  }
  /// How far the last window reaches over the end of a dimension; negative: it ends before.
  int64_t padding_behind(int d) const {
    return (result[d] - 1) * stride[d] + (kernel[d] - 1) * dilation[d] + 1 - source[d] - padding[d];
  }
  /// Whether windows and padding stay within the 32 bits of oneDNN's kernels, which trust them.
  bool fits_32_bits() const;
  int64_t multiply_adds() const { return images * result[0] * result[1] * result[2] * weights(); }
};

class PreparedConvolution {
 public:
  /// oneDNN 2.6 has fast code for one `add`; for two make() gives null.
  static std::shared_ptr<const PreparedConvolution> make(const ConvolutionShape& shape,
                                                         std::span<const PostOp> post_ops,
                                                         int64_t workers);
  ~PreparedConvolution();

  size_t packed_bytes() const;
  /// Weights [out_channels, channels / groups, kernel...] at these strides.
  void pack(const void* weights, const int64_t (&strides)[5], void* packed) const;
  int64_t pack_parts() const;
  void pack_part(int64_t part, const void* weights, const int64_t (&strides)[5],
                 void* packed) const;
  uint64_t packed_layout() const;

  int64_t slices() const;
  /// Rows are those of the dimension first().
  struct Piece {
    int64_t image, row, rows, channel, channels;
  };
  Piece piece(int64_t slice) const;
  /// As above. `operand`: of `add`; it may be the result itself, else it must not overlap it.
  void run(int64_t slice, const void* source, const void* packed, const void* bias,
           const void* operand, void* result) const;

 private:
  struct Plan;
  explicit PreparedConvolution(std::unique_ptr<const Plan> plan);
  std::unique_ptr<const Plan> plan_;
};

// ---- result = alpha * source[..., m, k] x other[..., k, n] + beta * result (+ bias[n])

struct BatchedProductShape {
  int32_t dtype;
  std::vector<int64_t> batch;  ///< sizes of the batch dimensions, at most four
  int64_t m, k, n;
  std::vector<int64_t> source_strides, other_strides;  ///< batch dimensions, then the last two
  /// Empty: dense. Else the last is 1; rows that are not dense cost a copy of each slice.
  std::vector<int64_t> result_strides = {};
  float alpha = 1, beta = 0;  ///< with a bias alpha is 1
  bool bias = false;
};

class PreparedBatchedProduct {
 public:
  static std::shared_ptr<const PreparedBatchedProduct> make(const BatchedProductShape& shape,
                                                            int64_t workers);
  ~PreparedBatchedProduct();

  int64_t slices() const;
  /// A range of one dimension of [batch..., m, n]; the others are whole.
  struct Piece {
    size_t dimension;
    int64_t begin, length;
  };
  Piece piece(int64_t slice) const;
  void run(int64_t slice, const void* source, const void* other, void* result,
           const void* bias = nullptr) const;

 private:
  struct Plan;
  explicit PreparedBatchedProduct(std::unique_ptr<const Plan> plan);
  std::unique_ptr<const Plan> plan_;
};

}  // namespace onednn
