// L-BFGS with the line search of strong Wolfe conditions.
//
// Problem: minimise a smooth function of n numbers from its values and gradients, with a direction
// that knows the curvature, without a matrix of n x n.
// Model: the last steps s and the changes y of the gradient that they brought stand for the inverse of
// the Hessian; the direction is that matrix times -gradient, by two loops over the pairs (s, y).
// Method: as torch.optim.LBFGS takes it, so that the numbers are its: pairs with y.s <= 1e-10 are left
// out, the first step is 1 / |gradient|_1 long, tests of convergence and their order are the same. The
// search brackets a point where the loss has fallen enough and the slope has become flat enough, then
// narrows the bracket by the minimum of the cubic through both ends.
// Cost: 4 m n operations a direction for m pairs; a look at data after each call of the closure.
// Sources: Nocedal, Wright, "Numerical Optimization" (2006), algorithms 7.4, 3.5 and 3.6.
#include "nn/optim_parts.h"

#include <tenon/autograd.h>
#include <tenon/disable.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>
#include <tenon/optim/lbfgs.h>
#include <tenon/tree.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

namespace tenon::optim {
namespace {

double number_of(const Tensor& t) { return t.item<double>(std::source_location()); }
double product(const Tensor& a, const Tensor& b) { return number_of(dot(a, b)); }
double largest(const Tensor& t) { return number_of(t.abs().max()); }

// A place on the line that a direction draws from where the parameters are.
struct Place {
  double t, loss;
  Tensor grad;
  double slope;
};

// The minimum of the cubic through two places with their slopes, within [low, high].
double cubic_minimum(const Place& one, const Place& other, double low, double high) {
  const Place &a = one.t <= other.t ? one : other, &b = one.t <= other.t ? other : one;
  double d1 = one.slope + other.slope - 3 * (one.loss - other.loss) / (one.t - other.t);
  double square = d1 * d1 - one.slope * other.slope;
  if (!(square >= 0)) return (low + high) / 2;
  double d2 = std::sqrt(square);
  double at = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2));
  return std::min(std::max(at, low), high);
}

class WolfeSearch {
 public:
  using Function = std::function<Place(double t)>;
  WolfeSearch(Function at, Place start, double longest, double tolerance, int64_t most)
      : at_(std::move(at)),
        start_(std::move(start)),
        longest_(longest),
        tolerance_(tolerance),
        most_(most) {}

  Place from(double t) {
    Place now = bracket(t);
    return is_done_ ? now : narrow();
  }

 private:
  bool is_low_enough(const Place& p) const {
    return !(p.loss > start_.loss + 1e-4 * p.t * start_.slope);
  }
  bool is_flat_enough(const Place& p) const { return std::abs(p.slope) <= -0.9 * start_.slope; }

  // Goes on until the ends have a good place between them, or one is good.
  Place bracket(double t) {
    Place previous = start_, now = at_(t);
    for (; turns_ < most_; ++turns_) {
      bool rises = turns_ > 1 && now.loss >= previous.loss;
      if (!is_low_enough(now) || rises) break;
      is_done_ = is_flat_enough(now);
      if (is_done_ || now.slope >= 0) break;
      double next = cubic_minimum(previous, now, now.t + 0.01 * (now.t - previous.t), now.t * 10);
      previous = std::exchange(now, at_(next));
    }
    ends_ = {turns_ == most_ ? start_ : previous, now};
    return now;
  }

  // A trial close to an end is moved into the bracket the second time.
  double trial() {
    double low = std::min(ends_[0].t, ends_[1].t), high = std::max(ends_[0].t, ends_[1].t);
    double t = cubic_minimum(ends_[0], ends_[1], low, high), margin = 0.1 * (high - low);
    bool is_close = std::min(high - t, t - low) < margin;
    bool moves = is_close && (was_close_ || t >= high || t <= low);
    was_close_ = is_close && !moves;
    if (!moves) return t;
    return std::abs(t - high) < std::abs(t - low) ? high - margin : low + margin;
  }

  Place narrow() {
    size_t low = ends_[0].loss <= ends_[1].loss ? 0 : 1;
    for (; !is_done_ && turns_ < most_; ++turns_) {
      Place &best = ends_[low], &worse = ends_[1 - low];
      if (std::abs(worse.t - best.t) * longest_ < tolerance_) break;
      Place now = at_(trial());
      if (!is_low_enough(now) || now.loss >= best.loss) {
        worse = std::move(now);
        low = ends_[0].loss <= ends_[1].loss ? 0 : 1;
        continue;
      }
      is_done_ = is_flat_enough(now);
      if (!is_done_ && now.slope * (worse.t - best.t) >= 0) worse = best;
      best = std::move(now);
    }
    return ends_[low];
  }

  Function at_;
  Place start_;
  double longest_, tolerance_;
  int64_t most_, turns_ = 0;
  bool is_done_ = false, was_close_ = false;
  std::array<Place, 2> ends_;
};

// The parameters go back to where they are, also where the closure throws.
class ParametersBack {
 public:
  explicit ParametersBack(const std::vector<Group::Slot>& slots) : slots_(slots) {
    for (const Group::Slot& slot : slots) kept_.push_back(slot.parameter.clone());
  }
  ParametersBack(const ParametersBack&) = delete;
  ~ParametersBack() {
    for (size_t i = 0; i < kept_.size(); ++i) slots_[i].parameter.copy_(kept_[i]);
  }

 private:
  const std::vector<Group::Slot>& slots_;
  std::vector<Tensor> kept_;
};

}  // namespace

LBFGS::LBFGS(const std::vector<Tensor>& parameters, const LBFGSOptions& options)
    : options_(options) {
  require_at_least_zero("LBFGS", "lr", options.lr);
  require(options.max_iter >= 1 && options.history_size >= 1,
          "LBFGS: expected max_iter and history_size of 1 or more, found {} and {}",
          options.max_iter, options.history_size);
  if (!options_.max_eval) options_.max_eval = options.max_iter * 5 / 4;
  add_group(parameters, options.lr, 0, {});
}

void LBFGS::update(size_t, const Tensor&, const Tensor&, const std::vector<Tensor>&) const {
  fail("LBFGS: parameters are not updated one by one; call step(closure)");
}

double LBFGS::evaluate(const std::function<Tensor()>& closure, Tensor* loss) {
  EnableGradGuard enabled;
  Tensor found = closure();
  require(found.defined() && found.numel() == 1,
          "LBFGS: the closure must return the loss, one number, found {}",
          found.defined() ? symbolic_text(found) : "an undefined tensor");
  ++n_evaluations_;
  if (loss) *loss = found;
  double value = number_of(found.detach());
  return options_.maximize ? -value : value;
}

Tensor LBFGS::flat_grad() const {
  std::vector<Tensor> parts;
  for (const Group::Slot& slot : groups().front().slots) {
    Tensor g = slot.parameter.grad();
    if (!g.defined()) g = zeros_like(slot.parameter.detach());
    parts.push_back(real_parts(g).reshape({-1}));
  }
  Tensor flat = cat(parts);
  return options_.maximize ? flat.neg() : flat;
}

void LBFGS::move_by(double t, const Tensor& direction) const {
  int64_t at = 0;
  for (const Group::Slot& slot : groups().front().slots) {
    Tensor numbers = real_parts(slot.parameter);
    int64_t n = numbers.numel();
    numbers.add_(narrow(direction, 0, at, n).reshape(numbers.sizes()), t);
    at += n;
  }
}

void LBFGS::remember(const Tensor& grad) {
  Tensor change = grad - previous_grad_, step = direction_ * t_;
  double both = product(change, step);
  if (!(both > 1e-10)) return;
  if (static_cast<int64_t>(history_.size()) == options_.history_size)
    history_.erase(history_.begin());
  history_.push_back({step, change, 1 / both});
  scale_ = both / product(change, change);
}

void LBFGS::choose_direction(const Tensor& grad) {
  Tensor d = grad.neg();
  if (++n_directions_ == 1) {
    history_.clear();
    scale_ = 1;
  } else {
    remember(grad);
    std::vector<double> shares(history_.size());
    for (size_t i = history_.size(); i-- > 0;) {
      const Pair& p = history_[i];
      shares[i] = product(p.step, d) * p.inverse_product;
      d.add_(p.grad_change, -shares[i]);
    }
    d.mul_(scale_);
    for (size_t i = 0; i < history_.size(); ++i) {
      const Pair& p = history_[i];
      d.add_(p.step, shares[i] - product(p.grad_change, d) * p.inverse_product);
    }
  }
  direction_ = d;
  previous_grad_ = grad.clone();
  double lr = groups().front().lr;
  t_ = n_directions_ == 1 ? std::min(1.0, 1 / number_of(grad.abs().sum())) * lr : lr;
}

void LBFGS::search(const std::function<Tensor()>& closure, double slope, int64_t most, double& loss,
                   Tensor& grad) {
  auto at = [&](double t) {
    ParametersBack back(groups().front().slots);
    move_by(t, direction_);
    double found = evaluate(closure);
    Tensor g = flat_grad();
    return Place{t, found, g, product(g, direction_)};
  };
  Place found = WolfeSearch(at, {0, loss, grad, slope}, largest(direction_), 1e-9, most).from(t_);
  t_ = found.t;
  loss = found.loss;
  grad = found.grad;
}

Tensor LBFGS::step(const std::function<Tensor()>& closure, std::source_location where) {
  // Numbers from data go into its operations: recorded, no two steps would be alike.
  std::optional<NoCompile> as_it_is;
  if (detail::is_recording()) as_it_is.emplace("LBFGS::step()", where);
  NoGradGuard no_grad;
  int64_t last_evaluation = n_evaluations_ + *options_.max_eval;
  Tensor first;
  double loss = evaluate(closure, &first);
  Tensor grad = flat_grad();
  bool is_flat = largest(grad) <= options_.tolerance_grad;
  for (int64_t turn = 1; !is_flat && turn <= options_.max_iter; ++turn) {
    choose_direction(grad);
    double slope = product(grad, direction_), previous_loss = loss;
    if (slope > -options_.tolerance_change) break;
    if (options_.strong_wolfe) search(closure, slope, last_evaluation - n_evaluations_, loss, grad);
    move_by(t_, direction_);
    if (turn == options_.max_iter) break;
    if (!options_.strong_wolfe) {
      loss = evaluate(closure);
      grad = flat_grad();
    }
    is_flat = largest(grad) <= options_.tolerance_grad;
    if (n_evaluations_ >= last_evaluation) break;
    if (std::abs(t_) * largest(direction_) <= options_.tolerance_change) break;
    if (std::abs(loss - previous_loss) < options_.tolerance_change) break;
  }
  return first;
}

StateDict LBFGS::state_dict() const {
  StateDict out;
  out["group.0.lr"] = groups().front().lr.tensor();
  std::vector<double> numbers{t_, scale_, double(n_directions_), double(n_evaluations_)};
  if (n_directions_ > 0) {
    out["lbfgs.direction"] = direction_;
    out["lbfgs.previous_grad"] = previous_grad_;
  }
  for (size_t i = 0; i < history_.size(); ++i) {
    out[message("lbfgs.step.{}", i)] = history_[i].step;
    out[message("lbfgs.grad_change.{}", i)] = history_[i].grad_change;
    numbers.push_back(history_[i].inverse_product);
  }
  out["lbfgs.numbers"] = tensor(numbers);
  return out;
}

void LBFGS::load_state_dict(const StateDict& state) {
  NoGradGuard no_grad;
  int64_t n = 0;
  for (const Group::Slot& slot : groups().front().slots) n += real_parts(slot.parameter).numel();
  auto part = [&](const std::string& name, int64_t size) {
    auto at = state.find(name);
    require(at != state.end(), "LBFGS: the state has no {}; is it that of another optimizer?",
            name);
    require(at->second.defined(), "LBFGS: {}: expected {} numbers, found an undefined tensor", name,
            size);
    require(at->second.numel() == size,
            "LBFGS: {}: expected {} numbers, found {}; is it that of another model?", name, size,
            at->second);
    return at->second;
  };
  double lr = number_of(part("group.0.lr", 1));
  auto kept = state.find("lbfgs.numbers");
  require(kept != state.end() && kept->second.defined() && kept->second.numel() >= 4,
          "LBFGS: the state has no lbfgs.numbers of 4 or more; is it that of another optimizer?");
  std::vector<double> numbers = kept->second.to(Dtype::f64).to_vector<double>();
  std::vector<Pair> history;
  for (size_t i = 4; i < numbers.size(); ++i)
    history.push_back({part(message("lbfgs.step.{}", i - 4), n).clone(),
                       part(message("lbfgs.grad_change.{}", i - 4), n).clone(), numbers[i]});
  Tensor direction, previous_grad;
  if (numbers[2] > 0) {
    direction = part("lbfgs.direction", n).clone();
    previous_grad = part("lbfgs.previous_grad", n).clone();
  }
  groups().front().lr = lr;
  history_ = std::move(history);
  direction_ = direction;
  previous_grad_ = previous_grad;
  t_ = numbers[0];
  scale_ = numbers[1];
  n_directions_ = static_cast<int64_t>(numbers[2]);
  n_evaluations_ = static_cast<int64_t>(numbers[3]);
}

}  // namespace tenon::optim
