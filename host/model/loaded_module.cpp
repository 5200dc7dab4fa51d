// tenon::load_model: archives as modules.
#include <tenon/load_model.h>

namespace tenon {

namespace {

// The very tensor of the model, not one beside it.
template <class Member>
Member member_over(const Tensor& weight) {
  Member member;
  static_cast<Tensor&>(member) = weight;
  return member;
}

}  // namespace

LoadedModule::LoadedModule(Model model) : model_(std::move(model)) {
  for (const std::string& name : model_.parameter_names())
    parameters_.emplace_back(name, member_over<nn::Parameter>(model_.parameter(name)));
  for (const std::string& name : model_.buffer_names())
    buffers_.emplace_back(name, member_over<nn::Buffer>(model_.buffer(name)));
}

void LoadedModule::visit_members(nn::MemberVisitor& visitor) {
  for (auto& [name, parameter] : parameters_) visitor.parameter(name, parameter);
  for (auto& [name, buffer] : buffers_) visitor.buffer(name, buffer);
}

// to() gives a module other tensors, which the graph of the archive does not know.
void LoadedModule::require_own_weights() const {
  for (const auto& [name, parameter] : parameters_)
    require(parameter.is_same(model_.parameter(name)),
            "{}: parameter {} was replaced, by to() or an assignment; a model of an archive keeps "
            "the dtype and device that it was exported with",
            model_.file(), name);
}

Tree LoadedModule::call(const std::vector<Tree>& positional, const Model::Arguments& named) const {
  require_own_weights();
  return model_.call(positional, named);
}

LoadedModule load_model(const std::string& path, LoadOptions options) {
  options.training = true;
  return LoadedModule(load(path, options));
}

}  // namespace tenon
