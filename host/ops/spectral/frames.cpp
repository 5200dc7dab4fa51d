// Short-time Fourier transforms: of overlapping frames of a signal, and back.
#include "ops/spectral/fourier.h"

#include "core/sym/sym_int.h"
#include "ops/op.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/spectral.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

/// How a signal is cut into frames.
struct Frames {
  int64_t size, hop;
  Tensor window;  ///< of `size` elements; undefined: ones
};

Frames frames_of(std::string_view op, int64_t n_fft, std::optional<int64_t> hop_length,
                 std::optional<int64_t> win_length, const Tensor& window) {
  int64_t hop = hop_length.value_or(n_fft / 4), win = win_length.value_or(n_fft);
  require(n_fft > 0, "{}: n_fft must be positive, found {}", op, n_fft);
  require(hop > 0, "{}: hop_length must be positive, found {}", op, hop);
  require(win > 0 && win <= n_fft, "{}: win_length must be between 1 and n_fft = {}, found {}", op,
          n_fft, win);
  require(!window.defined() || (window.dim() == 1 && sizes_match(window.size(0), win)),
          "{}: window must have shape [{}], as win_length says", op, win);
  Frames out{n_fft, hop, window};
  if (win == n_fft) return out;
  if (!window.defined()) out.window = ones({SymInt(win)}, Dtype::f32);
  int64_t left = (n_fft - win) / 2;
  out.window = constant_pad_nd(out.window, {left, n_fft - win - left}, 0);
  return out;
}

Tensor padded(const Tensor& signal, int64_t by, std::string_view mode) {
  Tensor x = signal;
  while (x.dim() < 3) x = unsqueeze(x, 0);
  x = pad(x, {by, by}, mode);
  while (x.dim() > signal.dim()) x = squeeze(x, 0);
  return x;
}

struct StftOptions {
  bool normalized;
  std::optional<bool> onesided, return_complex, align_to_window;
};

Tensor stft_of(const Tensor& signal, const Frames& frames, const StftOptions& o) {
  require(signal.dim() == 1 || signal.dim() == 2,
          "stft: a signal or a batch of signals is expected, found shape {}", signal.sizes());
  require(!o.align_to_window.value_or(false), ErrorCode::unsupported,
          "stft: align_to_window is not supported; pad the signal instead");
  bool complex =
      is_complex(signal.dtype()) || (frames.window.defined() && is_complex(frames.window.dtype()));
  require(complex || o.return_complex,
          "stft: a real signal needs return_complex: true for complex results");
  require(bool(signal.size(-1) >= frames.size),
          "stft: a frame has {} elements, the signal {}; make n_fft smaller", frames.size,
          signal.size(-1));
  Tensor x = unfold(signal.dim() == 1 ? unsqueeze(signal, 0) : signal, -1, frames.size, frames.hop);
  if (frames.window.defined()) x = mul(x, frames.window);
  auto norm = static_cast<int64_t>(o.normalized ? FftNorm::by_root_n : FftNorm::none);
  bool onesided = o.onesided.value_or(!complex);
  require(!onesided || !complex, "stft: a complex signal has no onesided transform");
  Tensor out = complex ? _fft_c2c(as_transformable("stft", x, true), {2}, norm, true)
                       : _fft_r2c(as_transformable("stft", x, false), {2}, norm, onesided);
  out = transpose(out, 1, 2);
  if (signal.dim() == 1) out = squeeze(out, 0);
  return o.return_complex.value_or(complex) ? out : view_as_real(out);
}

Tensor stft_decomp(const Tensor& self, int64_t n_fft, std::optional<int64_t> hop_length,
                   std::optional<int64_t> win_length, const Tensor& window, bool normalized,
                   std::optional<bool> onesided, std::optional<bool> return_complex,
                   std::optional<bool> align_to_window) {
  return stft_of(self, frames_of("stft", n_fft, hop_length, win_length, window),
                 {normalized, onesided, return_complex, align_to_window});
}

Tensor centered_stft_decomp(const Tensor& self, int64_t n_fft, std::optional<int64_t> hop_length,
                            std::optional<int64_t> win_length, const Tensor& window, bool center,
                            std::string_view pad_mode, bool normalized,
                            std::optional<bool> onesided, std::optional<bool> return_complex,
                            std::optional<bool> align_to_window) {
  Tensor signal = center ? padded(self, n_fft / 2, pad_mode) : self;
  return stft_decomp(signal, n_fft, hop_length, win_length, window, normalized, onesided,
                     return_complex, align_to_window);
}

// The frames added up where they overlap, in a signal of `length`.
Tensor overlapped(const Tensor& frames, SymInt length, const Frames& cut) {
  return unfold_backward(frames, {frames.size(0), length}, 1, cut.size, cut.hop);
}

Tensor frames_back(const Tensor& spectrum, const Frames& cut, bool normalized, bool onesided,
                   bool return_complex) {
  auto norm = static_cast<int64_t>(normalized ? FftNorm::by_root_n : FftNorm::by_n);
  Tensor x = transpose(spectrum, 1, 2);
  if (return_complex) {
    require(!onesided, "istft: return_complex needs a spectrum that is not onesided");
    return _fft_c2c(x, {2}, norm, false);
  }
  if (!onesided) x = narrow(x, -1, 0, cut.size / 2 + 1);
  return _fft_c2r(x, {2}, norm, cut.size);
}

Tensor istft_decomp(const Tensor& self, int64_t n_fft, std::optional<int64_t> hop_length,
                    std::optional<int64_t> win_length, const Tensor& window, bool center,
                    bool normalized, std::optional<bool> onesided, std::optional<int64_t> length,
                    bool return_complex) {
  require(is_complex(self.dtype()) && (self.dim() == 2 || self.dim() == 3),
          "istft: a complex spectrum of 2 or 3 dimensions is expected, found {}", self);
  Frames cut = frames_of("istft", n_fft, hop_length, win_length, window);
  require(cut.hop <= win_length.value_or(n_fft),
          "istft: hop_length must be at most win_length = {}, found {}", win_length.value_or(n_fft),
          cut.hop);
  if (!cut.window.defined()) cut.window = ones({SymInt(n_fft)}, Dtype::f32);
  Tensor spectrum = self.dim() == 2 ? unsqueeze(self, 0) : self;
  bool half = onesided.value_or(!sizes_match(spectrum.size(1), n_fft));
  require(sizes_match(spectrum.size(1), half ? n_fft / 2 + 1 : n_fft),
          "istft: {} frequencies are expected, found {}", half ? n_fft / 2 + 1 : n_fft,
          spectrum.size(1));
  SymInt n_frames = spectrum.size(2), whole = (n_frames - 1) * cut.hop + n_fft;
  Tensor frames = mul(frames_back(spectrum, cut, normalized, half, return_complex), cut.window);
  Tensor squares = expand(mul(cut.window, cut.window), {SymInt(1), n_frames, SymInt(n_fft)});
  Tensor weights = overlapped(squares, whole, cut);
  SymInt start = center ? n_fft / 2 : 0;
  SymInt end = length ? start + *length : center ? whole - n_fft / 2 : whole;
  SymInt there = bool(end <= whole) ? end : whole;
  // Cut before they are divided: outside, weights of zero would make gradients of 0 / 0.
  weights = narrow(weights, 1, start, there - start);
  _assert_async(gt(amin(abs(weights)), 1e-11),
                "istft: the windows leave a gap; make hop_length smaller or pass center: true");
  Tensor out = div(narrow(overlapped(frames, whole, cut), 1, start, there - start), weights);
  if (bool(end > whole)) out = constant_pad_nd(out, {SymInt(0), end - whole}, 0);
  return self.dim() == 2 ? squeeze(out, 0) : out;
}

}  // namespace

static constexpr OpDef spectral_frames_rows[] = {
    {.schema = "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? "
               "window=None, bool normalized=False, bool? onesided=None, bool? "
               "return_complex=None, bool? align_to_window=None) -> Tensor",
     .decomp = fn<stft_decomp>},
    {.schema = "stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, "
               "Tensor? window=None, bool center=True, str pad_mode=\"reflect\", bool "
               "normalized=False, bool? onesided=None, bool? return_complex=None, bool? "
               "align_to_window=None) -> Tensor",
     .decomp = fn<centered_stft_decomp>},
    {.schema = "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? "
               "window=None, bool center=True, bool normalized=False, bool? onesided=None, int? "
               "length=None, bool return_complex=False) -> Tensor",
     .decomp = fn<istft_decomp>},
};

extern constinit const OpFamily op_family_spectral_frames{spectral_frames_rows};

}  // namespace tenon::ops
