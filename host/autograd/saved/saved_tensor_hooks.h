// Saved-tensor hooks of this thread: what `SavedTensorHooks` sets up.
#pragma once

#include <tenon/autograd.h>
#include "core/tensor/tensor_impl.h"

namespace tenon::autograd {

/// What an unpack hook gives, and the version that it had when it was saved.
struct Unpacked {
  Tensor tensor;
  uint64_t version = 0;
  bool was_written() const { return version_of(tensor) != version; }
};
using UnpackVersion = std::function<Unpacked(const std::shared_ptr<void>&)>;

struct PackedTensor {
  std::shared_ptr<void> data;
  UnpackVersion unpack_fn;
  /// Without data, dense: what `unpack` most likely gives. Undefined for one that was a fake.
  Tensor like;
  /// Throws UserError when the hook gives an undefined tensor.
  Unpacked unpack() const;
};

/// As SavedTensorHooks, for the library itself, which knows the versions of what it gives.
class HooksWithVersions {
 public:
  HooksWithVersions(SavedTensorHooks::Pack pack, UnpackVersion unpack);
  ~HooksWithVersions();
  HooksWithVersions(const HooksWithVersions&) = delete;
};

/// While one lives, what nodes of this thread save goes through no hooks: for a tape that is not the
/// program's, as that of a graph which is compiled.
class WithoutSavedTensorHooks {
 public:
  WithoutSavedTensorHooks();
  ~WithoutSavedTensorHooks();
  WithoutSavedTensorHooks(const WithoutSavedTensorHooks&) = delete;

 private:
  bool before_;
};

/// Hooks begin and end in a body that is recorded or followed: between the two its operations run one by
/// one, since the tape of a graph is made when the body is over. Filled in by capture/outside.cpp.
extern void (*begin_saved_tensor_hooks_slot)();
extern void (*end_saved_tensor_hooks_slot)();

/// Whether what nodes of this thread save goes through hooks, which are code of the program.
bool packs_saved_tensors();
/// The tensor as the innermost hooks of this thread pack it; null where there are none.
std::shared_ptr<const PackedTensor> pack(const Tensor& t);

}  // namespace tenon::autograd
