// Casts of ops under autocast.
#pragma once

#include "ops/modes/autocast_state.h"
#include "ops/op_table.h"

#include <tenon/tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

namespace tenon {

/// A call as far as autocast looks at it.
struct CastCall {
  const OpEntry& op;
  DeviceType device;
  std::span<const Dtype> given;  ///< of its tensors
  bool names_dtype = false;      ///< it has an argument that says what to compute in
};
/// What floating arguments of the call are cast to when `lower` is set for its device; nothing: they
/// stay as they are. Throws UserError for ops that autocast refuses.
std::optional<Dtype> autocast_type(const CastCall& call, Dtype lower);
/// Whether an argument is cast: f64 and whole numbers are not.
inline bool autocast_casts(Dtype from, Dtype to) {
  return is_floating(from) && from != Dtype::f64 && from != to;
}

/// PyTorch's list for CUDA. `fp32_dtype`: as fp32, unless the call names its dtype; `refused`: may
/// overflow in short types, and has a form that does not.
enum class CudaCast : uint8_t { none, lower, fp32, fp32_dtype, promote, refused };
struct CudaCastRow {
  const char* op;
  CudaCast cast;
};
std::span<const CudaCastRow> cuda_cast_list();
CudaCast cast_on_cuda(const OpEntry& op);

/// What the autocast key does.
void run_autocast(const CallArgs& call);

struct KeptCast {
  Tensor leaf, cast;
  uint64_t version;
};
using KeptCasts = std::unordered_map<const void*, KeptCast>;

/// While a body is recorded, or followed: casts are kept for its operations, until it ends or writes what
/// may be a leaf. So what a plain run casts once is cast once in the graph. Not `keeps`: while code of the
/// body is compiled and runs, none are.
class CastsOfBody {
 public:
  explicit CastsOfBody(bool keeps = true);
  ~CastsOfBody();
  CastsOfBody(const CastsOfBody&) = delete;

  KeptCasts& kept() {
    if (!kept_) kept_ = std::make_unique<KeptCasts>();
    return *kept_;
  }
  void forget() { kept_.reset(); }
  bool has_any() const { return kept_ != nullptr; }

 private:
  friend CastsOfBody* casts_of_body();
  std::unique_ptr<KeptCasts> kept_;  // once there is one
  const bool keeps_;
  CastsOfBody* const outer_;
};
/// An operation of a body that is recorded, or followed.
void forget_written_casts(const CallArgs& call);

}  // namespace tenon
