// Whether a stateful program gives the same compiled as plain: results, what it does to its
// arguments and its state, which tensors are one or share memory, errors, and how many random
// numbers it takes; on backend "eager" bit by bit, on others within what rounding explains. And the
// smallest program that still differs.
//
// Rounding can send a program another way (a branch on a sum that is nearly zero). So where a
// backend that rounds otherwise differs, the plain program runs again with noise on what it
// computes; one that noise sends elsewhere as well proves nothing.
#pragma once

#include "stateful_events.h"
#include "stateful_run.h"

#include <functional>
#include <iterator>
#include <ranges>

namespace tenon::fuzz {

/// All that can be seen of a program after a call.
struct Picture {
  Pool tensors;
  std::vector<std::string> names;
  std::vector<double> numbers;
  std::string error;  ///< its kind; empty: none
  std::string message;
  RngState random;

  void add(std::string name, const Tensor& t) {
    tensors.push_back(t);
    names.push_back(std::move(name));
  }
  void add(const std::string& name, std::span<const Tensor> all) {
    for (size_t i = 0; i < all.size(); ++i) add(name + std::to_string(i), all[i]);
  }
  void add(const World& w) {
    add("member", w.members);
    add("list", w.list);
    add("kept", w.kept);
    add("at->value", w.at->value);
    add("a->value", w.a->value);
    add("b->value", w.b->value);
    add("parameter", w.net->parameters);
    for (const Tensor& p : w.net->parameters) add("gradient", p.grad());
    add("optimizer", w.net->optimizer->state_tensors());
    numbers.insert(numbers.end(), w.reals.begin(), w.reals.end());
    numbers.insert(numbers.end(), w.wholes.begin(), w.wholes.end());
    numbers.insert(numbers.end(), w.flags.begin(), w.flags.end());
    numbers.insert(numbers.end(), {double(w.at == w.a), double(w.at == w.b), double(w.a == w.b)});
    numbers.insert(numbers.end(), w.effects.begin(), w.effects.end());
  }
  void add(const Results& results) {
    add("result", results.tensors);
    numbers.insert(numbers.end(), results.numbers.begin(), results.numbers.end());
    for (const Scalar<float>& s : results.lazy) numbers.push_back(s.value());
  }
  /// Whether both are arguments or results that the body has not stored: their handles are the
  /// caller's. What a body stores is a tensor over the same memory.
  bool has_handles(size_t i, size_t k) const {
    auto is_stored = [&](size_t n) {
      return std::ranges::any_of(std::views::iota(size_t{0}, tensors.size()), [&](size_t other) {
        return !is_given(other) && tensors[other].defined() && tensors[other].is_same(tensors[n]);
      });
    };
    return is_given(i) && is_given(k) && !is_stored(i) && !is_stored(k);
  }

 private:
  bool is_given(size_t i) const {
    return names[i].starts_with("result") || names[i].starts_with("argument");
  }
};

/// How near numbers must be.
enum class Nearness : uint8_t { same_bits, as_rounded };

template <class T>
bool same_number(T a, T b, Nearness nearness) {
  auto x = static_cast<double>(a), y = static_cast<double>(b);
  if (std::isnan(x)) return std::isnan(y);
  if (nearness == Nearness::as_rounded && !std::is_integral_v<T> && std::isfinite(x))
    return std::fabs(x - y) <= 1e-4 * (1 + std::fabs(x));
  return a == b && (std::signbit(x) == std::signbit(y) || nearness == Nearness::as_rounded);
}

template <class T>
bool same_numbers(const std::vector<T>& a, const std::vector<T>& b, Nearness nearness) {
  return std::ranges::equal(a, b, [&](T x, T y) { return same_number(x, y, nearness); });
}

template <class T>
bool same_values(const Tensor& a, const Tensor& b, Nearness nearness) {
  return same_numbers(a.detach().contiguous().to_vector<T>(),
                      b.detach().contiguous().to_vector<T>(), nearness);
}

inline std::string values_of(const Tensor& t) {
  std::string text = to_text(t) + " (";
  if (t.is_fake()) return text + "no data)";
  for (double v : t.detach().to(Dtype::f64).contiguous().to_vector<double>())
    text += message("{} ", v);
  return text + ")";
}

// Strides, where they mean something.
inline std::string layout_of(const Tensor& t) {
  std::string text;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.numel() > 0 && t.size(d) > 1) text += message("{} ", t.stride(d));
  return text;
}

inline std::string difference_of(const Tensor& a, const Tensor& b, Nearness nearness) {
  if (a.defined() != b.defined()) return "one is undefined";
  if (!a.defined()) return "";
  if (b.is_fake()) return "a tensor without data is left";
  if (a.dtype() != b.dtype() || to_text(a.sizes()) != to_text(b.sizes())) return "other sizes";
  if (layout_of(a) != layout_of(b)) return "other strides";
  if (a.requires_grad() != b.requires_grad()) return "one needs a gradient";
  bool same = a.dtype() == Dtype::f32   ? same_values<float>(a, b, nearness)
              : a.dtype() == Dtype::f64 ? same_values<double>(a, b, nearness)
                                        : same_values<int64_t>(a, b, nearness);
  return same ? "" : "other values";
}

/// What differs; empty: nothing.
inline std::string difference_of(const Picture& plain, const Picture& compiled, Nearness nearness) {
  if (plain.error != compiled.error)
    return message("errors: plain '{}', compiled '{}' {}", plain.error, compiled.error,
                   compiled.message);
  if (plain.names != compiled.names) return "there are other tensors";
  for (size_t i = 0; i < plain.tensors.size(); ++i) {
    const Tensor &a = plain.tensors[i], &b = compiled.tensors[i];
    if (std::string what = difference_of(a, b, nearness); !what.empty())
      return message("{}: {}: plain {}, compiled {}", plain.names[i], what,
                     a.defined() ? values_of(a) : "", b.defined() ? values_of(b) : "");
    for (size_t k = 0; k < i && a.defined(); ++k) {
      const Tensor &c = plain.tensors[k], &d = compiled.tensors[k];
      if (!c.defined() || !(a.numel() > 0) || !(c.numel() > 0)) continue;
      if (plain.has_handles(i, k) && a.is_same(c) != b.is_same(d))
        return message("{} and {} are one tensor in one of them", plain.names[i], plain.names[k]);
      if ((a.head()->storage_id == c.head()->storage_id) !=
          (b.head()->storage_id == d.head()->storage_id))
        return message("{} and {} share memory in one of them", plain.names[i], plain.names[k]);
    }
  }
  if (!same_numbers(plain.numbers, compiled.numbers, nearness)) {
    std::string text = "numbers: ";
    for (double n : plain.numbers) text += message("{} ", n);
    text += " compiled ";
    for (double n : compiled.numbers) text += message("{} ", n);
    return text;
  }
  // Code does not draw what nobody uses by the time of an error.
  bool same_draws = plain.random == compiled.random || !plain.error.empty();
  return same_draws ? "" : "another number of random numbers was drawn";
}

/// One of the two programs that are compared.
class Side {
 public:
  Side() : world((manual_seed(1), World{})) { world.net = std::make_unique<Net>(0.5); }

  template <class Body>
  Picture call(const StatefulProgram& program, size_t i, const Body& body) {
    manual_seed(1000 + i);
    for (const Statement& s : program.between[i]) change_state(world, s);
    Arguments arguments = make_arguments(world, program.arguments[i]);
    Picture picture;
    try {
      Results results = body(arguments);
      if (!has_training(program.theme)) differentiate(results, world);
      picture.add(results);
    } catch (const Left&) {
      picture.error = "thrown by the body";
    } catch (const Error& error) {
      picture.error = "an error of Tenon";
      picture.message = error.what();
    }
    picture.random = rng_state();
    picture.add("argument", {{arguments.x, arguments.y}});
    picture.add(world);
    return picture;
  }

  // The caller of a forward pass asks for gradients.
  static void differentiate(const Results& results, World& w) {
    for (Tensor& p : w.net->parameters) p.set_grad({});
    for (const Tensor& t : results.tensors)
      if (t.requires_grad() && !t.is_leaf()) return t.sum().backward();
  }

  /// Takes over the values of another side, so that what rounding does not add up over the calls.
  void take_values(Side& other) {
    NoGradGuard off;
    std::vector<Tensor*> mine = world.tensors(), its = other.world.tensors();
    for (size_t i = 0; i < mine.size(); ++i)
      if (!is_expanded(*mine[i])) mine[i]->copy_(*its[i]);
    std::vector<Tensor> trained = all_trained(), its_trained = other.all_trained();
    for (size_t i = 0; i < trained.size(); ++i) trained[i].copy_(its_trained[i]);
    world.reals = other.world.reals;
    world.effects = other.world.effects;
  }

  void tidy() {
    for (Tensor* t : world.tensors())
      if (t->requires_grad()) *t = t->detach();
    for (Tensor* t : world.tensors()) tame(*t);
    if (world.effects.size() > 64) world.effects.clear();
  }

  World world;

 private:
  std::vector<Tensor> all_trained() {
    std::vector<Tensor> all(world.net->parameters.begin(), world.net->parameters.end());
    std::ranges::copy(world.net->optimizer->state_tensors(), std::back_inserter(all));
    return all;
  }
};

/// Two runs of a program call by call: as it is written, and by another body made of it.
template <class MakeBody>
std::string difference_from_plain(const StatefulProgram& program, Nearness nearness,
                                  const MakeBody& make_body, std::string* story) {
  Side plain, other;
  auto body = make_body(other.world);
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    if (story) *story += message("call {}\n", i);
    Picture expected = plain.call(program, i, [&](const Arguments& in) {
      return Course(plain.world, in, program.theme, story)(program.body);
    });
    Picture found = other.call(program, i, body);
    if (std::string what = difference_of(expected, found, nearness); !what.empty())
      return message("call {}: {}", i, what);
    plain.tidy();
    other.tidy();
    if (nearness == Nearness::as_rounded) plain.take_values(other);
  }
  return "";
}

/// Whether noise on what the plain program computes changes what it does.
inline bool is_shaky(const StatefulProgram& program) {
  auto noisy = [&](uint32_t seed) {
    return difference_from_plain(
        program, Nearness::as_rounded,
        [&](World& world) {
          return [&, seed](const Arguments& in) {
            return Course(world, in, program.theme, nullptr, seed)(program.body);
          };
        },
        nullptr);
  };
  return std::ranges::any_of(std::views::iota(1u, 9u),
                             [&](uint32_t seed) { return !noisy(seed).empty(); });
}

/// What differs between calls of the program, plain and compiled; empty: nothing. `story` receives
/// what the plain one does.
inline std::string difference_in(const StatefulProgram& program, const std::string& backend,
                                 std::string* story = nullptr) {
  Options options{.backend = backend};
  options.dynamic = program.dynamic;
  options.options = program.options;
  Nearness nearness = backend == "eager" ? Nearness::same_bits : Nearness::as_rounded;
  std::string what = difference_from_plain(
      program, nearness,
      [&](World& world) {
        return compile(
            [&](const Arguments& in) {
              return Course(world, in, program.theme, nullptr)(program.body);
            },
            options);
      },
      story);
  bool proves = !what.empty() && (nearness == Nearness::same_bits || !is_shaky(program));
  return proves ? what : "";
}

// ---- smaller programs

using Differs = std::function<bool(const StatefulProgram&)>;

/// Takes lines of a block away, or puts their blocks in their place, while the program differs.
inline bool reduce_block(StatefulProgram& program, std::vector<Line>& block,
                         const Differs& differs) {
  bool any = false;
  for (size_t i = block.size(); i-- > 0;) {
    Line line = block[i];
    auto place = block.begin() + static_cast<std::ptrdiff_t>(i);
    block.erase(place);
    if (differs(program)) {
      any = true;
      continue;
    }
    std::vector<Line> before = block;
    for (const auto* inner : {&line.block, &line.otherwise}) {
      if (inner->empty()) continue;
      block = before;
      block.insert(block.begin() + static_cast<std::ptrdiff_t>(i), inner->begin(), inner->end());
      if (differs(program)) return true;
    }
    block = before;
    block.insert(block.begin() + static_cast<std::ptrdiff_t>(i), line);
    any = reduce_block(program, block[i].block, differs) || any;
    any = reduce_block(program, block[i].otherwise, differs) || any;
  }
  return any;
}

inline bool reduce_calls(StatefulProgram& program, const Differs& differs) {
  bool any = false;
  auto attempt = [&](auto change) {
    StatefulProgram before = program;
    change();
    if (differs(program)) return any = true, true;
    program = before;
    return false;
  };
  for (size_t i = program.arguments.size(); i-- > 0;) {
    auto at = static_cast<std::ptrdiff_t>(i);
    bool gone = program.arguments.size() > 1 && attempt([&] {
                  program.arguments.erase(program.arguments.begin() + at);
                  program.between.erase(program.between.begin() + at);
                });
    if (gone) continue;
    for (size_t k = program.between[i].size(); k-- > 0;)
      attempt([&] {
        program.between[i].erase(program.between[i].begin() + static_cast<std::ptrdiff_t>(k));
      });
    if (i > 0 && tenon::text_of(Program{program.arguments[i]}) !=
                     tenon::text_of(Program{program.arguments[i - 1]}))
      attempt([&] { program.arguments[i] = program.arguments[i - 1]; });
  }
  if (program.dynamic) attempt([&] { program.dynamic.reset(); });
  if (!program.options.empty()) attempt([&] { program.options.clear(); });
  return any;
}

inline StatefulProgram reduced(StatefulProgram program, const Differs& differs) {
  while (reduce_block(program, program.body, differs) || reduce_calls(program, differs)) {
  }
  return program;
}

inline std::string lines_of(const std::vector<Line>& block, const std::string& indent = "  ") {
  constexpr std::string_view names[] = {
      "compute",        "view",           "write",        "with_number",  "number_of_data",
      "branch_on_data", "branch_on_host", "loop_on_data", "loop_on_host", "member",
      "list",           "pointer",        "host",         "dtype",        "sizes",
      "read",           "outside",        "leave",        "draw",         "forward",
      "train"};
  std::string text;
  for (const Line& l : block) {
    text += message("{}{} {} {} {} {}\n", indent, names[static_cast<size_t>(l.kind)], l.s.op, l.s.a,
                    l.s.b, l.s.n);
    text += lines_of(l.block, indent + "  ");
    if (!l.otherwise.empty()) text += indent + "else\n" + lines_of(l.otherwise, indent + "  ");
  }
  return text;
}

/// For people: the statements, the calls, and what happens in them.
inline std::string text_of(const StatefulProgram& program, const std::string& backend) {
  std::string text = lines_of(program.body), story;
  for (size_t i = 0; i < program.arguments.size(); ++i)
    text += message("call {}: {}before it {}\n", i, tenon::text_of(Program{program.arguments[i]}),
                    tenon::text_of(Program(program.between[i])));
  if (program.dynamic) text += message("dynamic = {}\n", *program.dynamic);
  for (const auto& [key, value] : program.options) text += message("{} = {}\n", key, value);
  std::string what = difference_in(program, backend, &story);
  return text + story + what + "\n";
}

}  // namespace tenon::fuzz
