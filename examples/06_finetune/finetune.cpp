// Training goes on with a model that PyTorch has exported; the new weights go back to PyTorch.
#include <tenon/tenon.h>

#include <cstdio>
#include <string>

using tenon::Tensor;

namespace {

struct Digits {
  Tensor images, labels;
};

Digits load(const std::string& file, const std::string& part) {
  tenon::StateDict all = tenon::load_tensors(file);
  tenon::require(all.contains(part + ".images") && all.contains(part + ".labels"),
                 "{}: expected tensors {}.images and {}.labels; is this the file of digits?", file,
                 part, part);
  Tensor pixels = all[part + ".images"].to(tenon::Dtype::f32).div(16);
  return {pixels.reshape({pixels.size(0), -1}), all[part + ".labels"].to(tenon::Dtype::i64)};
}

double accuracy(tenon::LoadedModule& net, const Digits& test) {
  tenon::NoGradGuard no_grad;
  Tensor hits = Tensor(net(test.images)).argmax(1) == test.labels;
  return hits.to(tenon::Dtype::f64).mean().item<double>();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: example_finetune MODEL.pt2 DIGITS.safetensors [WEIGHTS]\n");
    return 2;
  }
  std::string weights = argc == 4 ? argv[3] : "tuned.safetensors";
  tenon::manual_seed(1);
  // Parameters have the names that they have in PyTorch; forward and backward are compiled.
  tenon::LoadedModule net = tenon::load_model(argv[1]);
  tenon::optim::AdamW opt(net.parameters(), {.lr = 2e-3});
  Digits train = load(argv[2], "train"), test = load(argv[2], "test");
  double before = accuracy(net, test);

  tenon::data::DataLoader loader(tenon::data::TensorDataset(train.images, train.labels),
                                 {.batch_size = 50, .shuffle = true, .drop_last = true});
  double first = 0, last = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    double sum = 0;
    for (auto& [images, labels] : loader) {
      opt.zero_grad();
      Tensor loss = tenon::cross_entropy(net(images), labels);
      loss.backward();
      opt.step();
      sum += loss.item<double>();
    }
    last = sum / static_cast<double>(loader.size());
    if (epoch == 0) first = last;
    std::printf("epoch %d: loss %.4f\n", epoch + 1, last);
  }
  double after = accuracy(net, test);
  net.save_state(weights);
  std::printf("accuracy %.1f %% before, %.1f %% after; weights in %s\n", 100 * before, 100 * after,
              weights.c_str());
  return last < first ? 0 : 1;
} catch (const tenon::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
