// How long things live: memory of code that was forgotten comes back, and objects that are gone or
// going end in named errors.
#include "program.h"

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace tenon::programs {
namespace {

/// Bytes that are allocated; 0 under sanitizers, which have allocators of their own.
size_t allocated() { return ::mallinfo2().uordblks + ::mallinfo2().hblkhd; }

/// Pages of the process that are in memory, in bytes.
size_t resident() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  size_t all = 0, in_memory = 0;
  if (!file) return 0;
  int read = std::fscanf(file, "%zu %zu", &all, &in_memory);
  std::fclose(file);
  return read == 2 ? in_memory * size_t(::sysconf(_SC_PAGESIZE)) : 0;
}

/// Logs whether `turn` goes on taking memory, after turns that fill caches and pools. A table of the
/// process that happens to double is seen once, what leaks is seen again. TENON_PROGRAM_TURNS: that
/// many turns first, and twice as many then, of which none may leave a byte.
void log_growth(Run& run, int turns, size_t bytes_a_turn, const std::function<void(int)>& turn) {
  const char* wanted = std::getenv("TENON_PROGRAM_TURNS");
  if (wanted) {
    turns = std::atoi(wanted);
    bytes_a_turn = 0;
  }
  int n_turns = 0;
  auto take_turns = [&](int n) {
    for (int end = n_turns + n; n_turns < end; ++n_turns) turn(n_turns);
  };
  auto has_grown = [&](size_t before, size_t now, size_t slack) {
    return now > before + slack + 2 * size_t(turns) * bytes_a_turn;
  };
  take_turns(turns);
  bool heap_grows = true, pages_grow = true;
  for (int attempt = 0; attempt < 2 && (heap_grows || pages_grow); ++attempt) {
    size_t heap = allocated(), pages = resident();
    take_turns(2 * turns);
    size_t heap_now = allocated(), pages_now = resident();
    heap_grows = heap_grows && has_grown(heap, heap_now, 64 << 10);
    pages_grow = pages_grow && has_grown(pages, pages_now, 4 << 20);
    if (heap_grows || pages_grow)
      std::printf("%s: heap %+zd, resident %+zd bytes in %d turns\n", run.backend().c_str(),
                  ssize_t(heap_now - heap), ssize_t(pages_now - pages), 2 * turns);
  }
  run.log("heap grows", heap_grows, "resident pages grow", pages_grow);
}

TENON_PROGRAM(ManyResets, 999999) {
  auto f = run.compile([](const Tensor& x) { return (x.relu() * 2.0 + 1.0).sum(); });
  log_growth(run, 60, 256, [&](int i) {
    f(full({4}, float(i)));
    f.reset();
  });
}

TENON_PROGRAM(ManyResetsOfACutBody, 999999) {
  auto f =
      run.compile([](const Tensor& x) { return x.sum().item<float>() > 2 ? x * 2.0 : x + 1.0; });
  log_growth(run, 40, 256, [&](int i) {
    f(full({4}, float(i % 2)));
    f.reset();
  });
}

TENON_PROGRAM(ManyEvictions, 999999) {
  auto f = run.compile([](const Tensor& x) { return (x * 2.0).sum(); },
                       {.dynamic = false,
                        .options = {{"capture.on_limit", "\"evict_lru\""},
                                    {"dynamo.accumulated_recompile_limit", "100000"}},
                        .recompile_limit = 2});
  log_growth(run, 60, 256, [&](int i) { f(ones({i % 7 + 2})); });
}

TENON_PROGRAM(ManyCallsOverTheLimit, 2) {
  auto f = run.compile([](const Tensor& x) { return (x * 2.0).sum(); },
                       {.dynamic = false, .recompile_limit = 2});
  log_growth(run, 2000, 8, [&](int i) { f(ones({i % 50 + 2})); });
}

TENON_PROGRAM(ManyNumbersOfTheData, 4) {
  auto f = run.compile([](const Tensor& x) { return x * double(x.sum().item<float>()); });
  log_growth(run, 1000, 8, [&](int i) { f(full({4}, float(i))); });
}

TENON_PROGRAM(ManySteps, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto step = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor loss = (x * w).square().sum();
    loss.backward();
    return loss.detach();
  });
  log_growth(run, 400, 8, [&](int i) { step(row({1, float(i % 3)})); });
}

// Each step makes its own copies of the weights in the lower type, and what kernels keep of those goes
// with them.
TENON_PROGRAM(ManyStepsUnderAutocast, 2) {
  nn::Linear cell(64, 64);
  optim::SGD opt(cell.parameters(), {.lr = 0.125});
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor h = x;
    {
      AutocastGuard lower;
      for (int turn = 0; turn < 3; ++turn) h = cell(h).relu();
    }
    h.square().mean().backward();
    opt.step();
  });
  Tensor x = full({32, 64}, 0.5);
  log_growth(run, 100, 8, [&](int) { step(x); });
}

TENON_PROGRAM(ManyStepsWithAPartThatIsDetached, 12) {
  nn::Linear in(2, 4), out(4, 1);
  {
    NoGradGuard no_grad;
    for (const Tensor& p : {in.weight, in.bias, out.weight}) p.fill_(0.25);
  }
  int i = 0;
  auto step = run.compile([&](const Tensor& x) {
    for (const Tensor& p : {in.weight, in.bias, out.weight}) p.set_grad({});
    Tensor h = in(x);
    Tensor loss = (i % 3 == 1 ? h.detach() : h).matmul(out.weight.t()).square().sum() * 0.125;
    loss.backward();
    return loss.detach();
  });
  log_growth(run, 400, 8, [&](int call) {
    i = call;
    step(ones({2, 2}));
  });
}

TENON_PROGRAM(ManyEscapes, 4) {
  Tensor last;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0;
    last = last.defined() ? last * 0.5 + y : y;
    return y.sum();
  });
  log_growth(run, 400, 8, [&](int i) { f(row({1, float(i % 3)})); });
}

TENON_PROGRAM(ManySizesOfWhatIsKept, 99) {
  Tensor cache;
  auto f = run.compile([&](const Tensor& x) {
    cache = cache.defined() && cache.size(0) < 16 ? cat({cache, x}) : x * 1.0;
    return cache.sum();
  });
  log_growth(run, 300, 64, [&](int i) { f(full({i % 3 + 1}, float(i))); });
}

TENON_PROGRAM(ManyCoursesOfOneBody, 99) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 10; ++i) y = y.sum().item<float>() > float(i) ? y - 0.5 : y + 1.0;
    return y;
  });
  log_growth(run, 600, 64, [&](int i) { f(row({float(i * 37 % 101) * 0.25f - 8, 1})); });
}

TENON_PROGRAM(ManyThreads, 4) {
  auto f = run.compile([](const Tensor& x) { return x.sum().item<float>() > 2 ? x * 2.0 : -x; });
  log_growth(run, 100, 256, [&](int i) { in_threads(1, [&](int) { f(row({float(i % 4), 1})); }); });
}

TENON_PROGRAM(ManyCallables, 999999) {
  log_growth(run, 60, 256, [&](int i) {
    auto f = run.compile([i](const Tensor& x) { return x * double(i % 50); });
    f(ones({4}));
  });
}

TENON_PROGRAM(ManyThrowingCalls, 3) {
  auto f = run.compile([](const Tensor& x, bool fails) {
    Tensor y = x * 2.0;
    if (fails) throw std::runtime_error("no");
    return y + 1.0;
  });
  f(ones({4}), false);
  log_growth(run, 500, 8, [&](int) {
    try {
      f(ones({4}), true);
    } catch (const std::runtime_error&) {
    }
  });
}

TENON_PROGRAM(ACallableThatWasMovedFrom, 1) {
  auto f = compile([](const Tensor& x) { return x * 2.0; }, run.with_backend({}));
  run.log(f(row({1})));
  auto g = std::move(f);
  run.log(g(row({2})));
  run.log_error([&] { f(row({3})); });  // NOLINT: that is the point
  run.log_error([&] { f.stats(); });
  run.log_error([&] { f.reset(); });
  CompiledFunction<Tensor(const Tensor&)> none;
  run.log_error([&] { none(row({3})); });
}

TENON_PROGRAM(AnUndefinedTensorInTheBody, 3) {
  Tensor weight;
  auto f = run.compile([&](const Tensor& x) { return x * weight; });
  for (int i = 0; i < 4; ++i) {
    run.log_error([&] { run.log(f(row({1, 2}))); });
    weight = i % 2 ? Tensor() : row({4, 8});
  }
}

TENON_PROGRAM(AnUndefinedTensorAsAnArgument, 3) {
  auto f = run.compile(
      [](const Tensor& x, const Tensor& bias) { return bias.defined() ? x + bias : x; });
  auto g = run.compile([](const Tensor& x) { return x.relu(); });
  for (int i = 0; i < 4; ++i) run.log(f(row({1, 2}), i % 2 ? row({4, 8}) : Tensor()));
  run.log_error([&] { g(Tensor()); });
  run.log(g(row({-1, 1})));
  run.log_error([&] { g(Tensor()); });
}

TENON_PROGRAM(AnOperationThatFailsBehindAWrite, 3) {
  Tensor total = zeros({2});
  int64_t rows = 2;
  auto f = run.compile([&](const Tensor& x) {
    total.add_(x);
    Tensor y = ones({rows, 2}).matmul(x);
    total.mul_(2.0);
    return y.reshape({2}) + total;
  });
  for (int i = 0; i < 8; ++i) {
    rows = i % 3 == 2 ? 3 : 2;
    run.log_error([&] { run.log(f(row({1, float(i)}))); });
    run.log(total);
  }
}

TENON_PROGRAM(AnIndexOutOfRange, 3) {
  Tensor table = row({1, 2, 4});
  auto f = run.compile([&](const Tensor& i) { return table.index_select(0, i) * 2.0; });
  for (int64_t i : {0, 2, 3, 1, -7, 2})
    run.log_error([&] { run.log(f(tensor(std::vector<int64_t>{i}))); });
}

TENON_PROGRAM(AnOpThatDoesNotComputeOnTheDtype, 24) {
  Tensor c = complex(row({1, 2}), row({3, 4}));
  auto log = [&](auto op, const Tensor& x) {
    auto f = run.compile(op);
    for (int i = 0; i < 2; ++i) run.log_error([&] { run.log(f(x)); });
  };
  log([](const Tensor& x) { return view_as_real(x.prod()); }, c);
  log([](const Tensor& x) { return view_as_real(x.cumprod(0)); }, c);
  log([](const Tensor& x) { return x.sort().indices; }, c);
  log([](const Tensor& x) { return x.median(); }, c);
  log([](const Tensor& x) { return x.argmax(); }, c);
  log([](const Tensor& x) { return view_as_real(x.nansum()); }, c);
  log([](const Tensor& x) { return x.logsumexp(0); }, c);
  log([](const Tensor& x) { return x.any(); }, c);
  log([](const Tensor& x) { return x.all(); }, c);
  log([](const Tensor& x) { return x.count_nonzero(); }, c);
}

TENON_PROGRAM(NothingIsReturned, 3) {
  auto f = run.compile([](const Tensor& x, bool gives) { return gives ? x + 1.0 : Tensor(); });
  auto g = run.compile([](const Tensor&) {});
  for (int i = 0; i < 6; ++i) run.log(f(row({1}), i % 2));
  g(row({1}));
}

/// Calls something when the program ends.
struct AtEnd {
  std::function<void()> call = [] {};
  ~AtEnd() { call(); }
};
AtEnd end_of_program;  // made before all that tests make

enum class End {
  last,   ///< behind all that the library does when the process ends
  first,  ///< before it; the objects of the thread are gone by then, too
};

/// Ends a copy of the process as programs end, and tells how that went.
std::string end_of_child(const std::function<void()>& at_end, End when = End::last) {
  std::fflush(nullptr);
  pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    end_of_program.call = at_end;
    if (when == End::first) std::atexit([] { std::exchange(end_of_program.call, [] {})(); });
    std::exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : "status " + std::to_string(WEXITSTATUS(status));
}

// An error with a name is right as well: what code needs may be gone.
void call_or_fail(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error&) {
  }
}

TENON_PROGRAM(CallsInAStaticDestructor, 3) {
  double own = ::getpid();  // no cache has seen such a graph
  auto f =
      run.compile([own](const Tensor& x) { return x.sum().item<float>() > 2 ? x * own : x - own; });
  f(ones({4}));
  run.log(end_of_child([=] { call_or_fail([&] { f(ones({4})); }); }));
  run.log(end_of_child([=] { call_or_fail([&] { f(ones({7, 2})); }); }));
  run.log(end_of_child([=] { call_or_fail([&] { f.reset(), f(ones({3})), f.explain(); }); }));
}

TENON_PROGRAM(FirstCallInAStaticDestructor, 3) {
  double own = ::getpid();
  auto f = run.compile([own](const Tensor& x) { return x * own - 2.0; });
  run.log(end_of_child([=] { call_or_fail([&] { f(ones({4})); }); }));
}

TENON_PROGRAM(TrainingInAStaticDestructor, 4) {
  double own = ::getpid();
  Tensor w = full({8, 8}, 0.5).requires_grad_();
  auto loss = run.compile(
      [w, own](const Tensor& x) { return (matmul(x, w).softmax(-1) * own).square().sum(); });
  loss(ones({4, 8})).backward();
  for (End when : {End::last, End::first}) {
    auto log_end = [&](const std::function<void()>& step) {
      run.log(end_of_child([=] { call_or_fail(step); }, when));
    };
    log_end([=] { loss(ones({4, 8})).backward(); });
    log_end([=] { loss(ones({5, 8})).backward(); });
    log_end([=] {
      AutocastGuard lower;
      loss(ones({6, 8})).backward();
    });
    log_end([=] {
      autograd::SavedTensorHooks hooks(
          [](const Tensor& t) { return std::make_shared<Tensor>(t); },
          [](const auto& kept) { return *static_cast<Tensor*>(kept.get()); });
      loss(ones({7, 8})).backward();
    });
  }
}

TENON_PROGRAM(ATensorKeptByABodyThatThrew, 3) {
  std::vector<Tensor> kept;
  auto f = run.compile([&](const Tensor& x, bool fails) {
    kept.push_back(x * 2.0);
    if (fails) throw std::runtime_error("no");
    return kept.back() + 1.0;
  });
  for (int i = 0; i < 4; ++i) run.log_error([&] { f(row({1, float(i)}), i % 2 == 0); });
  run.log(kept);
}

TENON_PROGRAM(ResultsOutliveTheCallable, 1) {
  Tensor view, value;
  {
    Tensor base = arange(6, Dtype::f32);
    auto f = run.compile([base](const Tensor& x) { return std::pair(base.slice(0, 2), base + x); });
    auto [v, y] = f(full({}, 1.0));
    view = v, value = y;
  }
  view.add_(1.0);
  run.log(view, value);
}

}  // namespace
}  // namespace tenon::programs
