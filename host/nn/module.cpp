// Modules: everything that walks over members.
#include "core/dispatch.h"
#include "core/error.h"
#include "formats/tensors.h"
#include "nn/mode.h"

#include <tenon/autograd.h>
#include <tenon/nn/module.h>
#include <tenon/nn/utils.h>

#include <set>

namespace tenon {

StateDict load_tensors(const std::string& path) { return formats::read_tensors(path).tensors; }

void save_tensors(const std::string& path, const StateDict& tensors) {
  formats::NamedTensors content;
  for (const auto& [name, t] : tensors) {
    require(t.defined(), "save_tensors: tensor {} is undefined; leave it out", name);
    content.tensors[name] = t.detach();
  }
  formats::write_tensors(path, content);
}

namespace nn {
namespace {

using Head = tenon::detail::TensorHead*;

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

// Shows every parameter and buffer below a module, with its full name.
template <class OnParameter, class OnBuffer>
class TensorWalk final : public MemberVisitor {
 public:
  TensorWalk(OnParameter on_parameter, OnBuffer on_buffer)
      : on_parameter_(on_parameter), on_buffer_(on_buffer) {}
  void parameter(const std::string& name, Parameter& p) override {
    on_parameter_(joined(prefix_, name), p);
  }
  void buffer(const std::string& name, Buffer& b) override { on_buffer_(joined(prefix_, name), b); }
  void module(const std::string& name, Module& m) override {
    std::string before = std::exchange(prefix_, joined(prefix_, name));
    m.visit_members(*this);
    prefix_ = std::move(before);
  }

 private:
  OnParameter on_parameter_;
  OnBuffer on_buffer_;
  std::string prefix_;
};

constexpr auto nothing = [](const std::string&, const Tensor&) {};

// Walking hands out handles and changes no member, so it is fit for const modules.
template <class OnParameter, class OnBuffer>
void walk_tensors(const Module& m, OnParameter on_parameter, OnBuffer on_buffer) {
  TensorWalk<OnParameter, OnBuffer> walk(on_parameter, on_buffer);
  const_cast<Module&>(m).visit_members(walk);
}

class Children final : public MemberVisitor {
 public:
  void parameter(const std::string&, Parameter&) override {}
  void buffer(const std::string&, Buffer&) override {}
  void module(const std::string& name, Module& m) override { found.push_back({name, &m}); }
  std::vector<NamedModule> found;
};

void add_modules(const std::string& name, Module& m, std::vector<NamedModule>& out) {
  out.push_back({name, &m});
  for (auto& [child, below] : m.named_children()) add_modules(joined(name, child), *below, out);
}

// Keeps those that were not there before: shared parameters count once.
struct Unique {
  std::set<Head> seen;
  std::vector<NamedTensor> tensors;
  void operator()(const std::string& name, const Tensor& t) {
    if (seen.insert(t.head()).second) tensors.push_back({name, t});
  }
};

std::vector<Tensor> without_names(std::vector<NamedTensor> named) {
  std::vector<Tensor> out;
  for (auto& [name, t] : named) out.push_back(std::move(t));
  return out;
}

// Replaces handles by converted ones; those that were shared stay so.
template <class Convert>
void convert_tensors(Module& m, Convert convert) {
  std::map<Head, Tensor> done;
  std::vector<Tensor> kept;  // so that no address is used twice
  auto converted = [&](const Tensor& t) -> Tensor {
    auto [at, is_new] = done.try_emplace(t.head());
    if (is_new) {
      kept.push_back(t);
      at->second = convert(t.detach());
    }
    return at->second;
  };
  walk_tensors(
      m,
      [&](const std::string&, Parameter& p) {
        bool wanted = p.requires_grad();
        static_cast<Tensor&>(p) = converted(p).requires_grad_(wanted);
      },
      [&](const std::string&, Buffer& b) { static_cast<Tensor&>(b) = converted(b); });
}

std::string listed(std::string_view what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string out = message("\n  {}:", what);
  for (const std::string& n : names) out += " " + n;
  return out;
}

void append_text(Module& m, std::string& out) {
  out += m.type_name();
  std::string_view between = "(";
  for (auto& [name, child] : m.named_children()) {
    out += std::string(between) + name + ": ";
    append_text(*child, out);
    between = ", ";
  }
  if (between != "(") out += ")";
}

}  // namespace

Parameter::Parameter(const Tensor& value, bool requires_grad)
    : Tensor(value.defined() ? value.detach().requires_grad_(requires_grad) : value) {}

std::vector<NamedTensor> Module::named_parameters() const {
  Unique found;
  walk_tensors(*this, std::ref(found), nothing);
  return std::move(found.tensors);
}

std::vector<NamedTensor> Module::named_buffers() const {
  Unique found;
  walk_tensors(*this, nothing, std::ref(found));
  return std::move(found.tensors);
}

std::vector<Tensor> Module::parameters() const { return without_names(named_parameters()); }
std::vector<Tensor> Module::buffers() const { return without_names(named_buffers()); }

std::vector<NamedModule> Module::named_children() {
  Children children;
  visit_members(children);
  return std::move(children.found);
}

std::vector<NamedModule> Module::named_modules() {
  std::vector<NamedModule> out;
  add_modules("", *this, out);
  return out;
}

void Module::apply(const std::function<void(Module&)>& f) {
  for (auto& [name, child] : named_children()) child->apply(f);
  f(*this);
}

// A copy shares what its members point to; converting that would change the original.
void detail::own_tensors(Module& copy, const Module& original) {
  std::set<const Module*> of_original;
  for (auto& [name, m] : const_cast<Module&>(original).named_modules()) of_original.insert(m);
  for (auto& [name, m] : copy.named_modules())
    require(!of_original.contains(m),
            "clone: {} of this {} is held by a shared pointer, which the copy shares; make a "
            "second module, and have it load_state_dict(first.state_dict())",
            name, copy.type_name());
  convert_tensors(copy, [](const Tensor& t) { return t.clone(); });
}

void (*mode_read_slot)(const std::shared_ptr<const bool>&) = nullptr;
void (*module_called_slot)(std::span<const std::byte>) = nullptr;
constinit thread_local int32_t n_static_modules = 0;
void detail::note_called(const Module& module, size_t bytes) {
  if (thread_modes.tracer && module_called_slot)
    module_called_slot({reinterpret_cast<const std::byte*>(&module), bytes});
}
void detail::enter_static_numbers() { ++n_static_modules; }
void detail::leave_static_numbers() { --n_static_modules; }

ModeFlag::operator bool() const {
  if (thread_modes.tracer && mode_read_slot) mode_read_slot(on_);
  return *on_;
}

Module& Module::train(bool on) {
  apply([on](Module& m) { m.training_ = on; });
  return *this;
}

std::vector<Tensor> Module::state_tensors() const {
  std::vector<Tensor> all = parameters(), more = buffers();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Module& Module::to(Dtype dtype) {
  require(is_floating(dtype), "{}.to: expected a floating dtype, found {}", type_name(), dtype);
  convert_tensors(*this, [dtype](const Tensor& t) {
    return is_floating(t.dtype()) ? t.to(dtype, /*non_blocking=*/false, /*copy=*/false) : t;
  });
  return *this;
}

Module& Module::to(Device device) {
  convert_tensors(*this, [device](const Tensor& t) { return t.to(device, t.dtype()); });
  return *this;
}

Module& Module::requires_grad_(bool value) {
  for (const Tensor& p : parameters()) p.requires_grad_(value);
  return *this;
}

void Module::zero_grad() const {
  for (const Tensor& p : parameters()) p.set_grad({});
}

StateDict Module::state_dict() const {
  StateDict out;
  walk_tensors(
      *this, [&](const std::string& name, const Parameter& p) { out[name] = p; },
      [&](const std::string& name, const Buffer& b) {
        if (b.is_persistent()) out[name] = b;
      });
  return out;
}

StateDifference Module::load_state_dict(const StateDict& state, bool strict) {
  StateDict mine = state_dict();
  StateDifference difference;
  std::string shapes;
  for (const auto& [name, t] : mine) {
    auto at = state.find(name);
    if (at == state.end())
      difference.missing.push_back(name);
    else if (!at->second.defined())
      shapes += message("\n  {}: expected {}, found an undefined tensor", name, t);
    else if (!(at->second.sizes() == t.sizes()))
      shapes += message("\n  {}: expected {}, found {}", name, t, at->second);
  }
  for (const auto& [name, t] : state)
    if (!mine.contains(name)) difference.unexpected.push_back(name);
  std::string names =
      listed("missing", difference.missing) + listed("unexpected", difference.unexpected);
  if (!strict) names.clear();
  std::string_view next_step = names.empty() ? "" : "\nstrict = false takes what fits by name";
  require(names.empty() && shapes.empty(),
          "load_state_dict: the state is not that of this {}:{}{}{}", type_name(), names, shapes,
          next_step);
  NoGradGuard no_grad;
  for (const auto& [name, t] : mine)
    if (auto at = state.find(name); at != state.end()) t.copy_(at->second);
  return difference;
}

void Module::visit_members(MemberVisitor&) {}

std::string to_text(const Module& module) {
  std::string out;
  append_text(const_cast<Module&>(module), out);
  return out;
}

std::string detail::take_name(std::string_view& names) {
  size_t comma = std::min(names.find(','), names.size());
  std::string_view name = names.substr(0, comma);
  names.remove_prefix(std::min(comma + 1, names.size()));
  size_t first = name.find_first_not_of(" \t\n"), last = name.find_last_not_of(" \t\n");
  ensure(first != name.npos, "TENON_MODULE gives a name for each member");
  return std::string(name.substr(first, last - first + 1));
}

}  // namespace nn
}  // namespace tenon
