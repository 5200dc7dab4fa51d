// Normalisation of each channel of each image: instance_norm, taken apart into batch_norm.
#include "core/sym/sym_int.h"
#include "ops/op.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

Tensor repeated(const Tensor& t, SymInt times) { return t.defined() ? repeat(t, {times}) : t; }

void store_means(const Tensor& running, const Tensor& all, SymInt batch, SymInt channels) {
  if (running.defined()) copy_(running, mean(view(all, {batch, channels}), {0}));
}

// Every channel of every image becomes a channel of one image.
Tensor instance_norm_decomp(const Tensor& input, const Tensor& weight, const Tensor& bias,
                            const Tensor& running_mean, const Tensor& running_var,
                            bool use_input_stats, double momentum, double eps, bool cudnn) {
  require(use_input_stats || (running_mean.defined() && running_var.defined()),
          "instance_norm: running_mean and running_var are needed where use_input_stats is false");
  require(input.dim() >= 2,
          "instance_norm: input needs a batch and a channel dimension, found shape {}",
          input.sizes());
  SymInt batch = input.size(0), channels = input.size(1);
  Dims sizes = dims_of(input.sizes());
  sizes[0] = 1;
  sizes[1] = batch * channels;
  Tensor all_mean = repeated(running_mean, batch), all_var = repeated(running_var, batch);
  Tensor out =
      batch_norm(view(contiguous(input), list_of(sizes)), repeated(weight, batch),
                 repeated(bias, batch), all_mean, all_var, use_input_stats, momentum, eps, cudnn);
  if (use_input_stats) {
    store_means(running_mean, all_mean, batch, channels);
    store_means(running_var, all_var, batch, channels);
  }
  return view(out, input.sizes());
}

}  // namespace

static constexpr OpDef nn_instance_norm_rows[] = {
    {.schema = "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
               "Tensor? running_var, bool use_input_stats, float momentum, float eps, bool "
               "cudnn_enabled) -> Tensor",
     .decomp = fn<instance_norm_decomp>},
};

extern constinit const OpFamily op_family_nn_instance_norm{nn_instance_norm_rows};

}  // namespace tenon::ops
