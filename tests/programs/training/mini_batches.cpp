// Batches of one data set, and kinds of arguments that take turns: each kind is compiled once.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor digits(int64_t rows) { return arange(rows * 3, Dtype::f32).reshape({rows, 3}); }

TENON_PROGRAM(SlicesOfADataSet, 2) {
  Tensor data = digits(43);
  auto f = run.compile([](const Tensor& x) { return (x * 2.0).sum(0); });
  for (int epoch = 0; epoch < 3; ++epoch)
    for (int64_t at = 0; at < 43; at += 4)
      run.log(f(data.slice(0, at, std::min<int64_t>(at + 4, 43))));
}

TENON_PROGRAM(PartsOfASplit, 2) {
  auto f = run.compile([](const Tensor& x) { return (x + 1.0).mean(); });
  for (const Tensor& part : digits(30).split(8)) run.log(f(part));
  for (const Tensor& part : digits(32).chunk(4)) run.log(f(part));
}

TENON_PROGRAM(RowsAndColumns, 3) {
  Tensor data = digits(6);
  auto f = run.compile([](const Tensor& x) { return x.relu().sum(); });
  for (int i = 0; i < 6; ++i) run.log(f(data.select(0, i)), f(data.select(1, i % 3)));
}

TENON_PROGRAM(RowsOfACapturedBank, 2) {
  Tensor bank = digits(12);
  std::vector<Tensor> rows = bank.unbind(0);
  size_t at = 0;
  auto f = run.compile([&](const Tensor& x) { return rows[at] * x; });
  for (at = 0; at < 12; ++at) run.log(f(row({1, 2, 4})));
}

TENON_PROGRAM(SlicesAreWritten, 2) {
  Tensor data = digits(20);
  auto normalize = run.compile([](const Tensor& x) {
    x.sub_(x.amin());
    return x.sum();
  });
  for (int64_t at = 0; at < 20; at += 4) run.log(normalize(data.slice(0, at, at + 4)));
  run.log(data);
}

TENON_PROGRAM(TrainingAndEvaluationSizesInTurn, 2) {
  Tensor w = row({1, 2, 4});
  auto f = run.compile([&](const Tensor& x) { return (x * w).sum(1).mean(); });
  for (int epoch = 0; epoch < 40; ++epoch) {
    for (int batch = 0; batch < 8; ++batch) run.log(f(ones({64, 3})));
    for (int batch = 0; batch < 2; ++batch) run.log(f(full({100, 3}, 2.0)));
  }
  run.log("replays", f.stats().replays, "eager", f.stats().eager_calls);
}

TENON_PROGRAM(DtypesInTurn, 3) {
  auto f = run.compile([](const Tensor& x) { return (x * x).sum(); });
  for (int i = 0; i < 60; ++i)
    run.log(f(digits(3).to(i % 3 == 0 ? Dtype::f64 : i % 3 == 1 ? Dtype::f32 : Dtype::i64)));
}

TENON_PROGRAM(RanksAndLayoutsInTurn, 4) {
  auto f = run.compile([](const Tensor& x) { return (x + x).sum(0); });
  for (int i = 0; i < 60; ++i) {
    Tensor x = digits(3);
    run.log(f(i % 3 == 0 ? x : i % 3 == 1 ? x.t() : x.reshape({9})));
  }
}

TENON_PROGRAM(ListsOfTwoLengthsInTurn, 2) {
  auto f = run.compile([](const std::vector<Tensor>& list) { return cat(list).sum(); });
  for (int i = 0; i < 60; ++i) {
    std::vector<Tensor> list(i % 2 ? 2 : 3, full({2}, float(i)));
    for (Tensor& t : list) t = t.clone();
    run.log(f(list));
  }
}

TENON_PROGRAM(APureBodyWithSizesInTurnIsNotStale, 2) {
  auto f = run.compile([](const Tensor& x) { return x.sum() * 2.0; },
                       {.options = {{"capture.on_stale", "\"error\""}}, .pure = true});
  for (int i = 0; i < 600; ++i) run.log(f(ones({i % 7 < 5 ? 64 : 100})));
}

TENON_PROGRAM(MoreThan256Versions, 300) {
  auto f = run.compile([](const Tensor& x) { return x.sum(); },
                       {.dynamic = false,
                        .options = {{"dynamo.accumulated_recompile_limit", "1000"}},
                        .recompile_limit = 1000});
  for (int turn = 0; turn < 2; ++turn)
    for (int i = 0; i < 300; ++i) run.log(f(ones({i + 2})));
  run.log("eager", f.stats().eager_calls);
}

TENON_PROGRAM(PiecesOfACutBodyCountAgainstTheLimit, 16) {
  auto f = run.compile(
      [](const Tensor& x) {
        Tensor y = x * 2.0;
        return y.sum().item<float>() > 20 ? y + 1.0 : y - 1.0;
      },
      {.dynamic = false});
  for (int i = 0; i < 30; ++i) run.log(f(ones({i + 2})));
}

TENON_PROGRAM(ALoaderWithAShortLastBatch, 2) {
  data::TensorDataset set(digits(22), arange(22));
  data::DataLoader loader(set, {.batch_size = 4});
  auto f = run.compile([](const Tensor& x, const Tensor& y) { return (x.sum(1) * y).sum(); });
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto& [x, y] : loader) run.log(f(x, y));
}

}  // namespace
}  // namespace tenon::programs
