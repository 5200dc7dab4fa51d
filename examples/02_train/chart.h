// What a run looked like: a bar while it runs, a picture afterwards.
#pragma once

#include <string>
#include <vector>

struct EpochResult {
  double loss = 0;      ///< mean over the training batches
  double accuracy = 0;  ///< on the test images, 0 to 1
};

/// "epoch 3/30 [=====>    ] loss 0.123": one line that is written over on a terminal; elsewhere
/// nothing until an epoch has ended.
class Progress {
 public:
  Progress(int epochs, int64_t batches);
  void batch_done(int64_t batches, double mean_loss);
  void epoch_done(const EpochResult& result);

 private:
  int epochs_, epoch_ = 1;
  int64_t batches_;
  bool on_terminal_;
};

/// Loss and accuracy over the epochs as an SVG file. Returns false when it cannot be written.
bool write_chart(const std::string& file, const std::vector<EpochResult>& epochs);
