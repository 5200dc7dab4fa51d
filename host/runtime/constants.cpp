// Functions whose results never change: asking them, and keeping what they give.
#include "runtime/constants.h"

#include "core/tensor/tensor_impl.h"

#include <tenon/compiler.h>

#include <algorithm>

namespace tenon {

thread_local constinit const std::shared_ptr<Constants>* constants_of_call = nullptr;

namespace {

bool is_same(const Constants::Function& a, const Constants::Function& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

}  // namespace

Constants::Result Constants::find(const Function& function) const {
  std::lock_guard lock(lock_);
  for (const Kept& kept : kept_)
    if (is_same(kept.function, function)) return kept.result;
  return nullptr;
}

// Bodies may make such functions: those of earlier calls go, since nobody can ask them any more.
Constants::Result Constants::keep(const Function& function, Result result) {
  std::vector<Kept> gone;  // freed when the lock is: a result may be of any type
  std::lock_guard lock(lock_);
  auto first_gone =
      std::ranges::partition(kept_, [](const Kept& k) { return !k.function.expired(); });
  std::ranges::move(first_gone, std::back_inserter(gone));
  kept_.erase(first_gone.begin(), first_gone.end());
  for (const Kept& kept : kept_)
    if (is_same(kept.function, function)) return kept.result;
  return kept_.emplace_back(function, std::move(result)).result;
}

std::shared_ptr<Constants> constants_of_version() {
  return constants_of_call ? *constants_of_call : std::make_shared<Constants>();
}

// What the program keeps it may write on purpose, and a copy would be no leaf.
bool detail::is_made_for_result(const Tensor& t) {
  if (!t.defined() || t.is_fake() || t.requires_grad()) return false;
  auto is_single = [](const auto& object) { return object.references.load() == 1; };
  const Tensor& base = impl_of(t)->base;  // which a view keeps
  const int32_t own_references = base.defined() && is_single(*base.head()) ? 2 : 1;
  const StorageRef& storage = impl_of(t)->storage_ref;
  bool is_lent = storage && storage->deleter && t.device() == kCPU;
  return is_single(*t.head()) && storage && !is_lent &&
         storage->references.load() == own_references;
}

std::shared_ptr<const void> detail::constant_of_call(const std::shared_ptr<void>& function,
                                                     AskConstant ask) {
  const std::shared_ptr<Constants>* constants = constants_of_call;
  if (!constants && !is_recording()) return nullptr;
  if (constants)
    if (Constants::Result known = (*constants)->find(function)) return known;
  // Others that it calls are asked, too: the body does not get that far again.
  ConstantsScope none(nullptr);
  DisabledScope unrecorded{pause_recording()};
  Constants::Result result = ask(function.get());
  return constants ? (*constants)->keep(function, std::move(result)) : result;
}

}  // namespace tenon
