// What the statements of a body compute with: its arguments, what it captures and what it has
// computed.
#pragma once

#include "stateful_ops.h"
#include "stateful_program.h"

#include <algorithm>

namespace tenon::fuzz {

/// The operands of one run. With `noise` other than 0 what is computed or looked at is rounded
/// otherwise, by a few units in the last place. `story` receives what happens.
class Operands {
 protected:
  Operands(World& world, const Arguments& arguments, std::string* story, uint32_t noise)
      : w_(world),
        in_(arguments),
        story_(story),
        noise_(noise),
        locals_{arguments.x, arguments.y} {}

  Tensor& at(uint32_t k) {
    size_t n = k % (locals_.size() + w_.members.size() + 1 + w_.list.size());
    if (n < locals_.size()) return locals_[n];
    n -= locals_.size();
    if (n < w_.members.size()) return w_.members[n];
    return n == w_.members.size() ? w_.at->value : w_.list[n - w_.members.size() - 1];
  }

  std::string name_of(const Tensor& t) const {
    auto among = [&](std::string_view name, const auto& tensors) -> std::string {
      for (size_t i = 0; i < tensors.size(); ++i)
        if (&tensors[i] == &t) return message("{}{}", name, i);
      return "";
    };
    if (&t == &w_.at->value) return "at->value";
    return among("t", locals_) + among("member", w_.members) + among("list", w_.list);
  }

  void push(Tensor t) {
    note("t{} = {}", locals_.size(), story_ ? to_text(t) : "");
    locals_.push_back(std::move(t));
  }

  // Views stay what they are.
  void push_computed(Tensor t) { push(is_own(t) ? looked_at(t) : std::move(t)); }
  /// The tensor, or one with noise.
  Tensor looked_at(const Tensor& t) {
    if (noise_ == 0 || !is_of_floats(t)) return t;
    noise_ = noise_ * 1664525u + 1013904223u;
    return t * (1 + 1e-6 * (noise_ >> 30)) + 1e-7 * (noise_ >> 28 & 3);
  }
  bool is_own(const Tensor& t) const {
    auto is_apart = [&](const Tensor& other) {
      return other.head()->storage_id != t.head()->storage_id;
    };
    return std::ranges::all_of(locals_, is_apart) &&
           std::ranges::all_of(w_.tensors(), [&](const Tensor* other) { return is_apart(*other); });
  }

  template <class... A>
  void note(std::string_view format, const A&... args) {
    if (story_) *story_ += "  " + message(format, args...) + "\n";
  }
  template <class... A>
  void say(const Tensor& a, std::string_view format, const A&... args) {
    if (story_) note("{}: {}", name_of(a), message(format, args...));
  }

  World& w_;
  const Arguments& in_;
  std::string* story_;
  uint32_t noise_;
  Pool locals_;
};

}  // namespace tenon::fuzz
