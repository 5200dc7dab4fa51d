// Normalisation of each channel of each image: instance_norm, taken apart into batch_norm.
#include "ops/nn/instance_norm.h"

#include "core/sym/sym_int.h"
#include "ops/op.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

Tensor repeated(const Tensor& t, SymInt times) { return t.defined() ? repeat(t, {times}) : t; }

// Every channel of every image becomes a channel of one image.
Tensor one_image(const Tensor& input) {
  require(input.dim() >= 2,
          "instance_norm: input needs a batch and a channel dimension, found shape {}",
          input.sizes());
  Dims sizes = dims_of(input.sizes());
  sizes[0] = 1;
  sizes[1] = input.size(0) * input.size(1);
  return view(contiguous(input), list_of(sizes));
}

Tensor instance_norm_decomp(const Tensor& input, const Tensor& weight, const Tensor& bias,
                            const Tensor& running_mean, const Tensor& running_var,
                            bool use_input_stats, double momentum, double eps, bool cudnn) {
  bool has_running = running_mean.defined() && running_var.defined();
  require(use_input_stats || has_running,
          "instance_norm: running_mean and running_var are needed where use_input_stats is false");
  if (use_input_stats && has_running) {
    InstanceNorm all =
        instance_norm_functional(input, weight, bias, running_mean, running_var, momentum, eps);
    copy_(running_mean, all.running_mean);
    copy_(running_var, all.running_var);
    return all.result;
  }
  Tensor image = one_image(input);
  SymInt batch = input.size(0);
  Tensor out = batch_norm(image, repeated(weight, batch), repeated(bias, batch),
                          repeated(running_mean, batch), repeated(running_var, batch),
                          use_input_stats, momentum, eps, cudnn);
  return view(out, input.sizes());
}

}  // namespace

InstanceNorm instance_norm_functional(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                      const Tensor& running_mean, const Tensor& running_var,
                                      double momentum, double eps) {
  Tensor image = one_image(input);
  SymInt batch = input.size(0), channels = input.size(1);
  auto [out, mean_of_all, rstd, all_mean, all_var] = _native_batch_norm_legit_functional(
      image, repeated(weight, batch), repeated(bias, batch), repeated(running_mean, batch),
      repeated(running_var, batch), true, momentum, eps);
  auto over_images = [&](const Tensor& t) { return mean(view(t, {batch, channels}), {0}); };
  return {view(out, input.sizes()), over_images(all_mean), over_images(all_var)};
}

static constexpr OpDef nn_instance_norm_rows[] = {
    {.schema = "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
               "Tensor? running_var, bool use_input_stats, float momentum, float eps, bool "
               "cudnn_enabled) -> Tensor",
     .tags = OpTags::updates_statistics,
     .decomp = fn<instance_norm_decomp>},
};

extern constinit const OpFamily op_family_nn_instance_norm{nn_instance_norm_rows};

}  // namespace tenon::ops
