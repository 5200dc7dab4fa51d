// Timing of one backend on one model, for the verbs that measure.
#pragma once

#include "cli/model_options.h"

#include <functional>
#include <string>
#include <vector>

namespace tenon::cli {

/// Microseconds of calls made for `seconds`, at least three, after one that is not counted.
std::vector<double> time_calls(const std::function<void()>& call, double seconds);
/// The same of a model.
std::vector<double> time_calls(ModelRunner& runner, const std::vector<Tensor>& leaves,
                               double seconds);

/// The value below which a part `q` of `sorted` lies.
double quantile(const std::vector<double>& sorted, double q);

/// Two digits behind the point below 100, none above.
std::string rounded(double value);

/// "3s", "500ms", "2m" in seconds; throws UserError for other texts.
double parse_seconds(const std::string& text);

}  // namespace tenon::cli
