#!/usr/bin/env python3
"""Records what PyTorch's layers, losses, optimisers and schedules compute, for tests/unit/nn.

    make_nn_cases.py                 writes ../data/nn/*.safetensors; needs torch and safetensors
    make_nn_cases.py --check FILE    compares a state that the unit tests have written (into the
                                     temporary folder, tenon_nn_written.safetensors) with the
                                     recorded one
    make_nn_cases.py --digits FILE   cuts few_digits.safetensors out of digits.safetensors

Neither the product nor its tests run this.

layers.safetensors, for each case:
    NAME/state/PARAM   NAME/in/I   NAME/out/I   NAME/weight/I (of the outputs in the loss)
    NAME/grad_in/I     NAME/grad/PARAM          NAME/after/BUFFER (where forward changed it)
optim.safetensors:      start/I, grad/STEP/I, and CASE/STEP/I: the parameters after each step
lbfgs.safetensors:      start/I, x, y, and CASE/STEP/loss, CASE/STEP/I, CASE/evaluations
schedules.safetensors:  CASE: the learning rate before each step, f64; CASE/momentum likewise
net.safetensors:        a state dict as safetensors.torch writes it
few_digits.safetensors: 400 + 100 of the digits that the example trains with
"""
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from torch import nn

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "data" / "nn"


def leaves(x):
    if torch.is_tensor(x):
        return [x]
    return [t for e in x if e is not None for t in leaves(e)]


def record(out, name, module, inputs, call=None, train=True):
    torch.manual_seed(len(out))
    module.train(train)
    for p in module.parameters():
        if not p.is_floating_point():
            continue
        with torch.no_grad():
            p.copy_(torch.randn_like(p) * 0.4)
    for key, value in module.state_dict().items():
        out[f"{name}/state/{key}"] = value.clone()
    for i, x in enumerate(inputs):
        out[f"{name}/in/{i}"] = x.clone()
    given = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    results = leaves(call(module, *given) if call else module(*given))
    loss = 0
    for i, r in enumerate(results):
        out[f"{name}/out/{i}"] = r.detach().clone()
        weight = torch.randn_like(r)
        out[f"{name}/weight/{i}"] = weight
        loss = loss + (r * weight).sum()
    loss.backward()
    for i, x in enumerate(given):
        if x.grad is not None:
            out[f"{name}/grad_in/{i}"] = x.grad
    for key, p in module.named_parameters():
        if p.grad is not None:
            out[f"{name}/grad/{key}"] = p.grad
    for key, b in module.named_buffers():
        if not torch.equal(b, out[f"{name}/state/{key}"]):
            out[f"{name}/after/{key}"] = b.clone()


def rand(*sizes):
    return torch.randn(*sizes)


def layers():
    out = {}
    torch.manual_seed(0)
    add = lambda *a, **k: record(out, *a, **k)
    add("linear", nn.Linear(5, 3), [rand(2, 4, 5)])
    add("linear_no_bias", nn.Linear(5, 3, bias=False), [rand(4, 5)])
    add("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), [rand(2, 4, 9)])
    add("conv2d", nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0)), [rand(2, 2, 6, 5)])
    add("conv2d_groups", nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False), [rand(1, 4, 5, 5)])
    add("batch_norm1d", nn.BatchNorm1d(3), [rand(5, 3)])
    add("batch_norm1d_length", nn.BatchNorm1d(3, momentum=0.3), [rand(4, 3, 5)])
    add("batch_norm2d", nn.BatchNorm2d(3, eps=1e-3), [rand(2, 3, 4, 4)])
    add("batch_norm2d_eval", nn.BatchNorm2d(3), [rand(2, 3, 4, 4)], train=False)
    add("batch_norm2d_average", nn.BatchNorm2d(3, momentum=None), [rand(2, 3, 4, 4)])
    add("batch_norm2d_plain", nn.BatchNorm2d(3, affine=False, track_running_stats=False),
        [rand(2, 3, 4, 4)])
    add("layer_norm", nn.LayerNorm((3, 4)), [rand(2, 3, 4)])
    add("layer_norm_no_bias", nn.LayerNorm(4, bias=False), [rand(2, 3, 4)])
    add("group_norm", nn.GroupNorm(2, 4), [rand(2, 4, 3)])
    add("rms_norm", nn.RMSNorm(6), [rand(2, 6)])
    add("rms_norm_eps", nn.RMSNorm((2, 3), eps=1e-2), [rand(4, 2, 3)])
    ids = torch.tensor([[1, 0, 3], [3, 2, 1]])
    add("embedding", nn.Embedding(4, 3), [ids])
    add("embedding_padding", nn.Embedding(4, 3, padding_idx=-1, scale_grad_by_freq=True), [ids])
    add("embedding_bag_mean", nn.EmbeddingBag(4, 3), [ids])
    flat, offsets = torch.tensor([1, 0, 3, 2, 1]), torch.tensor([0, 2])
    add("embedding_bag_max", nn.EmbeddingBag(4, 3, mode="max"), [flat, offsets])
    add("embedding_bag_sum", nn.EmbeddingBag(4, 3, mode="sum", padding_idx=1),
        [flat, offsets, rand(5)], lambda m, i, o, w: m(i, o, per_sample_weights=w))
    add("dropout_eval", nn.Dropout(0.5), [rand(3)], train=False)

    x = rand(3, 6)
    for name, module in [
        ("relu", nn.ReLU()), ("relu6", nn.ReLU6()), ("selu", nn.SELU()), ("silu", nn.SiLU()),
        ("mish", nn.Mish()), ("tanh", nn.Tanh()), ("sigmoid", nn.Sigmoid()),
        ("log_sigmoid", nn.LogSigmoid()), ("softsign", nn.Softsign()),
        ("hardsigmoid", nn.Hardsigmoid()), ("hardswish", nn.Hardswish()), ("elu", nn.ELU(0.7)),
        ("celu", nn.CELU(1.5)), ("leaky_relu", nn.LeakyReLU()), ("gelu", nn.GELU()),
        ("gelu_tanh", nn.GELU("tanh")), ("glu", nn.GLU()), ("softmax", nn.Softmax(0)),
        ("log_softmax", nn.LogSoftmax(1)), ("hardtanh", nn.Hardtanh(-0.5, 0.7)),
        ("softplus", nn.Softplus(2, 1)), ("prelu", nn.PReLU(6)), ("identity", nn.Identity()),
    ]:
        add(name, module, [x])
    image = rand(1, 2, 7, 6)
    add("flatten", nn.Flatten(), [image])
    add("max_pool2d", nn.MaxPool2d(2), [image])
    add("max_pool2d_options", nn.MaxPool2d((3, 2), stride=2, padding=1, ceil_mode=True), [image])
    add("avg_pool2d", nn.AvgPool2d(3, 2, 1, count_include_pad=False), [image])
    add("avg_pool2d_divisor", nn.AvgPool2d(2, divisor_override=3), [image])
    add("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((3, 2)), [image])

    for kind in (nn.GRU, nn.LSTM):
        name = kind.__name__.lower()
        add(name, kind(3, 4), [rand(5, 2, 3)])
        add(f"{name}_deep", kind(3, 2, 2, bidirectional=True, batch_first=True), [rand(2, 4, 3)])
        add(f"{name}_no_bias", kind(3, 4, bias=False), [rand(4, 3)])
    add("gru_state", nn.GRU(3, 4), [rand(5, 2, 3), rand(1, 2, 4)])
    add("lstm_state", nn.LSTM(3, 4), [rand(5, 2, 3), rand(1, 2, 4), rand(1, 2, 4)],
        lambda m, x, h, c: m(x, (h, c)))
    add("attention", nn.MultiheadAttention(4, 2), [rand(3, 2, 4)], lambda m, x: m(x, x, x))
    add("attention_cross", nn.MultiheadAttention(4, 2, bias=False, batch_first=True),
        [rand(2, 3, 4), rand(2, 5, 4), rand(2, 5, 4)],
        lambda m, *qkv: m(*qkv, average_attn_weights=False))
    add("attention_fast", nn.MultiheadAttention(4, 2, batch_first=True), [rand(2, 3, 4)],
        lambda m, x: m(x, x, x, need_weights=False))
    padding = torch.tensor([[False, False, True], [False, True, True]])
    causal = torch.triu(torch.ones(3, 3, dtype=torch.bool), 1)
    add("attention_masks", nn.MultiheadAttention(4, 2, batch_first=True),
        [rand(2, 3, 4), padding, causal],
        lambda m, x, p, c: m(x, x, x, key_padding_mask=p, attn_mask=c))

    a, b, p = rand(4, 3), rand(4, 3), torch.rand(4, 3)
    classes, factors = torch.tensor([0, 2, 1, 1]), torch.rand(3)
    add("cross_entropy", nn.CrossEntropyLoss(), [a, classes])
    add("cross_entropy_options",
        nn.CrossEntropyLoss(weight=factors, ignore_index=2, label_smoothing=0.1), [a, classes])
    add("cross_entropy_none", nn.CrossEntropyLoss(reduction="none"), [a, p])
    add("nll", nn.NLLLoss(weight=factors), [a, classes])
    add("nll_sum", nn.NLLLoss(ignore_index=1, reduction="sum"), [a, classes])
    add("mse", nn.MSELoss(), [a, b])
    add("l1", nn.L1Loss(reduction="sum"), [a, b])
    add("smooth_l1", nn.SmoothL1Loss(beta=0.5), [a, b])
    add("huber", nn.HuberLoss(delta=0.7), [a, b])
    add("bce_logits", nn.BCEWithLogitsLoss(), [a, p])
    add("bce_logits_options", nn.BCEWithLogitsLoss(weight=torch.rand(4, 3), pos_weight=factors),
        [a, p])
    add("bce", nn.BCELoss(), [torch.rand(4, 3), p])
    add("kl_div", nn.KLDivLoss(reduction="batchmean"), [torch.log_softmax(a, 1), p])
    add("kl_div_log", nn.KLDivLoss(log_target=True), [a, b])
    more_layers(add)
    return out


def more_layers(add):
    row, image, volume = rand(2, 4, 7), rand(2, 4, 6, 5), rand(1, 4, 4, 5, 6)
    add("conv3d", nn.Conv3d(4, 6, (2, 3, 2), stride=(1, 2, 2), padding=1, groups=2), [volume])
    add("conv_transpose1d", nn.ConvTranspose1d(
        4, 6, 3, stride=3, padding=1, output_padding=2, groups=2, dilation=2), [row])
    add("conv_transpose1d_unbatched", nn.ConvTranspose1d(4, 2, 2, bias=False), [row[0]])
    add("conv_transpose2d", nn.ConvTranspose2d(
        4, 3, (3, 2), stride=2, padding=(1, 0), output_padding=(1, 0)), [image])
    add("conv_transpose3d", nn.ConvTranspose3d(4, 2, 2, stride=2), [volume])
    add("batch_norm3d", nn.BatchNorm3d(4), [volume])
    add("instance_norm1d", nn.InstanceNorm1d(4), [row])
    add("instance_norm1d_unbatched", nn.InstanceNorm1d(4, affine=True), [row[0]])
    add("instance_norm2d_tracked", nn.InstanceNorm2d(
        4, eps=1e-3, momentum=0.3, affine=True, track_running_stats=True), [image])
    add("instance_norm2d_eval", nn.InstanceNorm2d(4, track_running_stats=True), [image],
        train=False)
    add("instance_norm3d", nn.InstanceNorm3d(4, affine=True), [volume])

    add("max_pool1d", nn.MaxPool1d(3, 2, padding=1, dilation=2, ceil_mode=True), [row])
    add("avg_pool1d", nn.AvgPool1d(3, padding=1, count_include_pad=False), [row])
    add("max_pool3d", nn.MaxPool3d((2, 3, 2), stride=1, padding=1), [volume])
    add("avg_pool3d", nn.AvgPool3d(2, divisor_override=3), [volume])
    add("adaptive_avg_pool1d", nn.AdaptiveAvgPool1d(3), [row])
    add("adaptive_avg_pool3d", nn.AdaptiveAvgPool3d((2, 3, 1)), [volume])
    add("adaptive_max_pool1d", nn.AdaptiveMaxPool1d(3), [row])
    add("adaptive_max_pool2d", nn.AdaptiveMaxPool2d((3, 2)), [image])
    add("adaptive_max_pool3d", nn.AdaptiveMaxPool3d(2), [volume])
    add("upsample_nearest", nn.Upsample(scale_factor=2), [row])
    add("upsample_size", nn.Upsample(size=(9, 7)), [image])
    add("upsample_linear", nn.Upsample(size=11, mode="linear"), [row])
    add("upsample_bilinear", nn.Upsample(scale_factor=(1.5, 2), mode="bilinear"), [image])
    add("upsample_bicubic", nn.Upsample(size=8, mode="bicubic", align_corners=True), [image])
    add("upsample_trilinear", nn.Upsample(scale_factor=2, mode="trilinear"), [volume])
    add("pixel_shuffle", nn.PixelShuffle(2), [image])
    add("pixel_unshuffle", nn.PixelUnshuffle(2), [image[..., :4]])
    add("channel_shuffle", nn.ChannelShuffle(2), [image])
    add("unflatten", nn.Unflatten(1, (2, -1)), [image])
    add("reflection_pad1d", nn.ReflectionPad1d(2), [row])
    add("reflection_pad2d", nn.ReflectionPad2d((1, 0, 2, 3)), [image])
    add("reflection_pad3d", nn.ReflectionPad3d(1), [volume])
    add("replication_pad2d", nn.ReplicationPad2d(1), [image])
    add("circular_pad1d", nn.CircularPad1d((2, 1)), [row])
    add("zero_pad2d", nn.ZeroPad2d((1, 2, 0, 1)), [image])
    add("feature_dropout_eval", nn.Dropout2d(), [image], train=False)
    for name, module in [
        ("tanhshrink", nn.Tanhshrink()), ("softmin", nn.Softmin(1)),
        ("hardshrink", nn.Hardshrink(0.3)), ("softshrink", nn.Softshrink()),
    ]:
        add(name, module, [row])

    add("rnn", nn.RNN(3, 4), [rand(5, 2, 3)])
    add("rnn_relu", nn.RNN(3, 2, 2, "relu", bidirectional=True, batch_first=True),
        [rand(2, 4, 3)])
    add("rnn_state", nn.RNN(3, 4, bias=False), [rand(5, 3), rand(1, 4)])
    add("rnn_cell", nn.RNNCell(3, 4), [rand(2, 3), rand(2, 4)])
    add("rnn_cell_relu", nn.RNNCell(3, 4, False, "relu"), [rand(3)])
    add("gru_cell", nn.GRUCell(3, 4), [rand(2, 3), rand(2, 4)])
    add("lstm_cell", nn.LSTMCell(3, 4), [rand(2, 3), rand(2, 4), rand(2, 4)],
        lambda m, x, h, c: m(x, (h, c)))
    add("lstm_cell_alone", nn.LSTMCell(3, 4, bias=False), [rand(3)])

    options = dict(dim_feedforward=6, dropout=0.0)
    add("encoder_layer", nn.TransformerEncoderLayer(4, 2, **options), [rand(3, 2, 4)])
    add("encoder_layer_first", nn.TransformerEncoderLayer(
        4, 2, **options, activation="gelu", batch_first=True, norm_first=True, bias=False),
        [rand(2, 3, 4)])
    causal = nn.Transformer.generate_square_subsequent_mask
    add("encoder", nn.TransformerEncoder(
        nn.TransformerEncoderLayer(4, 2, **options, batch_first=True), 2, nn.LayerNorm(4)),
        [rand(2, 3, 4)], lambda m, x: m(x, mask=causal(3), is_causal=True))
    add("decoder_layer", nn.TransformerDecoderLayer(4, 2, **options),
        [rand(3, 2, 4), rand(5, 2, 4)])
    add("decoder", nn.TransformerDecoder(
        nn.TransformerDecoderLayer(4, 2, **options, batch_first=True, norm_first=True), 2),
        [rand(2, 3, 4), rand(2, 5, 4)],
        lambda m, x, y: m(x, y, tgt_mask=causal(3), tgt_is_causal=True))

    a, b, c = rand(4, 3), rand(4, 3), rand(4, 3)
    signs = torch.tensor([1.0, -1.0, -1.0, 1.0])
    # A later input of ones and minus ones gets a gradient as well: it is one of the inputs.
    add("margin_ranking", nn.MarginRankingLoss(0.3), [a[:, 0], b[:, 0], signs])
    add("hinge_embedding", nn.HingeEmbeddingLoss(0.7, reduction="sum"), [a[:, 0], signs.long()])
    add("cosine_embedding", nn.CosineEmbeddingLoss(0.1), [a, b, signs.long()])
    add("triplet_margin", nn.TripletMarginLoss(0.5, p=2.0, swap=True), [a, b, c])
    add("poisson_nll", nn.PoissonNLLLoss(), [a, b.abs().round().long()])
    add("poisson_nll_options", nn.PoissonNLLLoss(log_input=False, full=True), [a.abs(), b.exp()])
    add("soft_margin", nn.SoftMarginLoss(), [a[:, 0], signs.long()], lambda m, x, y: m(x, y.float()))
    add("ctc", nn.CTCLoss(blank=1), [
        rand(6, 2, 4), torch.tensor([[0, 2, 3], [3, 0, 0]]), torch.tensor([6, 5]),
        torch.tensor([3, 1])], lambda m, x, *t: m(x.log_softmax(2), *t))


def optimisers():
    torch.manual_seed(1)
    start = [rand(3, 4), rand(5)]
    # The second parameter has no gradient in one of the steps.
    grads = [[rand(3, 4), None if step == 2 else rand(5)] for step in range(5)]
    out = {f"start/{i}": p for i, p in enumerate(start)}
    for step, gs in enumerate(grads):
        out.update({f"grad/{step}/{i}": g for i, g in enumerate(gs) if g is not None})
    o = torch.optim
    cases = {
        "sgd": lambda p: o.SGD(p, lr=0.1),
        "sgd_momentum": lambda p: o.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        "sgd_dampening": lambda p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
        "sgd_nesterov": lambda p: o.SGD(p, lr=0.1, momentum=0.8, nesterov=True),
        "sgd_maximize": lambda p: o.SGD(p, lr=0.1, weight_decay=0.1, maximize=True),
        "adam": lambda p: o.Adam(p, lr=0.01),
        "adam_decay": lambda p: o.Adam(p, lr=0.01, betas=(0.8, 0.99), weight_decay=0.1),
        "adam_amsgrad": lambda p: o.Adam(p, lr=0.01, amsgrad=True, maximize=True),
        "adamw": lambda p: o.AdamW(p, lr=0.01),
        "adamw_options": lambda p: o.AdamW(p, lr=0.02, eps=1e-4, weight_decay=0.2, amsgrad=True),
        "rmsprop": lambda p: o.RMSprop(p, lr=0.01),
        "rmsprop_centered": lambda p: o.RMSprop(p, lr=0.01, alpha=0.9, centered=True),
        "rmsprop_momentum": lambda p: o.RMSprop(
            p, lr=0.01, momentum=0.7, weight_decay=0.1, centered=True, maximize=True),
        "adagrad": lambda p: o.Adagrad(p, lr=0.1),
        "adagrad_options": lambda p: o.Adagrad(
            p, lr=0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-6,
            maximize=True),
        "adadelta": lambda p: o.Adadelta(p),
        "adadelta_options": lambda p: o.Adadelta(p, lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.1),
        "adamax": lambda p: o.Adamax(p, lr=0.01),
        "adamax_options": lambda p: o.Adamax(p, lr=0.02, betas=(0.7, 0.9), weight_decay=0.1),
        "nadam": lambda p: o.NAdam(p, lr=0.01),
        "nadam_options": lambda p: o.NAdam(
            p, lr=0.02, betas=(0.8, 0.95), weight_decay=0.1, momentum_decay=0.1,
            decoupled_weight_decay=True, maximize=True),
        "radam": lambda p: o.RAdam(p, lr=0.01),
        "radam_options": lambda p: o.RAdam(  # the average is long enough from the third step on
            p, lr=0.02, betas=(0.8, 0.9), weight_decay=0.1, decoupled_weight_decay=True),
        "groups": lambda p: o.SGD([{"params": [p[0]]}, {"params": [p[1]], "lr": 0.5}], lr=0.1),
    }
    for name, make in cases.items():
        params = [p.clone().requires_grad_() for p in start]
        opt = make(params)
        for step, gs in enumerate(grads):
            for p, g in zip(params, gs):
                p.grad = None if g is None else g.clone()
            opt.step()
            for group in opt.param_groups:  # the rate changes on the way
                group["lr"] *= 0.9
            out.update({f"{name}/{step}/{i}": p.detach().clone() for i, p in enumerate(params)})
    for norm in (1.0, 2.0, float("inf")):
        params = [p.clone().requires_grad_() for p in start]
        for p, g in zip(params, grads[0]):
            p.grad = g.clone()
        out[f"clip_{norm}/norm"] = torch.nn.utils.clip_grad_norm_(params, 0.8, norm)
        out.update({f"clip_{norm}/{i}": p.grad for i, p in enumerate(params)})
    return out


def lbfgs():
    torch.manual_seed(3)
    # In double precision: what rounding changes grows from step to step.
    start = [(rand(3, 4) * 0.5).double(), (rand(4) * 0.5).double()]
    x, y = rand(6, 3).double(), rand(6, 4).double()
    out = {"x": x, "y": y} | {f"start/{i}": p for i, p in enumerate(start)}
    cases = {
        "plain": dict(lr=0.5, max_iter=4),
        "short_history": dict(lr=0.25, max_iter=6, history_size=2),
        "wolfe": dict(line_search_fn="strong_wolfe", max_iter=5),
        "wolfe_few_calls": dict(line_search_fn="strong_wolfe", max_iter=8, max_eval=5, lr=3.0),
        "wolfe_maximize": dict(line_search_fn="strong_wolfe", max_iter=3, maximize=True),
        "converges": dict(line_search_fn="strong_wolfe", tolerance_grad=1e-2),
    }
    for name, options in cases.items():
        params = [p.clone().requires_grad_() for p in start]
        opt = torch.optim.LBFGS(params, **options)
        calls = 0

        def closure():
            nonlocal calls
            calls += 1
            opt.zero_grad()
            loss = (torch.tanh(x @ params[0] + params[1]) - y).square().mean()
            if options.get("maximize"):
                loss = -loss
            loss.backward()
            return loss

        for step in range(4):
            loss = opt.step(closure)
            out[f"{name}/{step}/loss"] = loss.detach().clone()
            out.update({f"{name}/{step}/{i}": p.detach().clone() for i, p in enumerate(params)})
        out[f"{name}/evaluations"] = torch.tensor(calls)
    return out


def schedules():
    out = {}
    s = torch.optim.lr_scheduler

    def curve(name, make, steps=20, momentum=False, metrics=None):
        opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5, momentum=0.9)
        schedule = make(opt)
        rates, momenta = [], []
        for i in range(steps):
            rates.append(float(opt.param_groups[0]["lr"]))
            momenta.append(opt.param_groups[0]["momentum"])
            opt.step()
            if i + 1 < steps:
                schedule.step(metrics[i]) if metrics else schedule.step()
        out[name] = torch.tensor(rates, dtype=torch.float64)
        if momentum:
            out[f"{name}/momentum"] = torch.tensor(momenta, dtype=torch.float64)

    curve("step", lambda o: s.StepLR(o, 3, 0.5))
    curve("multi_step", lambda o: s.MultiStepLR(o, [2, 7, 7, 11], 0.3))
    curve("exponential", lambda o: s.ExponentialLR(o, 0.9))
    curve("cosine", lambda o: s.CosineAnnealingLR(o, 8, 0.01))
    curve("linear", lambda o: s.LinearLR(o))
    curve("linear_options", lambda o: s.LinearLR(o, 0.2, 0.7, 9))
    curve("constant", lambda o: s.ConstantLR(o, 0.2, 4))
    curve("polynomial", lambda o: s.PolynomialLR(o, 12, 2.0))
    curve("warm_restarts", lambda o: s.CosineAnnealingWarmRestarts(o, 5, eta_min=0.01))
    curve("warm_restarts_longer", lambda o: s.CosineAnnealingWarmRestarts(o, 3, 2))
    curve("sequential", lambda o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 5), s.CosineAnnealingLR(o, 8, 0.01), s.ExponentialLR(o, 0.8)],
        [5, 13]))
    curve("one_cycle", lambda o: s.OneCycleLR(o, 1.0, total_steps=20), momentum=True)
    curve("one_cycle_three", lambda o: s.OneCycleLR(
        o, 0.7, total_steps=20, pct_start=0.4, anneal_strategy="linear", div_factor=10,
        final_div_factor=100, three_phase=True), momentum=True)
    metrics = [5, 4, 4, 4, 4.1, 3, 3, 2.9999, 3, 3, 3, 3, 3, 1, 2, 2, 2, 2, 2]
    out["metrics"] = torch.tensor(metrics, dtype=torch.float64)
    curve("plateau", lambda o: s.ReduceLROnPlateau(o, factor=0.5, patience=2, min_lr=0.1),
          metrics=metrics)
    curve("plateau_max", lambda o: s.ReduceLROnPlateau(
        o, mode="max", threshold_mode="abs", threshold=0.5, patience=1, cooldown=2),
        metrics=metrics)
    return out


def network():
    torch.manual_seed(2)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))


def contiguous(tensors):
    return {k: v.detach().contiguous().clone() for k, v in tensors.items()}


def check(path):
    found, expected = load_file(path), load_file(FOLDER / "net.safetensors")
    assert found.keys() == expected.keys(), (sorted(found), sorted(expected))
    for name, t in expected.items():
        assert found[name].dtype == t.dtype and torch.equal(found[name], t), name
    network().load_state_dict(found)
    print(f"{path}: {len(found)} tensors, all equal")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        check(sys.argv[2])
    elif sys.argv[1:2] == ["--digits"]:
        few = {"train": 400, "test": 100}
        save_file({k: v[:few[k.split(".")[0]]].clone() for k, v in load_file(sys.argv[2]).items()},
                  FOLDER / "few_digits.safetensors")
    else:
        FOLDER.mkdir(parents=True, exist_ok=True)
        save_file(contiguous(layers()), FOLDER / "layers.safetensors")
        save_file(contiguous(optimisers()), FOLDER / "optim.safetensors")
        save_file(contiguous(lbfgs()), FOLDER / "lbfgs.safetensors")
        save_file(contiguous(schedules()), FOLDER / "schedules.safetensors")
        save_file(contiguous(network().state_dict()), FOLDER / "net.safetensors")
