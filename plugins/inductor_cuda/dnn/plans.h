// Plans that a process has, and those that are being made.
//
// Problem: cuDNN compiles a kernel for each graph of attention, 0.3 to 0.5 s each; a training step
// has two of them, and compiles for as long itself.
//
// Method: plans of attention are made by threads of their own while the rest of the graph is
// compiled. A step counts on a plan that is under way; where it comes to nothing, DnnPlanLost has
// the graph compiled again, without it. Plans are kept for the process, so equal layers share one,
// and on disk, as the library describes them: with the code that it compiled for them.
#pragma once

#include "plan.h"

namespace inductor_cuda {

/// There is no plan where one was counted on.
struct DnnPlanLost : tenon::plugin::error {
  using error::error;
};

/// Threads: any.
class DnnPlans {
 public:
  /// Null, with the reason, where the library has none. Throws where it fails. Where there is
  /// `tuning`, the fastest of those that it has ready, in place of its first choice.
  static std::shared_ptr<const DnnPlan> find(const DnnLibrary& library, const DnnGraph& graph,
                                             const DnnRequest& request, std::string& why_not,
                                             const Tuning* tuning = nullptr);
  /// Whether find() gives one, or one is under way.
  static bool may_find(const DnnLibrary& library, const DnnGraph& graph, const DnnRequest& request);
  /// For all that are under way.
  static void wait();

 private:
  struct Outcome;
  struct Entry;
  struct Key;
  static Outcome made(const DnnLibrary& library, const DnnGraph& graph, const DnnOptions& options,
                      const Tuning* tuning, const std::optional<std::string>& kept,
                      dnn::Handle handle);
  static Outcome made_elsewhere(const DnnLibrary& library, const DnnGraph& graph,
                                const DnnOptions& options, const std::optional<std::string>& kept);
  static Entry begun(const DnnLibrary& library, const DnnGraph& graph, const DnnRequest& request,
                     const Tuning* tuning);
  static Entry entry(const Key& key, const DnnLibrary& library, const DnnGraph& graph,
                     const DnnRequest& request, const Tuning* tuning);
  struct All;
  static All& all();
};

}  // namespace inductor_cuda
