// Which kernels may stand side by side in one grid.
#include "groups.h"

#include <algorithm>

namespace inductor_cuda {

namespace {

class Grouping {
 public:
  Grouping(Parts& parts, const std::vector<bool>& is_static)
      : parts_(parts), is_static_(is_static) {}

  std::vector<std::vector<size_t>> run() {
    for (size_t item = 0; item < parts_.schedule.items.size(); ++item) {
      if (!is_fit(item)) {
        close();
        continue;
      }
      loopir::Access access = loopir::access_of(parts_.program, parts_.schedule.items[item]);
      by_place(access.reads), by_place(access.writes);
      if (!goes_with(item, access)) close();
      add(item, access);
    }
    close();
    return std::move(out_);
  }

 private:
  // What a launch has room for.
  static constexpr size_t most_members = 24, most_parameters = 400;
  static constexpr uint32_t most_loops = 1024;
  // More blocks are worth a launch, but for those of one code: a step of an optimiser.
  static constexpr int64_t most_blocks = 2048, most_blocks_alike = int64_t{1} << 20;

  const CompiledKernel& kernel(size_t item) const { return parts_.kernels.at(item); }

  bool is_fit(size_t item) const {
    if (!parts_.kernels.contains(item) || is_static_[item]) return false;
    const CompiledKernel& k = kernel(item);
    return k.plans.size() <= 2 && std::ranges::all_of(k.plans, [&](const KernelPlan& plan) {
             return !plan.has_checks && !plan.has_global_scratch() &&
                    plan.form.threads == k.plans[0].form.threads &&
                    parts_.program.expressions.hint(plan.blocks) <= most_blocks_alike;
           });
  }

  /// New values of inputs lie where the inputs do.
  void by_place(loopir::Ids& buffers) const {
    for (Id& b : buffers)
      for (const Update& u : parts_.updates)
        if (u.buffer == b) b = u.input;
  }

  bool is_large(const CompiledKernel& k) const {
    return parts_.program.expressions.hint(k.plans[0].blocks) > most_blocks;
  }

  /// Whether they seem to be one code; that they are is known once there is code.
  static bool are_alike(const CompiledKernel& a, const CompiledKernel& b) {
    const KernelPlan &one = a.plans[0], &other = b.plans[0];
    return a.plans.size() == b.plans.size() && one.form.kind == other.form.kind &&
           one.form.vector == other.form.vector && one.buffers.size() == other.buffers.size() &&
           one.numbers.size() == other.numbers.size() &&
           one.host_numbers.size() == other.host_numbers.size();
  }

  static bool meet(const loopir::Ids& a, const loopir::Ids& b) {
    return std::ranges::any_of(a, [&](Id i) { return std::ranges::find(b, i) != b.end(); });
  }

  static size_t parameters_of(const CompiledKernel& k) {
    const KernelPlan& plan = k.plans[0];
    return plan.buffers.size() + plan.host_numbers.size() + plan.numbers.size() + 2;
  }

  bool goes_with(size_t item, const loopir::Access& access) const {
    if (open_.empty()) return true;
    const CompiledKernel& k = kernel(item);
    auto* nest = std::get_if<loopir::Kernel>(&parts_.schedule.items[item]);
    bool is_free = !meet(access.writes, writes_) && !meet(access.writes, reads_) &&
                   !meet(access.reads, writes_);
    const CompiledKernel& first = kernel(open_[0]);
    bool is_apart = (is_large(k) || is_large(first)) && !are_alike(k, first);
    return is_free && !is_apart && open_.size() < most_members &&
           loops_ + nest->n_loops <= most_loops &&
           parameters_ + parameters_of(k) <= most_parameters &&
           k.plans[0].form.threads == kernel(open_[0]).plans[0].form.threads;
  }

  void add(size_t item, const loopir::Access& access) {
    open_.push_back(item);
    reads_.insert(reads_.end(), access.reads.begin(), access.reads.end());
    writes_.insert(writes_.end(), access.writes.begin(), access.writes.end());
    loops_ += std::get<loopir::Kernel>(parts_.schedule.items[item]).n_loops;
    parameters_ += parameters_of(kernel(item));
  }

  void close() {
    if (open_.size() > 1) out_.push_back(open_);
    open_.clear(), reads_.clear(), writes_.clear();
    loops_ = 0, parameters_ = 0;
  }

  Parts& parts_;
  const std::vector<bool>& is_static_;
  std::vector<std::vector<size_t>> out_;
  std::vector<size_t> open_;
  loopir::Ids reads_, writes_;
  uint32_t loops_ = 0;
  size_t parameters_ = 0;
};

}  // namespace

std::vector<std::vector<size_t>> groups_of(Parts& parts, const std::vector<bool>& is_static) {
  return Grouping(parts, is_static).run();
}

}  // namespace inductor_cuda
