// Recomputing instead of keeping: tenon::autograd::checkpoint.
//
// Method: while `f` runs, what its nodes save is counted and thrown away. The first time one of
// them is needed, `f` runs again with the random numbers and autocast state of the first run, and
// what it saves then, in the same order, takes the place of what was thrown away. So hooks, grad()
// and several passes work as without it; a pass inside of `f` finds there what was saved in the same
// run. Source: PyTorch's checkpoint without reentry. Cost: one more run of `f` a pass.
#include "autograd/grad_state.h"
#include "autograd/saved/saved_tensor_hooks.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/random.h"
#include "graph/record.h"
#include "ops/modes/autocast_state.h"

#include <tenon/autograd.h>

#include <mutex>

namespace tenon::autograd {

namespace {

/// Ends a second run for a pass inside of the first one, which has come no further.
struct Enough {};

struct Frame {
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> f;
  std::vector<Tensor> inputs;
  std::vector<uint64_t> versions;
  RngState random;
  AutocastState autocast;
  size_t n_saved = 0;
  bool is_over = false;         ///< the first run
  std::vector<Unpacked> again;  ///< what the second run saved; an entry is given away once
  std::mutex lock;

  void check_inputs() const {
    for (size_t i = 0; i < inputs.size(); ++i)
      require(!inputs[i].defined() || version_of(inputs[i]) == versions[i],
              "checkpoint: input {} was modified in place since the first run", i);
  }

  std::shared_ptr<void> save_again(const Tensor& t) {
    again.push_back({t.detach(), version_of(t)});
    if (!is_over && again.size() == n_saved) throw Enough();
    return std::make_shared<Unpacked>(again.back());
  }

  void run_again() {
    check_inputs();
    RngState now = current_rng_state();
    restore_rng_state(random);
    again.clear();
    {
      EnableGradGuard grad;
      AutocastGuard cpu_as_before(autocast.cpu), cuda_as_before(autocast.cuda);
      HooksWithVersions collect([this](const Tensor& t) { return save_again(t); },
                                [](const std::shared_ptr<void>& data) {
                                  return *static_cast<const Unpacked*>(data.get());
                                });
      try {
        f(inputs);
      } catch (const Enough&) {
      }
    }
    restore_rng_state(now);
    require(again.size() == n_saved,
            "checkpoint: the function saved {} tensors in its first run and {} in its second; it "
            "must do the same both times",
            n_saved, again.size());
  }

  void end_first_run() {
    is_over = true;
    again.clear();
  }

  // `f` may have written it after it was saved, which is the node's to refuse.
  Unpacked take(size_t index) {
    std::lock_guard guard(lock);
    if (index >= again.size() || !again[index].tensor.defined()) run_again();
    return std::exchange(again[index], Unpacked());
  }
};

struct Handle {
  std::shared_ptr<Frame> frame;
  size_t index;
};

// In a graph the partitioner computes the region again, with the random numbers of the first time.
struct RegionScope {
  GraphRecorder& recorder;
  int32_t before;
  explicit RegionScope(GraphRecorder& r)
      : recorder(r), before(std::exchange(r.region, r.n_regions++)) {}
  ~RegionScope() { recorder.region = before; }
};

}  // namespace

std::vector<Tensor> checkpoint(std::function<std::vector<Tensor>(const std::vector<Tensor>&)> f,
                               const std::vector<Tensor>& inputs) {
  if (thread_modes.tracer) {
    RegionScope region(recorder_of_thread());
    return f(inputs);
  }
  auto frame = std::make_shared<Frame>();
  frame->f = std::move(f);
  frame->inputs = inputs;
  for (const Tensor& t : inputs) frame->versions.push_back(t.defined() ? version_of(t) : 0);
  frame->random = current_rng_state();
  frame->autocast = autocast_state();
  HooksWithVersions count(
      [frame](const Tensor&) {
        return std::shared_ptr<void>(std::make_shared<Handle>(Handle{frame, frame->n_saved++}));
      },
      [](const std::shared_ptr<void>& data) {
        const auto& handle = *static_cast<const Handle*>(data.get());
        return handle.frame->take(handle.index);
      });
  std::vector<Tensor> results = frame->f(inputs);
  frame->end_first_run();
  return results;
}

}  // namespace tenon::autograd
