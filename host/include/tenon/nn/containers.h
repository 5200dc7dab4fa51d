// SPDX-License-Identifier: Apache-2.0
// Modules made of modules: Sequential and ModuleList.
#pragma once

#include <tenon/nn/module.h>

namespace tenon::nn {

/// A module of some class that maps a tensor to a tensor: a step of a Sequential. Copied like a module.
class AnyModule {
 public:
  template <std::derived_from<Module> M>
  explicit AnyModule(M module)
      : module_(std::make_unique<M>(std::move(module))),
        copy_([](const Module& m) -> std::unique_ptr<Module> {
          return std::make_unique<M>(static_cast<const M&>(m));
        }),
        call_([](Module& m, const Tensor& x) -> Tensor { return static_cast<M&>(m)(x); }) {}
  AnyModule(AnyModule&&) = default;
  AnyModule(const AnyModule& other)
      : module_(other.copy_(*other.module_)), copy_(other.copy_), call_(other.call_) {}
  AnyModule& operator=(AnyModule other) noexcept {
    module_ = std::move(other.module_);
    copy_ = other.copy_;
    call_ = other.call_;
    return *this;
  }
  Module& operator*() const { return *module_; }
  Module* operator->() const { return module_.get(); }
  Tensor operator()(const Tensor& x) const { return call_(*module_, x); }

 private:
  std::unique_ptr<Module> module_;
  std::unique_ptr<Module> (*copy_)(const Module&);
  Tensor (*call_)(Module&, const Tensor&);
};

/// Modules that are called one after the other, named "0", "1" and so on or as given.
///
///     nn::Sequential net{nn::Linear(64, 32), nn::ReLU(), nn::Linear(32, 10)};
///     Tensor y = net(x);
///     for (const nn::AnyModule& layer : net) x = layer(x);   // the same, step by step
///     net.at<nn::Linear>(0).weight.sizes();
class TENON_API Sequential : public Module {
 public:
  Sequential() = default;
  template <class... M>
  requires(sizeof...(M) > 0 && (std::derived_from<std::remove_cvref_t<M>, Module> && ...) &&
           !(sizeof...(M) == 1 && (std::same_as<std::remove_cvref_t<M>, Sequential> &&
                                   ...))) explicit Sequential(M&&... modules) {
    (push_back(std::forward<M>(modules)), ...);
  }
  template <class M>
  void push_back(M&& module) {
    push_back(std::to_string(modules_.size()), std::forward<M>(module));
  }
  template <class M>
  void push_back(std::string name, M&& module) {
    modules_.push_back(AnyModule(std::forward<M>(module)));
    names_.push_back(std::move(name));
  }
  size_t size() const { return modules_.size(); }
  /// Throws UserError where there is none.
  Module& operator[](size_t i);
  /// The same as what it is. Throws UserError where it is of another class.
  template <std::derived_from<Module> M>
  M& at(size_t i) {
    Module& module = (*this)[i];
    auto* found = dynamic_cast<M*>(&module);
    require(found, "Sequential: step {} is a {}, which is not the class that was asked for", i,
            module.type_name());
    return *found;
  }
  Tensor forward(Tensor x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  auto begin() { return modules_.begin(); }
  auto end() { return modules_.end(); }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }

  std::string_view type_name() const override { return "Sequential"; }
  void visit_members(MemberVisitor& visitor) override;

 private:
  std::vector<AnyModule> modules_;
  std::vector<std::string> names_;
};

/// Modules of one class, named "0", "1" and so on. It has no forward: loop over it. A member of
/// type `std::vector<M>` does the same.
template <std::derived_from<Module> M>
class ModuleList : public Module {
 public:
  ModuleList() = default;
  explicit ModuleList(std::vector<M> modules) : modules_(std::move(modules)) {}
  void push_back(M module) { modules_.push_back(std::move(module)); }
  size_t size() const { return modules_.size(); }
  M& operator[](size_t i) { return modules_.at(i); }
  const M& operator[](size_t i) const { return modules_.at(i); }
  auto begin() { return modules_.begin(); }
  auto end() { return modules_.end(); }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }

  std::string_view type_name() const override { return "ModuleList"; }
  void visit_members(MemberVisitor& visitor) override {
    for (size_t i = 0; i < modules_.size(); ++i) visitor.module(std::to_string(i), modules_[i]);
  }

 private:
  std::vector<M> modules_;
};

}  // namespace tenon::nn
