// Products, convolutions and attentions by their libraries.
#include "library_items.h"

#include <optional>

namespace inductor_cuda {

namespace {

// Trials of the libraries' algorithms, where they are asked for.
std::optional<Tuning> tuning_of(tn_ctx* ctx, const Parts& parts) {
  if (!parts.library_use.tunes) return std::nullopt;
  return Tuning(ctx, parts.device, parts.library_use.tuning_ms);
}

bool is_for_dnn(const loopir::Item& item) {
  return std::holds_alternative<loopir::Convolution>(item) ||
         std::holds_alternative<loopir::ConvolutionGradient>(item) ||
         std::holds_alternative<loopir::Attention>(item) ||
         std::holds_alternative<loopir::AttentionGradient>(item);
}

}  // namespace

// One product leaves nothing to do beside it, and trials run each algorithm anyway.
void begin_products(Parts& parts) {
  constexpr size_t worth_a_thread = 2;
  const LibraryUse& use = parts.library_use;
  std::vector<Problem> problems;
  if (!use.tunes && parts.program.expressions.symbols.empty())
    for (const loopir::Item& item : parts.schedule.items)
      if (auto* product = std::get_if<loopir::Product>(&item))
        problems.push_back(problem_of(parts.program, *product, {}));
  std::erase_if(problems, [](const Problem& p) { return p.is_empty(); });
  const Library* library = nullptr;
  if (problems.size() >= worth_a_thread) library = Library::of(parts.device, nullptr);
  if (library)
    parts.products_ahead = std::make_shared<const ProductsAhead>(parts.device, *library,
                                                                 use.products.library, problems);
}

void make_library_items(tn_ctx* ctx, Parts& parts, const SavedImages* saved) {
  const std::optional<Tuning> tuning = tuning_of(ctx, parts);
  const Tuning* trials = tuning ? &*tuning : nullptr;
  // All plans are under way before the first one is waited for.
  const DnnRequest request{parts.library_use.dnn, ctx};
  if (!trials)
    for (const loopir::Item& item : parts.schedule.items)
      if (is_for_dnn(item)) has_dnn_plan(parts.program, item, parts.device, request);
  for (size_t i = 0; i < parts.schedule.items.size(); ++i) {
    const loopir::Item& item = parts.schedule.items[i];
    if (auto* product = std::get_if<loopir::Product>(&item))
      parts.products.emplace(
          i, std::make_unique<ProductItem>(CodeStore{ctx, saved}, parts.program, *product,
                                           parts.device, parts.library_use.products, trials,
                                           parts.products_ahead, parts.statistics.code));
    if (is_for_dnn(item))
      parts.dnn.emplace(
          i, std::make_unique<DnnItem>(parts.program, item, parts.device, request, trials));
  }
}

}  // namespace inductor_cuda
