// Functions whose results never change: asking them, and keeping what they give.
#include "runtime/constants.h"

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
