// A double of NVIDIA's cuDNN beside that of the driver, under its name: libcudnn.so.9.
//
// Model: a descriptor is its attributes. A graph has one engine, whose plan has a workspace where the
// graph sums; it runs when its stream comes to it, operation by operation in f64, what lies between
// operations rounded to its type. Handles belong to a device, addresses have to be aligned as their
// tensors say, and a graph of other operations than the plugin's is not supported. A plan describes
// itself as a text, from which one like it is made, also in another process. Calls count and
// fail as the driver's do, with statuses of cuDNN.
#pragma once

#include <cstdint>

extern "C" {
struct FakeCudnnCounts {
  uint64_t plans, runs, all_operations;
  uint64_t restored;   // plans that were made from the text of another one
  int32_t operations;  // of the last plan that ran
  int32_t channels;    // of the weights of the last convolution that ran
  bool is_tf32;        // whether the engine of the last run may round operands
};
/// By dlsym on the library.
FakeCudnnCounts fake_cudnn_counts();
}
