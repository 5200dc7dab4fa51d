// How cuBLASLt computes one problem.
//
// Problem: the library knows matrices column by column, with one of two strides being 1; the loop
// IR has views. Model: a matrix whose rows are dense is the transposed one column by column, so the
// library is asked for result^T = right^T x left^T where the result's rows are dense, and each
// operand goes in as it lies, transposed or not. Nothing is copied.
#pragma once

#include "../measuring/tuning.h"
#include "library.h"
#include "problem.h"

#include <memory>
#include <mutex>

namespace inductor_cuda {

struct LtOptions {
  bool allows_tf32 = false;    // f32 operands are rounded to 19 bits
  bool deterministic = false;  // no sums in the order in which blocks come
};

/// What addresses are multiples of, in bytes; at most `best_alignment`.
struct Alignments {
  uint32_t left, right, added, result;
  auto operator<=>(const Alignments&) const = default;
};
constexpr uint32_t best_alignment = 16;
constexpr Alignments best_alignments{best_alignment, best_alignment, best_alignment,
                                     best_alignment};
constexpr int64_t most_workspace_bytes = int64_t{32} << 20;

struct LtDescriptions;

/// Threads: any.
class LtPlan {
 public:
  /// The library's first choice; null, with the reason, where it has none. Throws where it fails.
  /// Where there is `tuning`, the fastest of its first eight.
  static std::shared_ptr<const LtPlan> find(const Library& library, const Problem& problem,
                                            const Alignments& alignments, const LtOptions& options,
                                            int64_t workspace_bytes, std::string& why_not,
                                            const Tuning* tuning = nullptr);
  LtPlan(const Library& library, std::unique_ptr<LtDescriptions> descriptions, bool swaps);
  ~LtPlan();

  int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Enqueues. `pointers` are by buffer; `name` is for messages.
  void run(const Problem& problem, std::span<void* const> pointers, void* workspace,
           lt::Stream stream, const std::string& name) const;
  /// Enqueues another problem whose matrices lie in the same way, by the same algorithm; whether the
  /// library takes it. Throws where it cannot describe it.
  bool runs_another(const Problem& problem, const LtOptions& options,
                    std::span<void* const> pointers, void* workspace, int64_t workspace_bytes,
                    lt::Stream stream) const;

  /// All that decides about the plan of a problem.
  static std::string key_of(const Problem& problem, const LtOptions& options);
  /// What decides about the kernel that runs it, as far as one can see.
  std::string kernel_key(const Problem& problem) const;

 private:
  lt::Status enqueue(const LtDescriptions& descriptions, const Problem& problem,
                     std::span<void* const> pointers, void* workspace, int64_t workspace_bytes,
                     lt::Stream stream) const;
  void take(const lt::Candidate& candidate);
  size_t fastest(const Problem& problem, const LtOptions& options, const Tuning& tuning,
                 std::span<const lt::Candidate> candidates);

  const Library& library_;
  std::unique_ptr<LtDescriptions> descriptions_;
  bool swaps_;  // left and right
  lt::Algorithm algorithm_{};
  int64_t workspace_bytes_ = 0;
  mutable std::mutex guarding_bias_;  // guards the address in the description
};

}  // namespace inductor_cuda
