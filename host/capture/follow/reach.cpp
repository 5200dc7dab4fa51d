// Looking at what is held.
#include "capture/follow/reach.h"

#include <algorithm>
#include <utility>

namespace tenon {

// By anybody but the frame.
static bool is_held(const Tensor& t) {
  return t.defined() && t.head()->references.load(std::memory_order_relaxed) > 1;
}

// Another path numbers the objects in another way.
void Reach::look_at_path() {
  if (std::exchange(path_, &at_.path()) == &at_.path()) return;
  objects_.clear();
  held_.clear();
  n_looked_at_ = 0;
}

std::span<const uint32_t> Reach::objects(size_t n_parts) {
  look_at_path();
  uint32_t end = n_parts ? at_.path().parts()[n_parts - 1].end_object : 0;
  objects_.reserve(objects_.size() + end - n_looked_at_);
  at_.each_object_of_body([this](uint32_t o) { objects_.push_back(o); }, n_looked_at_, end);
  n_looked_at_ = end;
  std::erase_if(objects_, [this](uint32_t o) {
    const Tensor& fake = at_.frame().objects[o];
    ValueOrigin origin = at_.path().objects()[o].origin;
    if (origin.kind == ValueOrigin::Kind::leaf || is_held(fake)) return false;
    return origin.kind != ValueOrigin::Kind::implicit || !is_held(at_.frame().slots[origin.index]);
  });
  return objects_;
}

// A variable that the body assigns to gets back what it held, should the call fail.
bool Reach::lets_go_of_slot(uint32_t slot) const {
  using Source = ImplicitInput::Source;
  const Tensor& t = at_.frame().slots[slot];
  if (is_held(t) || at_.version().recording->implicit[slot].source != Source::held) return false;
  hollow_out(t);
  return true;
}

// What the body holds then is looked at again, behind the next parts or whenever it has doubled.
void Reach::let_go_behind(const Path::Part& part) {
  look_at_path();
  std::span<const Tensor> fakes = at_.frame().objects;
  std::span<const Path::Object> objects = at_.path().objects();
  auto lets_go = [&](uint32_t o) {
    if (is_held(fakes[o])) return false;
    ValueOrigin origin = objects[o].origin;
    if (origin.kind == ValueOrigin::Kind::implicit) return lets_go_of_slot(origin.index);
    Tensor freed = std::move(impl_of(fakes[o])->extra->concrete);
    return true;
  };
  constexpr size_t few = 8;
  if (!held_.empty() && (held_.size() <= few || held_.size() >= next_look_)) {
    std::erase_if(held_, lets_go);
    next_look_ = 2 * held_.size();
  }
  for (uint32_t o : part.last_uses)
    if (!lets_go(o)) held_.push_back(o);
}

}  // namespace tenon
