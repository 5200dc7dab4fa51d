// A function of tenon.cuda/1: its sizes, their recordings, and what each call does.
#pragma once

#include "attempt.h"
#include "statistics.h"

#include <list>

namespace tenon::cuda::trees {

/// Threads: any.
class Function {
 public:
  explicit Function(const tn_cuda_function_info& info);
  ~Function();
  Function(const Function&) = delete;

  void run(tn_call& call);
  std::string describe() const;
  const std::string& name() const { return about_.name; }
  /// Forgets all recordings.
  void reset();

 private:
  /// What one thread's manager has of it.
  struct Share {
    Manager* manager;
    std::list<std::unique_ptr<Variant>> variants;  // the last used one first
    size_t dropped = 0;
    Share* older = nullptr;  // that was made before
  };
  struct Call;  // one on its way

  Share& share_of(Manager& manager);
  Variant* variant_for(Call& call);
  std::optional<Reason> why_direct(const Call& call) const;
  bool wants_warm_up(const Variant& variant) const;
  void limit_sizes(Share& share);

  void run_directly(tn_call& call, const Reason& why);
  void run_or_record(Call& call);
  bool replay(Call& call);
  void note_unfit(Call& call, const Recorded::Verdict& verdict) const;
  void record(Call& call);
  void run_recorded(Call& call, Recorded& recorded);
  void give_up(Call& call, Reason why);
  void launch(tn_call& call) { plugin::check(about_.launch(about_.self, &call)); }

  Description about_;
  Gpu& gpu_;
  mutable std::mutex sharing_;  // guards shares_, which only grow
  std::list<Share> shares_;
  std::atomic<Share*> newest_{nullptr};  // each call looks its share up from here, without the lock
  Statistics statistics_;
};

}  // namespace tenon::cuda::trees
