// Which steps of a program have to run before which, while some of them become one.
//
// Model: for each step a bit for every other that must run before it, however far. Cost: the square
// of the steps in bits, and one walk over all steps for two that become one.
#pragma once

#include "loopir/program.h"

#include <cstdint>
#include <span>
#include <vector>

namespace loopir {

class StepOrder {
 public:
  /// What the steps of a program of `n_buffers` buffers read and write, in the program's order;
  /// `effects`: those that keep it among themselves.
  StepOrder(std::span<const Access> steps, size_t n_buffers, std::span<const uint32_t> effects);

  bool is_before(uint32_t first, uint32_t second) const { return before_[second].has(first); }
  /// Whether `from` must run before `to` because of a third step.
  bool has_detour(uint32_t from, uint32_t to) const;
  /// `kept` is both from now on.
  void join(uint32_t gone, uint32_t kept);
  /// The steps that are left, as dependencies allow, early ones first.
  std::vector<uint32_t> steps() const;

 private:
  /// A set of steps.
  class Bits {
   public:
    explicit Bits(size_t n) : words_((n + 63) / 64, 0) {}
    bool has(uint32_t i) const { return words_[i / 64] >> (i % 64) & 1; }
    void add(uint32_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
    void remove(uint32_t i) { words_[i / 64] &= ~(uint64_t{1} << (i % 64)); }
    void add(const Bits& other) {
      for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
    }

   private:
    std::vector<uint64_t> words_;
  };

  void wait(uint32_t step, uint32_t other);
  void keep_order(std::span<const uint32_t> effects);

  std::vector<Bits> before_;
  std::vector<bool> is_gone_;
};

}  // namespace loopir
