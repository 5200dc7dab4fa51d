// The ways of products.
#include "product_item.h"
#include "../vendor_library.h"

#include <algorithm>
#include <bit>

namespace inductor_cuda {

namespace {

uint32_t alignment_of(const void* address) {
  auto bits = reinterpret_cast<std::uintptr_t>(address) | best_alignment;
  return uint32_t{1} << std::countr_zero(bits);
}

Alignments alignments_of(const Problem& p, std::span<void* const> pointers) {
  uint32_t result = alignment_of(place_of(p.result, p.result_dtype, pointers));
  return {.left = alignment_of(place_of(p.left, p.dtype, pointers)),
          .right = alignment_of(place_of(p.right, p.dtype, pointers)),
          .added = p.added ? alignment_of(place_of(*p.added, p.result_dtype, pointers)) : result,
          .result = result};
}

// So that a recording changes addresses where it otherwise copies operands and results.
void tell_what_is_touched(const Device& device, const Problem& p, std::span<void* const> pointers,
                          void* workspace, tn_stream* stream) {
  std::vector<void*> touched{place_of(p.left, p.dtype, pointers),
                             place_of(p.right, p.dtype, pointers),
                             place_of(p.result, p.result_dtype, pointers)};
  if (p.bias) touched.push_back(place_of(*p.bias, p.bias_dtype, pointers));
  if (p.added) touched.push_back(place_of(*p.added, p.result_dtype, pointers));
  if (workspace) touched.push_back(workspace);
  tenon::plugin::check(
      device.api->note_foreign_work(stream, touched.data(), static_cast<uint32_t>(touched.size())));
}

}  // namespace

ProductItem::ProductItem(const CodeStore& store, const loopir::Program& program,
                         const loopir::Product& product, const Device& device,
                         const ProductOptions& options, const Tuning* tuning,
                         std::shared_ptr<const ProductsAhead> ahead, CodeStatistics& statistics)
    : product_(product), device_(device), options_(options), ahead_(std::move(ahead)) {
  library_ = Library::of(device, &why_no_library_);
  if (library_ && tuning && program.expressions.symbols.empty()) {
    Problem problem = problem_of(program, product_, {});
    std::string why_not;
    native_stream(device_, nullptr);  // it looks at the thread's device
    if (!problem.is_empty())
      tuned_ = LtPlan::find(*library_, problem, best_alignments, options_.library,
                            most_workspace_bytes, why_not, tuning);
  }
  if (library_) return;
  std::vector<int64_t> hints;
  for (const loopir::Symbol& s : program.expressions.symbols) hints.push_back(s.hint);
  own(store, problem_of(program, product_, hints), statistics);
}

std::shared_ptr<const OwnProduct> ProductItem::own(const CodeStore& store, const Problem& problem,
                                                   CodeStatistics& statistics) {
  std::lock_guard lock(making_);
  if (!own_)
    own_ = std::make_shared<const OwnProduct>(
        store, device_, OwnProduct::kernel_of(problem, options_.contracts), statistics);
  return own_;
}

std::shared_ptr<const ProductPlan> ProductItem::plan(const loopir::Program& program,
                                                     std::span<const int64_t> table) {
  auto out = std::make_shared<ProductPlan>();
  out->problem = problem_of(program, product_, table);
  if (out->problem.is_empty()) return out;
  if (library_) native_stream(device_, nullptr);  // it looks at the thread's device
  if (tuned_)
    out->by_library = tuned_;
  else if (library_)
    out->by_library = first_choice(out->problem, out->why_not);
  else
    out->why_not = why_no_library_;
  if (out->by_library) return out;
  CodeStatistics not_told;
  out->by_kernel = own({}, out->problem, not_told);
  std::lock_guard lock(making_);
  last_reason_ = out->why_not;
  return out;
}

// Who asks again, because planning ahead has failed, plans here.
std::shared_ptr<const LtPlan> ProductItem::first_choice(const Problem& problem,
                                                        std::string& why_not) {
  std::shared_ptr<const ProductsAhead> ahead;
  {
    std::lock_guard lock(making_);
    ahead.swap(ahead_);
  }
  if (auto known = ahead ? ahead->plan(problem) : std::nullopt) {
    why_not = known->why_not;
    return known->plan;
  }
  return LtPlan::find(*library_, problem, best_alignments, options_.library, most_workspace_bytes,
                      why_not);
}

// A view may begin anywhere. What the library then needs has no more memory than was planned.
std::shared_ptr<const LtPlan> ProductItem::for_alignments(const ProductPlan& plan,
                                                          const Alignments& found) {
  if (found == best_alignments) return plan.by_library;
  std::lock_guard lock(plan.guarding);
  if (auto known = plan.unaligned.find(found); known != plan.unaligned.end()) return known->second;
  std::string why_not;
  auto made = LtPlan::find(*library_, plan.problem, found, options_.library, plan.workspace_bytes(),
                           why_not);
  return plan.unaligned[found] = std::move(made);
}

void ProductItem::run(const ProductPlan& plan, std::span<void* const> pointers, void* workspace,
                      tn_stream* stream) {
  const Problem& p = plan.problem;
  if (p.is_empty()) return;
  if (!plan.by_library) return plan.by_kernel->run(p, pointers, stream);
  // The library works on the thread's device.
  lt::Stream native = native_stream(device_, stream);
  if (auto by_library = for_alignments(plan, alignments_of(p, pointers))) {
    LibraryWork work(device_, stream);
    by_library->run(p, pointers, workspace, native, product_.name);
    return tell_what_is_touched(device_, p, pointers, workspace, stream);
  }
  CodeStatistics not_told;
  own({}, p, not_told)->run(p, pointers, stream);
}

std::string ProductItem::why_own_kernel() const {
  std::lock_guard lock(making_);
  return library_ ? last_reason_ : why_no_library_;
}

void ProductItem::add_image(SavedImages& images) const {
  std::lock_guard lock(making_);
  if (own_) images.emplace(own_->code_name(), own_->image());
}

std::string ProductItem::ptx() const {
  std::lock_guard lock(making_);
  return own_ ? own_->ptx() : "";
}

}  // namespace inductor_cuda
