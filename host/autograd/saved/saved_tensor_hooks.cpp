// The stack of saved-tensor hooks of a thread.
#include "autograd/saved/saved_tensor_hooks.h"

#include "core/dispatch.h"
#include "core/error.h"
#include "core/sym/sym_int.h"

#include <tenon/thread_object.hpp>

#include <algorithm>
#include <utility>

namespace tenon::autograd {

namespace {

struct Hooks {
  SavedTensorHooks::Pack pack;
  UnpackVersion unpack;
  bool is_in_body;
};

std::vector<Hooks>& hooks_of_thread() { return ThreadObject<std::vector<Hooks>>::get(); }

thread_local constinit bool leaves_hooks_out = false;

}  // namespace

WithoutSavedTensorHooks::WithoutSavedTensorHooks()
    : before_(std::exchange(leaves_hooks_out, true)) {}
WithoutSavedTensorHooks::~WithoutSavedTensorHooks() { leaves_hooks_out = before_; }

void (*begin_saved_tensor_hooks_slot)() = nullptr;
void (*end_saved_tensor_hooks_slot)() = nullptr;

namespace {

void push_hooks(SavedTensorHooks::Pack pack, UnpackVersion unpack) {
  bool is_in_body = thread_modes.tracer != nullptr;
  if (is_in_body) begin_saved_tensor_hooks_slot();
  hooks_of_thread().push_back({std::move(pack), std::move(unpack), is_in_body});
}

void pop_hooks() {
  if (hooks_of_thread().back().is_in_body) end_saved_tensor_hooks_slot();
  hooks_of_thread().pop_back();
}

}  // namespace

HooksWithVersions::HooksWithVersions(SavedTensorHooks::Pack pack, UnpackVersion unpack) {
  push_hooks(std::move(pack), std::move(unpack));
}
HooksWithVersions::~HooksWithVersions() { pop_hooks(); }

// A hook of the program gives any tensor: nothing is known of the one that was saved.
SavedTensorHooks::SavedTensorHooks(Pack pack, Unpack unpack) {
  require(pack && unpack, "SavedTensorHooks: both pack and unpack must be given");
  push_hooks(std::move(pack), [unpack = std::move(unpack)](const std::shared_ptr<void>& data) {
    Tensor t = unpack(data);
    uint64_t version = t.defined() ? version_of(t) : 0;
    return Unpacked{std::move(t), version};
  });
}

SavedTensorHooks::~SavedTensorHooks() { pop_hooks(); }

namespace {

// What is expanded has no memory of its own, and a hook that copies gives it some.
Tensor expected_of(const Tensor& t) {
  if (t.is_fake()) return {};
  bool expanded =
      std::ranges::any_of(t.strides(), [](SymInt stride) { return stride.word() == 0; });
  return make_fake(expanded ? contiguous_meta(t.sizes(), t.dtype(), t.device()) : meta_of(t));
}

}  // namespace

bool packs_saved_tensors() { return !leaves_hooks_out && !hooks_of_thread().empty(); }

std::shared_ptr<const PackedTensor> pack(const Tensor& t) {
  if (!packs_saved_tensors()) return nullptr;
  std::vector<Hooks>& stack = hooks_of_thread();
  Hooks hooks = std::move(stack.back());  // what a hook saves does not go through it again
  stack.pop_back();
  auto packed = std::make_shared<PackedTensor>();
  try {
    NoGradGuard no_grad;
    packed->data = hooks.pack(t);
  } catch (...) {
    stack.push_back(std::move(hooks));
    throw;
  }
  packed->unpack_fn = hooks.unpack;
  packed->like = expected_of(t);
  stack.push_back(std::move(hooks));
  return packed;
}

namespace {

/// Code of the program that a node calls, whose ops go on the tape where gradients are on: a
/// checkpoint runs its function again.
struct AboveAutograd {
  uint64_t before = thread_modes.exclude;
  AboveAutograd() { thread_modes.exclude &= ~bit(Key::autograd); }
  ~AboveAutograd() { thread_modes.exclude = before; }
};

}  // namespace

Unpacked PackedTensor::unpack() const {
  AboveAutograd code_of_the_program;
  Unpacked given = unpack_fn(data);
  require(given.tensor.defined(), "the unpack hook of a saved tensor gave an undefined tensor");
  return given;
}

}  // namespace tenon::autograd
