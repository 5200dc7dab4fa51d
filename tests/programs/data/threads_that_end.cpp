// A thread ends itself in the middle of a compiled body, or is cancelled there: what the body has done by
// then is done, objects of the body are gone, and calls of other threads go on.
#include "program.h"

#include <tenon/autograd.h>
#include <tenon/compiler.h>

#include <pthread.h>
#include <unistd.h>

#include <thread>

namespace tenon::programs {
namespace {

// Calls f(i, whether to end) for turns 0 to 5, each in a thread of its own.
template <class F>
void in_turn(Run& run, const F& f) {
  Device device = default_device();
  for (int i = 0; i < 6; ++i) {
    std::thread([&] {
      DefaultDevice there(device);
      f(i, i % 2 == 0 || i == 5);
      run.log("came back");
    }).join();
    run.log("turn", i);
  }
}

TENON_PROGRAM(ABodyEndsItsThreadAfterAWrite, 3) {
  Tensor w = zeros({2}), kept;
  int destroyed = 0;
  struct Counts {
    int& n;
    ~Counts() { ++n; }
  };
  auto f = run.compile([&](const Tensor& x, bool ends) {
    Counts counts{destroyed};
    w.add_(x);
    kept = x * 2.0;
    if (ends) pthread_exit(nullptr);
    return w + x;
  });
  in_turn(run, [&](int i, bool ends) { run.log(f(halves({2}, i), ends)); });
  run.log(w, kept);
  f(halves({2}, 6), false);
  run.log(w, kept, destroyed >= 7);
}

TENON_PROGRAM(ABodyEndsItsThreadBehindABreak, 6) {
  Tensor w = zeros({2});
  auto f = run.compile([&](const Tensor& x, bool ends) {
    w.add_(x);
    if (w.sum().item<float>() > -100) {
      w.mul_(2.0);
      if (ends) pthread_exit(nullptr);
    }
    return x + 1.0;
  });
  in_turn(run, [&](int i, bool ends) { run.log(f(halves({2}, i), ends)); });
  run.log(w);
}

TENON_PROGRAM(ABodyEndsItsThreadAfterItsBackwardPass, 3) {
  Tensor w = ones({2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x, bool ends) {
    (w * x).sum().backward();
    if (ends) pthread_exit(nullptr);
    return w.grad() + 1.0;
  });
  in_turn(run, [&](int i, bool ends) { run.log(f(halves({2}, i), ends)); });
  run.log(w.grad());
}

TENON_PROGRAM(AHookEndsTheThreadOfItsPass, 8) {
  Tensor w = ones({2}).requires_grad_();
  bool hook_ends = false;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = w * x;
    autograd::register_hook(y, [&](const Tensor& g) {
      if (hook_ends) pthread_exit(nullptr);
      return g * 2.0;
    });
    return (y * 3.0).sum();
  });
  in_turn(run, [&](int i, bool ends) {
    hook_ends = ends;
    f(halves({2}, i)).backward();
  });
  run.log(w.grad());
}

TENON_PROGRAM(AnInnerCallableEndsTheThread, 8) {
  Tensor w = zeros({2});
  auto inner = run.compile([&](const Tensor& x, bool ends) {
    w.add_(x);
    if (ends) pthread_exit(nullptr);
    return w + x;
  });
  auto f = run.compile([&](const Tensor& x, bool ends) {
    w.add_(x);
    Tensor y = inner(x, ends) * 2.0;
    return y.sum().item<float>() > 0 ? y + 1.0 : y;
  });
  in_turn(run, [&](int i, bool ends) { run.log(f(halves({2}, i), ends)); });
  run.log(w);
}

TENON_PROGRAM(AThreadIsCancelledInABody, 3) {
  Tensor w = zeros({2});
  auto f = run.compile([&](const Tensor& x, bool ends) {
    w.add_(x);
    if (ends) {
      pthread_cancel(pthread_self());
      ::usleep(1);
    }
    return w * 2.0;
  });
  in_turn(run, [&](int i, bool ends) { run.log(f(halves({2}, i), ends)); });
  run.log(w);
}

// Wherever they are then, compiling included; what they compile by then is a matter of time.
TENON_PROGRAM(ThreadsAreCancelledAtAnyTime, 100000) {
  for (int i = 0; i < 12; ++i) {
    std::thread thread([&] {
      for (int k = 0;; ++k) {
        auto f = run.compile([k, i](const Tensor& x) { return (x * (k + 100.0 * i)).sum(); });
        Tensor w = ones({3}).requires_grad_();
        f(w).backward();
        pthread_testcancel();
      }
    });
    ::usleep(1000 + 700 * i);
    pthread_cancel(thread.native_handle());
    thread.join();
  }
  auto f = run.compile([](const Tensor& x) { return x + 1.0; });
  run.log(f(ones({3})));
}

}  // namespace
}  // namespace tenon::programs
