// The recorded functions in C++, and what a step of a scenario sets up.
#include "recordings/scenario.h"

#include <map>

namespace tenon {
namespace {

using formats::JsonView;

Outcome one(Tensor t) { return {{std::move(t)}}; }

template <int n>
Outcome times(const Arguments& a) {
  return one(a.tensors[0] * n);
}

Outcome sums_of_part(SymInt n, const Tensor& w) {
  check(n >= 2);
  check(n <= 6);
  return one(w.slice(0, 0, n).sum() + zeros({n}).sum());
}

Outcome ones_above_three(const Arguments& a) {
  SymInt n = (a.tensors[0] + 0).item<int64_t>();
  return one(n > 3 ? ones({2}) : zeros({2}));
}

// By the Python text behind the name.
const std::map<std::string, Program> programs = {
    {"(x):\n    return x * 3", times<3>},
    {"(x):\n    return x * 4", times<4>},
    {"(x):\n    return x * 5", times<5>},
    {"(x):\n    return x * 6", times<6>},
    {"(x):\n    return x * 8", times<8>},
    {"(x):\n    return x * 9", times<9>},
    {"(x):\n    return x - 1", [](const Arguments& a) { return one(a.tensors[0] - 1); }},
    {"(x):\n    return x + 1", [](const Arguments& a) { return one(a.tensors[0] + 1); }},
    {"(x):\n    return x * 2 + 1", [](const Arguments& a) { return one(a.tensors[0] * 2 + 1); }},
    {"(x):\n    return x + x", [](const Arguments& a) { return one(a.tensors[0] + a.tensors[0]); }},
    {"(x):\n    return x.relu() + 1",
     [](const Arguments& a) { return one(a.tensors[0].relu() + 1); }},
    {"(x):\n    return x.cos()", [](const Arguments& a) { return one(a.tensors[0].cos()); }},
    {"(x):\n    return x.mean()", [](const Arguments& a) { return one(a.tensors[0].mean()); }},
    {"(x):\n    return x.sum(dim=1) * 2",
     [](const Arguments& a) { return one(a.tensors[0].sum(1) * 2); }},
    {"(x):\n    return x[1:-1:2]",
     [](const Arguments& a) { return one(a.tensors[0].slice(0, 1, -1, 2)); }},
    {"(x):\n    return x.view(4, 3).sum()",
     [](const Arguments& a) {
       return one(a.tensors[0].view({4, 3}).sum());
     }},
    {"(x):\n    return x.view(x.shape[0] // 2, 2).sum(dim=1)",
     [](const Arguments& a) {
       return one(a.tensors[0].view({a.tensors[0].size(0) / 2, 2}).sum(1));
     }},
    {"(x):\n    return x * 7 + x.shape[0]",
     [](const Arguments& a) { return one(a.tensors[0] * 7 + a.tensors[0].size(0)); }},
    {"(x):\n    if x.shape[0] > 5:\n        return x * 2\n    return x + 1",
     [](const Arguments& a) {
       return one(a.tensors[0].size(0) > 5 ? a.tensors[0] * 2 : a.tensors[0] + 1);
     }},
    {"(x, y):\n    return x + y",
     [](const Arguments& a) { return one(a.tensors[0] + a.tensors[1]); }},
    {"(x, y):\n    return x.sum() + y.sum()",
     [](const Arguments& a) { return one(a.tensors[0].sum() + a.tensors[1].sum()); }},
    {"(x, y):\n    return x.sum() * y.sum()",
     [](const Arguments& a) { return one(a.tensors[0].sum() * a.tensors[1].sum()); }},
    {"(x, y):\n    return x.reshape(-1) + y",
     [](const Arguments& a) { return one(a.tensors[0].reshape({-1}) + a.tensors[1]); }},
    {"(x, y):\n    x2 = x * 2\n    return x2 + y",
     [](const Arguments& a) { return one(a.tensors[0] * 2 + a.tensors[1]); }},
    {"(x, y):\n    z = torch.cat([x, y], dim=0)\n    return z.view(z.shape[0], -1).sum(dim=1)",
     [](const Arguments& a) {
       Tensor z = cat({a.tensors[0], a.tensors[1]}, 0);
       return one(z.view({z.size(0), -1}).sum(1));
     }},
    {"(x, y):\n    n = min(x.shape[0], y.shape[0])\n    return x[:n] + y[:n]",
     [](const Arguments& a) {
       SymInt n = sym_min(a.tensors[0].size(0), a.tensors[1].size(0));
       return one(a.tensors[0].slice(0, 0, n) + a.tensors[1].slice(0, 0, n));
     }},
    {"(x, w):\n    return torch.mm(x, w)",
     [](const Arguments& a) { return one(a.tensors[0].mm(a.tensors[1])); }},
    {"(x, w):\n    return torch.nn.functional.conv1d(x, w, stride=2, padding=1)",
     [](const Arguments& a) { return one(conv1d(a.tensors[0], a.tensors[1], {}, {2}, {1})); }},
    {"(x, n):\n    return x * n", [](const Arguments& a) { return one(a.tensors[0] * a.ints[0]); }},
    {"(x, a):\n    return x * a",
     [](const Arguments& a) { return one(a.tensors[0] * a.floats[0]); }},
    {"(xs):\n    s = xs[0]\n    for t in xs[1:]:\n        s = s + t\n    return s",
     [](const Arguments& a) {
       Tensor s = a.tensors[0];
       for (size_t i = 1; i < a.tensors.size(); ++i) s = s + a.tensors[i];
       return one(s);
     }},
    {"(x):\n    idx = x.nonzero()\n    return idx.sum(), idx.shape[0] * 2",
     [](const Arguments& a) {
       Tensor index = a.tensors[0].nonzero();
       return Outcome{{index.sum()}, {index.size(0) * 2}};
     }},
    {"(x):\n    return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))",
     [](const Arguments& a) {
       return one(cond(
           a.tensors[0].sum() > 0, [](const Tensor& t) { return t.sin(); },
           [](const Tensor& t) { return t.cos(); }, a.tensors[0]));
     }},
    {"(x):\n    n = (x + 0).item()\n    if n > 3:\n        return torch.ones(2)\n"
     "    return torch.zeros(2)",
     ones_above_three},
    {"(x, w):\n    y = w * 2\n    n = x.item()\n    return y + n",
     [](const Arguments& a) {
       Tensor y = a.tensors[1] * 2;
       SymInt n = a.tensors[0].item<int64_t>();
       return one(y + n);
     }},
    {"(x, w):\n    n = (x + 0).item()\n    torch._check(n >= 2)\n    torch._check(n <= 6)\n"
     "    return w[:n].sum() + torch.zeros(n).sum()",
     [](const Arguments& a) {
       return sums_of_part((a.tensors[0] + 0).item<int64_t>(), a.tensors[1]);
     }},
    {"(x, w):\n    n = x.item()\n    torch._check(n >= 2)\n    torch._check(n <= 6)\n"
     "    return w[:n].sum() + torch.zeros(n).sum()",
     [](const Arguments& a) { return sums_of_part(a.tensors[0].item<int64_t>(), a.tensors[1]); }}};

Tensor filled(const std::vector<int64_t>& sizes, Dtype dtype) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  Tensor pattern = (arange(n, Dtype::i64) * 7 + 3).remainder(11);
  if (is_floating(dtype)) return (pattern.to(Dtype::f64) * 0.25 - 1.0).to(dtype).reshape(sizes);
  return pattern.to(dtype).reshape(sizes);
}

std::vector<int64_t> integers_of(JsonView list) {
  std::vector<int64_t> values;
  for (JsonView item : list.items()) values.push_back(item.integer());
  return values;
}

void apply_mark(const Tensor& t, JsonView mark) {
  std::vector<JsonView> parts = mark.items();
  const std::string& kind = parts.at(0).text();
  int64_t dim = parts.at(1).integer();
  std::optional<int64_t> min, max;
  if (parts.size() > 2) {
    if (auto bound = parts[2].optional_field("min")) min = bound->integer();
    if (auto bound = parts[2].optional_field("max")) max = bound->integer();
  }
  if (kind == "static") return mark_static(t, dim);
  if (kind == "unbacked") return mark_unbacked(t, dim);
  if (kind == "dynamic") mark_dynamic(t, dim, min, max);
}

Tensor values_as_tensor(const std::vector<int64_t>& sizes, Dtype dtype, JsonView values) {
  std::vector<double> numbers;
  for (JsonView value : values.items()) numbers.push_back(value.real());
  return tensor(numbers, sizes).to(dtype);
}

Tensor tensor_of(JsonView argument) {
  std::vector<int64_t> sizes = integers_of(argument.field("tensor"));
  auto named = argument.optional_field("dtype");
  Dtype dtype = named ? *parse_dtype(named->text()) : Dtype::f32;
  Tensor t;
  if (auto values = argument.optional_field("values")) {
    t = values_as_tensor(sizes, dtype, *values);
  } else if (argument.optional_field("transposed")) {
    t = filled({sizes.rbegin(), sizes.rend()}, dtype).t();
  } else {
    t = filled(sizes, dtype);
  }
  if (auto larger = argument.optional_field("view_of_larger")) {
    std::vector<int64_t> whole = sizes;
    whole[0] = larger->integer();
    t = zeros(whole, dtype).slice(0, 0, sizes[0]).copy_(t);
  }
  if (argument.optional_field("requires_grad")) t.requires_grad_();
  if (auto marks = argument.optional_field("marks"))
    for (JsonView mark : marks->items()) apply_mark(t, mark);
  return t;
}

void add_argument(Arguments& to, JsonView argument) {
  if (argument.is_integer())
    to.ints.emplace_back(argument.integer());
  else if (!argument.is_object())
    to.floats.emplace_back(argument.real());
  else if (auto list = argument.optional_field("list"))
    for (JsonView item : list->items()) add_argument(to, item);
  else if (auto same = argument.optional_field("same_as"))
    to.tensors.push_back(to.tensors.at(static_cast<size_t>(same->integer())));
  else
    to.tensors.push_back(tensor_of(argument));
}

std::string context_of(JsonView step) {
  auto context = step.optional_field("context");
  return context ? context->text() : "";
}

}  // namespace

Program program_of(const std::string& function_source) {
  auto found = programs.find(function_source.substr(function_source.find('(')));
  return found == programs.end() ? nullptr : found->second;
}

// ---- which code runs

namespace {
std::vector<int64_t> runs;
int64_t n_compiles = 0, n_seen = 0;
}  // namespace

const char* RunWatch::backend() {
  static const bool registered = [] {
    compiler::register_backend(
        "run_watch", [](const compiler::Graph& graph, std::span<const Tensor>) {
          return [graph, number = n_compiles++](const std::vector<Tensor>& inputs) {
            runs.push_back(number);
            return graph.run(inputs);
          };
        });
    return true;
  }();
  return registered ? "run_watch" : "";
}

int64_t RunWatch::take_compiles() { return n_compiles - std::exchange(n_seen, n_compiles); }
std::vector<int64_t> RunWatch::take_runs() { return std::exchange(runs, {}); }
void RunWatch::reset() { runs.clear(), n_compiles = n_seen = 0; }

Arguments arguments_of(JsonView args) {
  Arguments arguments;
  for (JsonView argument : args.items()) add_argument(arguments, argument);
  return arguments;
}

Options options_of(JsonView compile_args) {
  Options options{.backend = RunWatch::backend()};
  if (auto dynamic = compile_args.optional_field("dynamic")) options.dynamic = dynamic->boolean();
  if (auto fullgraph = compile_args.optional_field("fullgraph"))
    options.fullgraph = fullgraph->boolean();
  return options;
}

std::vector<config::Patch> flags_of(JsonView scenario) {
  std::vector<config::Patch> patches;
  for (auto [name, value] : scenario.field("config").members()) {
    std::string key(name);
    if (key.find('.') == key.npos) key = "dynamo." + key;
    if (value.is_integer())
      patches.push_back(config::patch({{key, value.integer()}}));
    else
      patches.push_back(config::patch({{key, value.boolean()}}));
  }
  return patches;
}

namespace {

compiler::Stance stance_of(const std::string& name) {
  if (name == "eager_on_recompile") return compiler::Stance::eager_on_recompile;
  if (name == "fail_on_recompile") return compiler::Stance::fail_on_recompile;
  return compiler::Stance::force_eager;
}

}  // namespace

StepMode::StepMode(JsonView step) {
  std::string context = context_of(step);
  constexpr std::string_view stance = "stance:";
  if (context.starts_with(stance))
    stance_ = std::make_unique<compiler::StanceScope>(stance_of(context.substr(stance.size())));
  if (context == "no_grad") no_grad_ = std::make_unique<NoGradGuard>();
  if (context == "inference_mode") inference_ = std::make_unique<InferenceMode>();
  set_deterministic(context == "deterministic");
}

StepMode::~StepMode() { set_deterministic(false); }

}  // namespace tenon
