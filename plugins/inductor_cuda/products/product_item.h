// A product of the schedule: which way it goes at which sizes, and its calls.
//
// Rules: cuBLASLt where it is there and has an algorithm, else the kernel of our own, whose code is
// made with the artifact where the library is missing, else when it is first needed.
#pragma once

#include "ahead.h"
#include "own_kernel.h"

#include <map>

namespace inductor_cuda {

struct ProductOptions {
  LtOptions library;
  bool contracts = true;
};

/// How it is done at some sizes. Threads: any.
struct ProductPlan {
  Problem problem;
  std::shared_ptr<const LtPlan> by_library;     // for addresses that are multiples of 16
  std::shared_ptr<const OwnProduct> by_kernel;  // else; null where there is nothing to do
  std::string why_not;                          // the library does it

  int64_t workspace_bytes() const { return by_library ? by_library->workspace_bytes() : 0; }
  mutable std::mutex guarding;                                            // guards the one below
  mutable std::map<Alignments, std::shared_ptr<const LtPlan>> unaligned;  // null: it has none
};

/// Threads: any.
class ProductItem {
 public:
  /// With `tuning` the library's algorithms are tried, where the sizes are numbers. `ahead` may have
  /// its plan, or be null.
  ProductItem(const CodeStore& store, const loopir::Program& program,
              const loopir::Product& product, const Device& device, const ProductOptions& options,
              const Tuning* tuning, std::shared_ptr<const ProductsAhead> ahead,
              CodeStatistics& statistics);

  std::shared_ptr<const ProductPlan> plan(const loopir::Program& program,
                                          std::span<const int64_t> table);
  /// Enqueues. `pointers` are by buffer; the workspace has the plan's bytes.
  void run(const ProductPlan& plan, std::span<void* const> pointers, void* workspace,
           tn_stream* stream);
  const loopir::Product& product() const { return product_; }
  /// Why the kernel of our own does it, at some sizes at least; empty: the library does it.
  std::string why_own_kernel() const;
  /// Of the kernel of our own, where there is one.
  std::string ptx() const;
  void add_image(SavedImages& images) const;

 private:
  std::shared_ptr<const OwnProduct> own(const CodeStore& store, const Problem& problem,
                                        CodeStatistics& statistics);
  std::shared_ptr<const LtPlan> first_choice(const Problem& problem, std::string& why_not);
  std::shared_ptr<const LtPlan> for_alignments(const ProductPlan& plan, const Alignments& found);

  loopir::Product product_;
  Device device_;
  ProductOptions options_;
  const Library* library_ = nullptr;
  std::string why_no_library_;
  std::shared_ptr<const LtPlan> tuned_;         // null: the library's first choice at each size
  mutable std::mutex making_;                   // guards the three below
  std::shared_ptr<const ProductsAhead> ahead_;  // until it was asked
  std::shared_ptr<const OwnProduct> own_;
  std::string last_reason_;
};

}  // namespace inductor_cuda
