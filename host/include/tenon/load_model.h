// SPDX-License-Identifier: Apache-2.0
// Models in .pt2 archives as modules: trained like those that are written in C++.
//
//     tenon::LoadedModule net = tenon::load_model("resnet.pt2", {.backend = "aot_eager"});
//     tenon::optim::SGD opt(net.parameters(), {.lr = 0.01});
//     Tensor loss = tenon::cross_entropy(net(images), labels);
//     loss.backward();
//     opt.step();
//     net.save_state("tuned.safetensors");   // PyTorch's names: load_state_dict() takes it
#pragma once

#include <tenon/model.h>
#include <tenon/nn/module.h>

namespace tenon {

/// A model of an archive. Parameters and buffers have the names of the exported module's
/// state_dict; a tied one has each of its names. What the module did in training or evaluation mode
/// was fixed by the export: train() and eval() change nothing, and to() is refused at the next
/// call.
///
/// Copies are modules over the same weights and compiled code. Threads: as Model, and as Module
/// where weights are changed.
class TENON_API LoadedModule : public nn::Module {
 public:
  explicit LoadedModule(Model model);

  /// As Model: results of calls while gradients are on can be differentiated.
  template <class... A>
  Tree operator()(const A&... arguments) const {
    return call(std::vector<Tree>{Tree(arguments)...});
  }
  Tree call(const std::vector<Tree>& positional, const Model::Arguments& named = {}) const;

  const Model& model() const { return model_; }
  std::string_view type_name() const override { return "LoadedModule"; }
  void visit_members(nn::MemberVisitor& visitor) override;

 private:
  void require_own_weights() const;

  Model model_;
  std::vector<std::pair<std::string, nn::Parameter>> parameters_;
  std::vector<std::pair<std::string, nn::Buffer>> buffers_;
};

/// Reads a .pt2 archive as load() does, for training. Throws what load() throws.
TENON_API LoadedModule load_model(const std::string& path, LoadOptions options = {});

}  // namespace tenon
