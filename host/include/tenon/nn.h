// SPDX-License-Identifier: Apache-2.0
// Neural networks: modules, layers, losses and initialisers. <tenon/optim.h> trains them.
#pragma once

#include <tenon/nn/containers.h>
#include <tenon/nn/convolution.h>
#include <tenon/nn/init.h>
#include <tenon/nn/layers.h>
#include <tenon/nn/loss.h>
#include <tenon/nn/module.h>
#include <tenon/nn/sequence.h>
#include <tenon/nn/stateless.h>
#include <tenon/nn/transformer.h>
