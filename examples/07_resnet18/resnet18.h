// ResNet-18 (He et al., "Deep residual learning", 2015) as a module.
#pragma once

#include <tenon/tenon.h>

namespace resnet {

namespace nn = tenon::nn;
using tenon::Tensor;

inline nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d(in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false});
}

// Two convolutions and a way around them.
struct BasicBlock : nn::Module {
  BasicBlock(int64_t in, int64_t out, int64_t stride)
      : conv1(convolution(in, out, 3, stride)),
        conv2(convolution(out, out, 3, 1)),
        bn1(out),
        bn2(out) {
    if (in == out) return;
    downsample.push_back(convolution(in, out, 1, stride));
    downsample.push_back(nn::BatchNorm2d(out));
  }
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  nn::Sequential downsample;
  TENON_MODULE(BasicBlock, conv1, bn1, conv2, bn2, downsample)
  Tensor forward(const Tensor& x) {
    Tensor main = bn2(conv2(bn1(conv1(x)).relu()));
    return (main + (downsample.size() ? downsample(x) : x)).relu();
  }
};

struct ResNet18 : nn::Module {
  nn::Conv2d conv1{convolution(3, 64, 7, 2)};
  nn::BatchNorm2d bn1{64};
  nn::MaxPool2d maxpool{3, {.stride = 2, .padding = 1}};
  nn::Sequential layer1{BasicBlock(64, 64, 1), BasicBlock(64, 64, 1)};
  nn::Sequential layer2{BasicBlock(64, 128, 2), BasicBlock(128, 128, 1)};
  nn::Sequential layer3{BasicBlock(128, 256, 2), BasicBlock(256, 256, 1)};
  nn::Sequential layer4{BasicBlock(256, 512, 2), BasicBlock(512, 512, 1)};
  nn::AdaptiveAvgPool2d avgpool{1};
  nn::Linear fc{512, 1000};
  TENON_MODULE(ResNet18, conv1, bn1, maxpool, layer1, layer2, layer3, layer4, avgpool, fc)
  Tensor forward(const Tensor& x) {
    Tensor y = maxpool(bn1(conv1(x)).relu());
    return fc(avgpool(layer4(layer3(layer2(layer1(y))))).flatten(1));
  }
};

}  // namespace resnet
