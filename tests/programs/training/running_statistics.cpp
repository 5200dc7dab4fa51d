// Running statistics of normalisations, which no schema says are written: every call updates them,
// whoever reads the normalised values.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor batch(int i, int64_t n = 5) {
  return ((arange(n * 3) * 7 + i) % 11 - 5).reshape({n, 3}).to(Dtype::f32) * 0.25;
}

Tensor about(const Tensor& t) { return (t.detach() * 1024.0).round(); }

struct Statistics {
  Tensor mean = zeros({3}), var = ones({3});

  Tensor operator()(const Tensor& x) {
    return batch_norm(x, {}, {}, mean, var, true, 0.5, 1e-5, false);
  }
  void log(Run& run) const { run.log(about(mean), about(var)); }
};

TENON_PROGRAM(StatisticsAreGatheredForLater, 6) {
  Statistics of;
  auto f = run.compile([&](const Tensor& x) {
    of(x);
    return x + 1;
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(batch(i, 4 + i % 2)));
    of.log(run);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(StatisticsAreGatheredForLater, 6);

TENON_PROGRAM(TheSameBatchTwice, 6) {
  Statistics of;
  auto f = run.compile([&](const Tensor& x) { return about(of(x) + of(x)); });
  for (int i = 0; i < 6; ++i) {
    run.log(f(batch(i)));
    of.log(run);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(TheSameBatchTwice, 6);

TENON_PROGRAM(StatisticsAreReadBeforeAndAfter, 6) {
  Statistics of;
  auto f = run.compile([&](const Tensor& x) {
    Tensor before = of.mean * 2;
    of(x);
    return about(before + of.mean * 4 + of.var);
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(batch(i)));
    of.log(run);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(StatisticsAreReadBeforeAndAfter, 6);

TENON_PROGRAM(AnErrorBehindANormalisation, 9) {
  Statistics of;
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    of(x);
    if (calls++ % 2) throw std::runtime_error("stop");
    return x * 2;
  });
  for (int i = 0; i < 8; ++i) {
    try {
      run.log(f(batch(i)));
    } catch (const std::runtime_error& e) {
      run.log(e.what());
    }
    of.log(run);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AnErrorBehindANormalisation, 9);

TENON_PROGRAM(ALookAtTheStatistics, 9) {
  Statistics of;
  auto f = run.compile([&](const Tensor& x) {
    of(x);
    run.log(of.mean.sum().item<float>() > 0);
    return x * 2;
  });
  for (int i = 0; i < 8; ++i) {
    run.log(f(batch(i)));
    of.log(run);
  }
}

TENON_PROGRAM(StatisticsAreArguments, 6) {
  Statistics of;
  auto f = run.compile([](const Tensor& x, Tensor mean, Tensor var) {
    batch_norm(x, {}, {}, mean, var, true, 0.5, 1e-5, false);
    return x - 1;
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(batch(i), of.mean, of.var));
    of.log(run);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(StatisticsAreArguments, 6);

TENON_PROGRAM(StatisticsOfTheBody, 6) {
  auto f = run.compile([](const Tensor& x) {
    Tensor mean = x[0] * 0, var = mean + 1;
    batch_norm(x, {}, {}, mean, var, true, 0.5, 1e-5, false);
    return std::tuple(about(mean), about(var));
  });
  for (int i = 0; i < 6; ++i) {
    auto [mean, var] = f(batch(i));
    run.log(mean, var);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(StatisticsOfTheBody, 6);

TENON_PROGRAM(StatisticsAreRowsOfOneTensor, 6) {
  Tensor both = zeros({2, 3});
  both[1].fill_(1);
  auto f = run.compile([&](const Tensor& x) {
    batch_norm(x, {}, {}, both[0], both[1], true, 0.5, 1e-5, false);
    return about(both);
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(batch(i)));
    run.log(about(both));
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(StatisticsAreRowsOfOneTensor, 6);

TENON_PROGRAM(StatisticsOfInstances, 6) {
  Statistics of;
  auto f = run.compile([&](const Tensor& x) {
    instance_norm(x.t().unsqueeze(0), {}, {}, of.mean, of.var, true, 0.5, 1e-5, false);
    return x + 1;
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(batch(i)));
    of.log(run);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(StatisticsOfInstances, 6);

TENON_PROGRAM(ALayerIsCalibrated, 6) {
  nn::BatchNorm1d norm(3);
  auto f = run.compile([&](const Tensor& x) {
    norm(x);
    return x.sum();
  });
  for (int i = 0; i < 6; ++i) {
    norm.train(i != 2 && i < 5);
    run.log(f(batch(i)), about(norm.running_mean), about(norm.running_var),
            norm.num_batches_tracked);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ALayerIsCalibrated, 6);

TENON_PROGRAM(AllBatchesWeighTheSame, 4) {
  nn::BatchNorm1d norm(3, {.momentum = std::nullopt});
  auto f = run.compile([&](const Tensor& x) { return about(norm(x).square().sum()); });
  for (int i = 0; i < 12; ++i) {
    norm.train(i % 6 != 3);
    run.log(f(batch(i, 4 + i % 2)));
    run.log(about(norm.running_mean), about(norm.running_var), norm.num_batches_tracked);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AllBatchesWeighTheSame, 4);

TENON_PROGRAM(AllBatchesWeighTheSameInAWholeStep, 4) {
  nn::BatchNorm1d norm(3, {.momentum = std::nullopt});
  auto f = run.compile([&](const Tensor& x) {
    norm.weight.set_grad({});
    Tensor loss = norm(x).square().sum();
    loss.backward();
    return about(loss);
  });
  for (int i = 0; i < 8; ++i) {
    run.log(f(batch(i)));
    run.log(about(norm.weight.grad()), about(norm.running_mean), about(norm.running_var));
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AllBatchesWeighTheSameInAWholeStep, 4);

TENON_PROGRAM(StatisticsBesideALoss, 9) {
  Statistics of;
  Tensor w = ones({3}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    of(x * w);
    return (x * w).square().sum();
  });
  for (int i = 0; i < 6; ++i) {
    w.set_grad({});
    Tensor loss = f(batch(i));
    loss.backward();
    run.log(about(loss), about(w.grad()));
    of.log(run);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(StatisticsBesideALoss, 9);

TENON_PROGRAM(StatisticsInAWholeStep, 9) {
  Statistics of;
  Tensor w = ones({3}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    of(x * w);
    Tensor loss = (x * w).square().sum();
    loss.backward();
    return about(loss);
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(batch(i)));
    run.log(about(w.grad()));
    of.log(run);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(StatisticsInAWholeStep, 9);

// The graph says so, as of other writes.
TENON_PROGRAM(ABranchMayNotGatherThem, 12) {
  Statistics of;
  auto gather = [&](const Tensor& t) {
    of(t);
    return t + 1;
  };
  auto f = run.compile([&](const Tensor& x) {
    return cond(
        x.sum() > 0, gather, [](const Tensor& t) { return t - 1; }, x);
  });
  std::string error;
  try {
    f(batch(2));
  } catch (const Error& e) {
    error = e.what();
  }
  run.log(run.is_plain() || error.find("which does not own it") != std::string::npos);
}

}  // namespace
}  // namespace tenon::programs
