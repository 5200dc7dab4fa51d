// Carries out the statements of stateful_program.h: one run of a body.
#pragma once

#include "stateful_operands.h"

#include <algorithm>
#include <cmath>

namespace tenon::fuzz {

/// What a body throws by itself.
struct Left {};

/// One run of a body; `noise` as Operands has it.
class Course : Operands {
 public:
  Course(World& world, const Arguments& arguments, Theme theme, std::string* story,
         uint32_t noise = 0)
      : Operands(world, arguments, story, noise), more_of_training_(theme == Theme::free_steps) {}

  Results operator()(const std::vector<Line>& body) {
    block(body);
    results_.tensors.insert(results_.tensors.end(),
                            locals_.end() - std::min<std::ptrdiff_t>(3, std::ssize(locals_)),
                            locals_.end());
    Pool& given = results_.tensors;
    if (w_.flags[0]) std::swap(given[0], given[1]);
    if (w_.wholes[1] % 3 == 1) given.push_back(in_.y);
    return std::move(results_);
  }

 private:
  void block(const std::vector<Line>& lines) {
    for (const Line& l : lines) {
      if (has_left_ || locals_.size() > 24) return;
      line(l);
    }
  }

  void line(const Line& l) {
    using enum Kind;
    const Statement& s = l.s;
    switch (l.kind) {
      case compute:
        say(at(s.a), "compute {} with {}, n {}", s.op % 16, name_of(at(s.b)), s.n);
        return push_computed(computed(at(s.a), at(s.b), s.op % 16, s.n, w_.reals[s.n % 2]));
      case view:
        say(at(s.a), "view {}, n {}", s.op % 7, s.n);
        return push(view_of(at(s.a), s.op % 7, s.n, most_dims));
      case write:
        return write_to(at(s.a), at(s.b), s.op % 10, s.n);
      case with_number:
        return push_computed(numbered(at(s.a), at(s.b), s.op % 13, s.n));
      case number_of_data:
        return use_number(s);
      case branch_on_data:
        say(at(s.a), "if, kind {}", s.op % 6);
        return block(tests_data(looked_at(at(s.a)), looked_at(at(s.b)), s.op % 6) ? l.block
                                                                                  : l.otherwise);
      case branch_on_host:
        return block(tests_host(s) ? l.block : l.otherwise);
      case loop_on_data:
        return loop(at(s.a), s.n, l.block);
      case loop_on_host:
        note("loop of wholes[{}] % 4 turns", s.a % 2);
        for (int64_t n = w_.wholes[s.a % 2] % 4; n > 0; --n) block(l.block);
        return;
      case member:
        return change_member(s);
      case list:
        return use_list(s);
      case pointer:
        return use_pointer(s);
      case host:
        return change_host(s.op % 7, s.a % 2);
      case dtype:
        say(at(s.a), "to dtype {}", s.op % 4);
        return push(converted(at(s.a), s.op % 4));
      case sizes:
        say(at(s.a), "sizes {} with {}, n {}", s.op % 9, name_of(at(s.b)), s.n);
        return push(resized(at(s.a), at(s.b), s.op % 9, s.n));
      case read:
        return read_data(looked_at(at(s.a)), at(s.b), s.op % 6, s.n);
      case outside:
        return go_outside(s);
      case leave:
        return leave_early(s);
      case draw:
        say(at(s.a), "random numbers, kind {}", s.op % 4);
        return push(drawn(at(s.a), s.op % 4));
      case forward:
        note("forward {}", s.a);
        return push_computed((*w_.net)(rows_of(at(s.a))));
      case train:
        return train_once(s);
    }
  }

  // ---- writes

  void write_to(Tensor& t, const Tensor& value, uint32_t kind, uint32_t n) {
    say(t, "written, kind {}, n {}, by {}", kind, n, name_of(value));
    if (t.requires_grad() || is_expanded(t)) return;
    Tensor v = fit(t, value).detach().to(t.dtype());
    switch (kind) {
      case 0:
        t.add_(v);
        return;
      case 1:
        t.mul_(is_of_floats(t) ? Number(0.5) : Number(2));
        return;
      case 2:
        t.copy_(v);
        return;
      case 3:
        t.relu_();
        return;
      case 4:
        t.fill_(static_cast<double>(n % 3));
        return;
      case 5:
        view_of(t, n % 6, n / 8, most_dims).sub_(1);
        return;
      case 6:
        t += v;
        return;
      case 7:
        // Other sizes and strides for the tensor itself, which a body sees at once only where the
        // tensor is its own.
        t = t.clone();
        if (t.dim() == 2) t.t_();
        return;
      case 8:
        return gather_statistics(t, v);
      default:
        t.zero_();
    }
  }

  // Of a normalisation whose result nobody reads.
  static void gather_statistics(const Tensor& mean, const Tensor& value) {
    if (!is_of_floats(mean) || mean.dim() != 1 || static_cast<bool>(mean.numel() == 0)) return;
    Tensor rows = (value + arange(3).to(mean.dtype()).unsqueeze(1)).expand({3, mean.size(0)});
    batch_norm(rows, {}, {}, mean, ones_like(mean), true, 0.5, 1e-3, false);
  }

  // ---- numbers

  Tensor numbered(const Tensor& a, const Tensor& b, uint32_t kind, uint32_t n) {
    double real = w_.reals[n % 2];
    int64_t whole = w_.wholes[n % 2];
    if (story_)
      note("numbers, kind {}, of {}: real {}, whole {}, n {}", kind, name_of(a), real, whole, n);
    int64_t d = pick_dim(a, n / 2);
    switch (kind) {
      case 0:
        return a * real;
      case 1:
        return a + whole;
      case 2:
        return a.dim() && static_cast<bool>(a.size(d) > 2) ? a.narrow(d, 0, whole % 3 + 1) : a - 1;
      case 3:
        return full({whole % 4 + 1, 3}, real);
      case 4:
        return a.dim() && static_cast<bool>(a.size(d) > 1) ? a.select(d, whole % 2) : a + 2;
      case 5:
        return a * in_.rate;
      case 6:
        return a + in_.count;
      case 7:
        return a.clamp_min(real) - in_.rate;
      case 8:
        return arange(whole % 5 + 1).to(Dtype::f32) * real;
      case 9:
        return tensor({static_cast<float>(real), 1.0f, 2.0f}) * as_float(a).mean();
      case 10:
        return as_float(a).pow(whole % 3);
      case 11:
        return a.dim() && static_cast<bool>(a.size(0) > 0) ? a * a.size(0) : a * real * whole;
      default:
        return whole % 2 ? add_scaled(a, fit(a, b), real) : a.sub(real);
    }
  }

  void use_number(const Statement& s) {
    Tensor a = looked_at(at(s.a));
    say(a, "its number, kind {}, for {}", s.op % 9, s.b % 2);
    switch (s.op % 9) {
      case 0:
        return push(a * number_in(a));
      case 1:
        w_.reals[s.b % 2] = number_in(a);
        return;
      case 2:
        w_.wholes[s.b % 2] = std::abs(static_cast<int64_t>(number_in(a)));
        return;
      case 3:
        results_.numbers.push_back(number_in(a));
        return;
      case 4:
        results_.lazy.push_back((s.n % 3 ? first_of(a) : a.to(Dtype::f32).sum()).item<float>());
        return;
      case 5: {
        SymInt n = (a > 0.0).sum().item<int64_t>();
        return push(as_float(a) - n);
      }
      case 6:
        return push(as_float(a) * as_float(a).sum().tanh().item<float>().sym());
      case 7:
        w_.effects.push_back(number_in(a));
        return;
      default: {
        int64_t n = (a > 0.5).sum().item<int64_t>();
        return push(arange(n % 4 + 2).to(Dtype::f32));
      }
    }
  }

  bool tests_host(const Statement& s) {
    note("if of the host, kind {}, {}", s.op % 6, s.a % 2);
    switch (s.op % 6) {
      case 0:
        return w_.flags[s.a % 2];
      case 1:
        return w_.wholes[s.a % 2] % 2 == 1;
      case 2:
        return w_.reals[s.a % 2] > 0.75;
      case 3:
        return static_cast<bool>(in_.x.size(0) > 3);
      case 4:
        return in_.count % 2 == 0;
      default:
        return w_.list.size() > 1;
    }
  }

  void loop(const Tensor& a, uint32_t n, const std::vector<Line>& lines) {
    say(a, "loop on its data, from {}", 0.2 * (n % 20));
    Tensor s = looked_at(a).to(Dtype::f32).abs().sum();
    for (int turn = 0; turn < 4 && s.item<float>() > 0.2f * static_cast<float>(n % 20); ++turn) {
      block(lines);
      s = n % 3 ? s * 0.4 : locals_.back().to(Dtype::f32).abs().sum() * 0.2;
    }
  }

  // ---- state

  void change_member(const Statement& s) {
    Tensor &m = w_.members[s.b % 4], &other = w_.members[s.n % 4];
    Tensor t = at(s.a);
    note("member{}, kind {}, by {}, other member{}", s.b % 4, s.op % 11, name_of(at(s.a)), s.n % 4);
    switch (s.op % 11) {
      case 0:
        m = t;
        return;
      case 1:
        m = t.clone();
        return;
      case 2:
        m = full({3}, w_.reals[s.n % 2]);
        return;
      case 3:
        std::swap(m, other);
        return;
      case 4:
        m = other;
        return;
      case 5:
        m = m * 0.5 + fit(m, t);
        return;
      case 6:
        if (w_.kept.size() < 3) w_.kept.push_back(m);
        return;
      case 7:
        if (!w_.kept.empty()) m = w_.kept[s.n % w_.kept.size()];
        return;
      case 8:
        m = view_of(other, s.n / 4 % 6, s.n / 32, most_dims);
        return;
      case 9:
        if (m.dim() && is_small(m)) m = cat({m, m.narrow(0, 0, (m.size(0) + 1) / 2)}, 0);
        return;
      default:
        m = other.clone();
    }
  }

  void use_list(const Statement& s) {
    note("list of {}, kind {}", w_.list.size(), s.op % 7);
    Tensor t = at(s.a);
    switch (s.op % 7) {
      case 0:
      case 1:
        if (w_.list.size() < 4) w_.list.push_back(s.op % 7 ? t.clone() : t);
        return;
      case 2:
        if (!w_.list.empty()) w_.list.erase(w_.list.begin());
        return;
      case 3:
        for (const Tensor& e : w_.list) t = t + as_float(e).mean();
        return push(t);
      case 4:
        w_.list.clear();
        return;
      case 5:
        for (Tensor& e : w_.list)
          if (!is_expanded(e) && is_of_floats(e)) e.mul_(0.5);
        return;
      default:
        for (Tensor& e : w_.list)
          if (is_small(e)) e = cat({e.reshape({-1}), as_float(t).mean().reshape({1})}, 0);
    }
  }

  void use_pointer(const Statement& s) {
    note("pointer, kind {}", s.op % 9);
    switch (s.op % 9) {
      case 0:
        w_.at = w_.a;
        return;
      case 1:
        w_.at = w_.b;
        return;
      case 2:
        return push(w_.at->value + fit(w_.at->value, at(s.a)));
      case 3:
        w_.at->value = at(s.a);
        return;
      case 4:
        return write_to(w_.at->value, at(s.a), s.n % 10, s.n / 16);
      case 5:
        std::swap(w_.a, w_.b);
        return;
      case 6:
        w_.at = std::make_shared<Cell>(Cell{w_.at->value});
        return;
      case 7:
        w_.a->value = w_.b->value * 0.5;
        return;
      default:
        push(w_.a->value);
        return push(w_.b->value - 1);
    }
  }

  void change_host(uint32_t kind, size_t i) {
    note("host, kind {}, {}", kind, i);
    switch (kind) {
      case 0:
      case 1:
        ++w_.wholes[i];
        return;
      case 2:
        w_.reals[i] = w_.reals[i] * 0.5 + 0.125;
        return;
      case 3:
        w_.flags[i] = !w_.flags[i];
        return;
      case 4:
        w_.effects.push_back(w_.reals[i]);
        return;
      case 5:
        w_.wholes[i] = in_.count + 1;
        return;
      default:
        results_.numbers.push_back(static_cast<double>(w_.wholes[i]));
    }
  }

  // ---- looks at data, and what stays out of graphs

  void read_data(const Tensor& a, const Tensor& b, uint32_t kind, uint32_t n) {
    say(a, "read, kind {}, n {}", kind, n);
    switch (kind) {
      case 0: {
        double sum = 0;  // of a captured tensor itself, which no operation has looked at before
        for (float v : in_floats(a).to_vector<float>()) sum += tamed(v);
        results_.numbers.push_back(sum);
        return;
      }
      case 1: {
        Tensor own = a.is_contiguous() ? in_floats(a) : in_floats(a).contiguous();
        if (own.numel() > 0) w_.reals[n % 2] = tamed(own.data_ptr<float>()[0]);
        return;
      }
      case 2:
        w_.flags[n % 2] = a.dtype() == b.dtype() && a.equal(b);
        return;
      case 3:
        results_.numbers.push_back(static_cast<double>(a.dim() ? a.size(0).guard_int() : -1));
        return;
      case 4:
        results_.numbers.push_back(in_.x.is_same(in_.y));
        return;
      default:
        graph_break("on purpose");
    }
  }

  void go_outside(const Statement& s) {
    say(at(s.a), "outside, kind {}", s.op % 5);
    Tensor t = at(s.a);
    switch (s.op % 5) {
      case 0:
        return push(disable([this](const Tensor& x) {
          ++w_.wholes[0];
          return x * 2;
        })(t));
      case 1:
        return push(disable([](const Tensor& x, const Tensor& y) {
          return as_float(x).sum().item<double>() > 0 ? x + 1 : x - fit(x, y);
        })(t, at(s.b)));
      case 2: {
        NoGradGuard off;
        return push(as_float(t).exp().clamp_max(3));
      }
      case 3:
        return push(w_.inner(t));
      default:
        return push(t.detach());
    }
  }

  void leave_early(const Statement& s) {
    note("leave, kind {}, if flags[{}]", s.op % 4, s.a % 2);
    if (!w_.flags[s.a % 2] || s.n % 3) return;
    w_.flags[s.a % 2] = false;
    if (s.op % 4 == 0) throw Left();
    has_left_ = true;
  }

  // ---- training

  // What the network takes; a copy, since what its backward has saved is not to be written.
  Tensor rows_of(const Tensor& t) const {
    bool fits = t.dim() == 2 && static_cast<bool>(t.size(1) == 3);
    return (fits ? t : in_.x).detach().to(Dtype::f32).clone();
  }

  void train_once(const Statement& s) {
    note("training step, {} {} {}", s.op, s.a, s.n);
    Net& net = *w_.net;
    Tensor rows = rows_of(at(s.a));
    if (s.op % 8 || !more_of_training_) net.optimizer->zero_grad(s.op % 3 != 0);
    Tensor loss = (net(rows.tanh()) - 0.5).pow(2).mean();
    loss.backward();
    if (more_of_training_ && s.n % 4 == 0) clip(net, s.n / 4);
    net.optimizer->step();
    push(loss.detach());
  }

  void clip(Net& net, uint32_t kind) {
    if (kind % 3 == 0) {
      push(optim::clip_grad_norm_({net.parameters.begin(), net.parameters.end()}, 0.1));
      return;
    }
    NoGradGuard off;
    float norm = net.parameters[0].grad().norm().item<float>();
    if (kind % 3 == 1) w_.effects.push_back(norm);
    if (norm > 0.05f) net.parameters[0].grad().mul_(0.05f / norm);
  }

  const bool more_of_training_;
  Results results_;
  bool has_left_ = false;
};

}  // namespace tenon::fuzz
