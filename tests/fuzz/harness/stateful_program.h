// Random programs over state: a body that reads and changes what it captures (tensors, lists,
// shared pointers, numbers, a network under training), branches and loops on data and on numbers of
// the host, and what happens to that state between its calls. Each statement is the Statement of
// unit/random_program.h with blocks below it. stateful_run.h carries
// bodies out, stateful_events.h what is between the calls.
#pragma once

#include "../../unit/random_program.h"
#include "choices.h"

#include <tenon/tenon.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::fuzz {

enum class Kind : uint8_t {
  compute,
  view,
  write,
  with_number,
  number_of_data,
  branch_on_data,
  branch_on_host,
  loop_on_data,
  loop_on_host,
  member,
  list,
  pointer,
  host,
  dtype,
  sizes,
  read,
  outside,
  leave,
  draw,
  forward,
  train,
};

/// A statement; branches and loops have blocks.
struct Line {
  Kind kind;
  Statement s;
  std::vector<Line> block, otherwise;
};

/// What the programs are about.
enum class Theme : uint8_t {
  state,       ///< anything but training
  whole,       ///< the same without looks at data: most bodies are one graph
  steps,       ///< training steps between operations
  free_steps,  ///< training steps among everything else
};

inline bool has_training(Theme theme) { return theme >= Theme::steps; }

struct StatefulProgram {
  Theme theme = Theme::state;
  std::vector<Line> body;
  /// What changes before call 1, 2, ...
  std::vector<std::vector<Statement>> between;
  /// Arguments of each call.
  std::vector<Statement> arguments;
  std::optional<bool> dynamic;
  std::map<std::string, std::string> options;
};

inline Statement random_statement(Choices& choices) {
  return {choices.below(256), choices.below(256), choices.below(256), choices.below(65536)};
}

inline Kind random_kind(Choices& choices, Theme theme) {
  using enum Kind;
  constexpr Kind common[] = {
      compute,        compute,        compute,      compute,      view,           view,
      write,          write,          with_number,  with_number,  number_of_data, branch_on_data,
      branch_on_data, branch_on_host, loop_on_data, loop_on_host, member,         member,
      list,           pointer,        host,         dtype,        sizes,          read,
      outside,        leave,          draw,         forward};
  constexpr Kind of_steps[] = {compute, compute, view, dtype, train, train};
  constexpr Kind of_whole[] = {
      compute,        compute,     compute,     compute,      view,    view, write,
      write,          with_number, with_number, list,         pointer, host, branch_on_host,
      branch_on_host, dtype,       sizes,       loop_on_host, leave,   draw, forward};
  if (theme == Theme::whole && !choices.one_in(24))
    return of_whole[choices.below(std::size(of_whole))];
  if (theme == Theme::steps) return of_steps[choices.below(std::size(of_steps))];
  if (theme == Theme::free_steps && choices.one_in(5)) return train;
  return common[choices.below(std::size(common))];
}

inline std::vector<Line> random_block(Choices& choices, Theme theme, uint32_t most, int depth) {
  std::vector<Line> block;
  for (uint32_t n = 1 + choices.below(most); n > 0; --n) {
    Kind kind = random_kind(choices, theme);
    bool has_block = kind >= Kind::branch_on_data && kind <= Kind::loop_on_host;
    if (has_block && depth == 0) kind = Kind::compute, has_block = false;
    Line& line = block.emplace_back(Line{kind, random_statement(choices), {}, {}});
    if (!has_block) continue;
    line.block = random_block(choices, theme, 3, depth - 1);
    if (kind <= Kind::branch_on_host) line.otherwise = random_block(choices, theme, 2, depth - 1);
  }
  return block;
}

inline void add_random_options(Choices& choices, StatefulProgram& program) {
  if (choices.one_in(4)) program.dynamic = choices.below(2) == 1;
  constexpr std::pair<const char*, const char*> options[] = {
      {"dynamo.recompile_limit", "2"},     {"dynamo.capture_scalar_outputs", "true"},
      {"capture.on_limit", "\"replay\""},  {"capture.on_limit", "\"evict_lru\""},
      {"dynamo.specialize_float", "true"}, {"dynamo.accumulated_recompile_limit", "5"},
  };
  for (uint32_t n = choices.below(8); n > 5; --n)
    program.options.insert(options[choices.below(std::size(options))]);
}

inline StatefulProgram random_stateful_program(Choices choices, std::optional<Theme> theme = {}) {
  StatefulProgram program;
  constexpr Theme themes[] = {Theme::state, Theme::state, Theme::state, Theme::state,
                              Theme::whole, Theme::whole, Theme::steps, Theme::free_steps};
  program.theme = theme.value_or(themes[choices.below(std::size(themes))]);
  program.body = random_block(choices, program.theme, 9, 2);
  if (has_training(program.theme))
    program.body.insert(program.body.begin() + choices.below(2) % program.body.size(),
                        Line{Kind::train, random_statement(choices), {}, {}});
  uint32_t n_calls = 6 + choices.below(18);
  // Most calls are like others, so that recorded courses are followed.
  Statement form = random_statement(choices);
  bool is_steady = choices.one_in(3);
  for (uint32_t i = 0; i < n_calls; ++i) {
    auto& events = program.between.emplace_back();
    for (uint32_t n = choices.below(6); n > 3; --n) events.push_back(random_statement(choices));
    Statement other = is_steady ? form : random_statement(choices);
    program.arguments.push_back(
        {choices.one_in(10) ? other.op : form.op, choices.one_in(4) ? other.a : form.a,
         choices.one_in(12) ? other.b : form.b, choices.one_in(4) ? other.n : form.n});
  }
  add_random_options(choices, program);
  return program;
}

// ---- state

struct Cell {
  Tensor value;
};

/// Two linear layers and what trains them.
struct Net {
  std::array<Tensor, 4> parameters;
  std::unique_ptr<optim::SGD> optimizer;

  explicit Net(double momentum) {
    parameters = {randn({3, 4}) * 0.5, zeros({4}), randn({4, 2}) * 0.5, zeros({2})};
    for (Tensor& p : parameters) p.requires_grad_();
    optimizer =
        std::make_unique<optim::SGD>(std::vector<Tensor>(parameters.begin(), parameters.end()),
                                     optim::SGDOptions{.lr = 0.1, .momentum = momentum});
  }
  Tensor operator()(const Tensor& x) const {
    const auto& [w, b, v, c] = parameters;
    return (x.matmul(w) + b).tanh().matmul(v) + c;
  }
};

/// All that a body captures.
struct World {
  std::array<Tensor, 4> members = {randn({3}), ones({4, 3}), full({3}, 0.5), randn({2, 3})};
  Pool list, kept;
  std::shared_ptr<Cell> a = std::make_shared<Cell>(Cell{randn({3})}),
                        b = std::make_shared<Cell>(Cell{ones({3})}), at = a;
  std::array<double, 2> reals = {0.5, 2};
  std::array<int64_t, 2> wholes = {1, 2};
  std::array<bool, 2> flags = {false, true};
  std::vector<double> effects;  ///< in place of lines that are printed
  std::unique_ptr<Net> net;
  /// Compiled by itself; part of the graph inside of another.
  std::function<Tensor(const Tensor&)> inner =
      compile([](const Tensor& x) { return x.relu() + 0.5; }, {.backend = "eager"});

  /// But for the network.
  std::vector<Tensor*> tensors() {
    std::vector<Tensor*> all = {&a->value, &b->value, &at->value};
    for (Tensor& t : members) all.push_back(&t);
    for (Pool* pool : {&list, &kept})
      for (Tensor& t : *pool) all.push_back(&t);
    return all;
  }
};

/// The arguments of one call.
struct Arguments {
  Tensor x, y;
  double rate;
  int64_t count;
};

/// The result of one call.
struct Results {
  Pool tensors;
  std::vector<double> numbers;
  std::vector<Scalar<float>> lazy;
};

}  // namespace tenon::fuzz
