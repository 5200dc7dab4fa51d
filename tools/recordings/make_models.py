#!/usr/bin/env python3
"""Makes the recorded models: real architectures with seeded weights as torch.export archives.

For every model NAME it writes
  NAME.pt2                  torch.export.save() archive
  NAME.io.safetensors       in.N inputs, out.N eager outputs; training models also grad.PARAM
                            (gradients of out.0), buf.BUFFER (buffers after one call) and
                            sgd.losses (plain SGD on the same batch, learning rate in the metadata)
  NAME.alt.io.safetensors   a second recording with other sizes, for models with dynamic shapes

Everything runs on the CPU with one thread and is repeatable for one version of the packages.
Needs torch 2.13, safetensors, timm, torchvision and transformers (only what the chosen models use).
Neither the product nor its tests run this.

  make_models.py --list
  make_models.py --out recordings/models             # the small set, which tests/recordings has
  make_models.py --out bench --size bench            # real sizes, for measuring
  make_models.py --only vit_micro,hop_cond --out some --check
  make_models.py --coverage ops.md                   # which operators the models use
"""

import argparse
import collections
import json
import os
import re
import sys
import warnings
import zlib
from dataclasses import dataclass
from typing import Any, Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim
from torch.utils import _pytree as pytree

import safetensors_file


@dataclass
class Built:
    module: nn.Module
    args: tuple
    kwargs: dict | None = None
    dynamic: Any = None  # dynamic_shapes of torch.export.export
    alt: Callable[[], tuple] | None = None  # other sizes: () -> args
    train: bool = False
    sgd_lr: float = 0.1
    joint: bool = False  # export forward and backward as one graph
    core: bool = False  # run_decompositions() before saving: functional core ATen graph
    perturb: bool = True
    strict: bool = False


@dataclass
class Model:
    name: str
    build: Callable[[str], Built]
    sizes: tuple
    doc: str
    group: str


REGISTRY: dict[str, Model] = {}


def model(doc, sizes=("dev",), group="net", name=None):
    def deco(fn):
        n = name or fn.__name__
        REGISTRY[n] = Model(n, fn, tuple(sizes), doc, group)
        return fn

    return deco


BOTH = ("dev", "bench")


# ------------------------------------------------------------------ helpers
def seed_for(name: str) -> int:
    return zlib.crc32(name.encode()) & 0x7FFFFFFF


def perturb_(module: nn.Module) -> None:
    """Constant weights (ones in norms, zero biases) hide mistakes: give them values."""
    for n, p in list(module.named_parameters()) + list(module.named_buffers()):
        if not p.is_floating_point() or p.numel() == 0:
            continue
        with torch.no_grad():
            if n.endswith("running_var"):
                p.uniform_(0.6, 1.4)
            elif n.endswith("running_mean"):
                p.normal_(0, 0.1)
            elif isinstance(p, nn.Parameter) and bool((p == p.flatten()[0]).all()):
                p.add_(torch.randn_like(p) * 0.1)


class LossWrap(nn.Module):
    """net(*inputs) -> logits, loss against the last argument."""

    def __init__(self, net, loss):
        super().__init__()
        self.net = net
        self.loss = loss

    def forward(self, *args):
        return self.loss(self.net(*args[:-1]), args[-1])


class ImageLoss(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, target):
        return F.cross_entropy(self.net(x), target)


def digits(n, flat):
    try:
        from sklearn.datasets import load_digits

        d = load_digits()
        x = torch.tensor(d.data, dtype=torch.float32) / 16.0
        y = torch.tensor(d.target, dtype=torch.long)
    except ImportError:
        x, y = torch.rand(1797, 64), torch.randint(0, 10, (1797,))
    if not flat:
        x = x.view(-1, 1, 8, 8)
    return (x, y) if n is None else (x[:n].clone(), y[:n].clone())


def fit_digits(net, flat, steps=150, lr=3e-3):
    x, y = digits(None, flat)
    opt = torch.optim.Adam(net.parameters(), lr=lr)
    net.train()
    for i in range(steps):
        j = torch.randint(0, 1500, (128,))
        loss = F.cross_entropy(net(x[j]), y[j])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    return net


# ------------------------------------------------------------------ nets
class MLP(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.fc1 = nn.Linear(64, width)
        self.fc2 = nn.Linear(width, width)
        self.fc3 = nn.Linear(width, 10)

    def forward(self, x):
        return self.fc3(F.gelu(self.fc2(F.relu(self.fc1(x)))))


@model("digits MLP, trained, dynamic batch")
def mlp_digits(size):
    net = fit_digits(MLP(), True)
    b = Dim("batch", min=1, max=512)
    return Built(
        net,
        (digits(16, True)[0],),
        dynamic=({0: b},),
        alt=lambda: (digits(37, True)[0],),
        perturb=False,
    )


@model("digits MLP, returns the loss", group="train")
def mlp_digits_train(size):
    return Built(ImageLoss(MLP()), digits(32, True), train=True)


@model(
    "the same with the backward pass inside the exported graph (loss and gradient outputs)",
    group="format",
)
def mlp_digits_joint(size):
    return Built(ImageLoss(MLP()), digits(32, True), train=True, joint=True)


class CNN(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.conv1 = nn.Conv2d(1, c, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, 2 * c, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * c)
        self.fc = nn.Linear(2 * c * 4, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc(torch.flatten(x, 1))


@model("digits conv net with batch norm, trained, dynamic batch")
def cnn_digits(size):
    net = fit_digits(CNN(), False)
    b = Dim("batch", min=1, max=512)
    return Built(
        net,
        (digits(16, False)[0],),
        dynamic=({0: b},),
        alt=lambda: (digits(5, False)[0],),
        perturb=False,
    )


@model("digits conv net, loss, batch-norm statistics change", group="train")
def cnn_digits_train(size):
    return Built(ImageLoss(CNN()), digits(32, False), train=True)


def _resnet(size):
    if size == "bench":
        import torchvision

        return torchvision.models.resnet18(weights=None)
    from timm.models.resnet import BasicBlock, ResNet

    return ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10, channels=(16, 24, 32, 48))


@model("residual network (bench: torchvision resnet18, 224)", BOTH)
def resnet18(size):
    s = 224 if size == "bench" else 64
    return Built(_resnet(size), (torch.randn(1, 3, s, s),))


@model("residual network, loss", BOTH, group="train")
def resnet18_train(size):
    s, b = (224, 4) if size == "bench" else (64, 4)
    return Built(
        ImageLoss(_resnet(size)),
        (torch.randn(b, 3, s, s), torch.arange(b) % 10),
        train=True,
        sgd_lr=0.01,
    )


@model("torchvision MobileNetV3 small (dev: width 0.35)", BOTH)
def mobilenet_v3_small(size):
    import torchvision

    kw = {} if size == "bench" else dict(width_mult=0.35, num_classes=10)
    s = 224 if size == "bench" else 64
    return Built(
        torchvision.models.mobilenet_v3_small(weights=None, **kw), (torch.randn(1, 3, s, s),)
    )


@model("timm vit_tiny_patch16_224", ("bench",))
def vit_tiny(size):
    import timm

    return Built(
        timm.create_model("vit_tiny_patch16_224", pretrained=False), (torch.randn(1, 3, 224, 224),)
    )


def _vit_micro():
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(
        img_size=32, patch_size=8, embed_dim=64, depth=3, num_heads=4, num_classes=10
    )


@model("vision transformer, 3 blocks of 64, dynamic batch")
def vit_micro(size):
    b = Dim("batch", min=1, max=64)
    return Built(
        _vit_micro(),
        (torch.randn(2, 3, 32, 32),),
        dynamic=({0: b},),
        alt=lambda: (torch.randn(7, 3, 32, 32),),
    )


@model("vision transformer, loss", group="train")
def vit_micro_train(size):
    return Built(
        ImageLoss(_vit_micro()),
        (torch.randn(8, 3, 32, 32), torch.arange(8) % 10),
        train=True,
        sgd_lr=0.05,
    )


class BertOut(nn.Module):
    def __init__(self, size):
        super().__init__()
        from transformers import BertConfig, BertModel

        kw = (
            dict(
                vocab_size=8192,
                hidden_size=256,
                num_hidden_layers=4,
                num_attention_heads=4,
                intermediate_size=1024,
            )
            if size == "bench"
            else dict(
                vocab_size=512,
                hidden_size=96,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=192,
            )
        )
        cfg = BertConfig(
            max_position_embeddings=512 if size == "bench" else 64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            attn_implementation="sdpa",
            **kw,
        )
        self.bert = BertModel(cfg)

    def forward(self, input_ids, attention_mask):
        o = self.bert(input_ids=input_ids, attention_mask=attention_mask, return_dict=True)
        return o.last_hidden_state, o.pooler_output


@model("transformers BertModel, dynamic sequence (bench: 4 layers of 256, 128 tokens)", BOTH)
def bert_mini(size):
    v, s, top = (8192, 128, 512) if size == "bench" else (512, 16, 64)

    def make(n):
        mask = torch.ones(2, n, dtype=torch.long)
        mask[1, n - n // 4 :] = 0
        return torch.randint(0, v, (2, n)), mask

    d = Dim("seq", min=4, max=top)
    return Built(BertOut(size), make(s), dynamic=({1: d}, {1: d}), alt=lambda: make(s + 13))


class GPT2Out(nn.Module):
    def __init__(self, size, loss=False):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        kw = (
            dict(vocab_size=8192, n_embd=256, n_layer=4, n_head=4, n_positions=512)
            if size == "bench"
            else dict(vocab_size=512, n_embd=96, n_layer=2, n_head=4, n_positions=64)
        )
        cfg = GPT2Config(
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            use_cache=False,
            attn_implementation="sdpa",
            bos_token_id=0,
            eos_token_id=0,
            **kw,
        )
        self.lm = GPT2LMHeadModel(cfg)
        self.loss = loss

    def forward(self, input_ids):
        logits = self.lm(input_ids=input_ids, use_cache=False, return_dict=True).logits
        if not self.loss:
            return logits
        v = logits.shape[-1]
        return F.cross_entropy(logits[:, :-1].reshape(-1, v), input_ids[:, 1:].reshape(-1))


@model(
    "transformers GPT2LMHeadModel, tied embedding, dynamic sequence (bench: 4 layers of 256, 256 tokens)",
    BOTH,
)
def gpt2_cut(size):
    v, s, top = (8192, 256, 512) if size == "bench" else (512, 16, 64)
    d = Dim("seq", min=4, max=top)
    return Built(
        GPT2Out(size),
        (torch.randint(0, v, (1, s)),),
        dynamic=({1: d},),
        alt=lambda: (torch.randint(0, v, (1, s + 11)),),
    )


@model("GPT-2, next-token loss", BOTH, group="train")
def gpt2_cut_train(size):
    v, s, b = (8192, 128, 4) if size == "bench" else (512, 16, 2)
    return Built(GPT2Out(size, True), (torch.randint(0, v, (b, s)),), train=True)


class DoubleConv(nn.Sequential):
    def __init__(self, i, o, dilation=1):
        super().__init__(
            nn.Conv2d(i, o, 3, padding=dilation, dilation=dilation, bias=False),
            nn.BatchNorm2d(o),
            nn.ReLU(inplace=True),
            nn.Conv2d(o, o, 3, padding=1, bias=False),
            nn.BatchNorm2d(o),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self, c=8, classes=3):
        super().__init__()
        self.d1, self.d2, self.d3 = (
            DoubleConv(3, c),
            DoubleConv(c, 2 * c),
            DoubleConv(2 * c, 4 * c, dilation=2),
        )
        self.up2 = nn.ConvTranspose2d(4 * c, 2 * c, 2, stride=2)
        self.u2 = DoubleConv(4 * c, 2 * c)
        self.u1 = DoubleConv(3 * c, c)
        self.head = nn.Conv2d(c, classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        m = self.d3(F.avg_pool2d(b, 2))
        y = self.u2(torch.cat([self.up2(m), b], 1))
        y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.u1(torch.cat([y, a], 1)))


@model("U-Net: transposed convolution, bilinear upsampling, skip cat (bench: base 32, 128)", BOTH)
def unet_small(size):
    c, s = (32, 128) if size == "bench" else (8, 32)
    return Built(UNet(c), (torch.randn(1, 3, s, s),))


@model("U-Net, per-pixel loss", group="train")
def unet_small_train(size):
    return Built(
        ImageLoss(UNet(6)),
        (torch.randn(2, 3, 32, 32), torch.randint(0, 3, (2, 32, 32))),
        train=True,
        sgd_lr=0.05,
    )


class ResT(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(4, i), nn.Conv2d(i, o, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, padding=1)
        self.t = nn.Linear(t, o)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
        return self.c2(F.silu(self.n2(h))) + self.skip(x)


class Diffusion(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.c = c
        self.time = nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 4 * c))
        self.inp = nn.Conv2d(3, c, 3, padding=1)
        self.r1, self.down = ResT(c, c, 4 * c), nn.Conv2d(c, c, 3, stride=2, padding=1)
        self.r2, self.r3 = ResT(c, 2 * c, 4 * c), ResT(2 * c, 2 * c, 4 * c)
        self.norm, self.qkv, self.proj = (
            nn.GroupNorm(4, 2 * c),
            nn.Conv2d(2 * c, 6 * c, 1),
            nn.Conv2d(2 * c, 2 * c, 1),
        )
        self.r4 = ResT(3 * c, c, 4 * c)
        self.out = nn.Sequential(nn.GroupNorm(4, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def attend(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, 3, 4, c // 4, h * w).unbind(1)
        s = torch.einsum("bhcn,bhcm->bhnm", q, k) * (c // 4) ** -0.5
        o = torch.einsum("bhnm,bhcm->bhcn", s.softmax(-1), v).reshape(b, c, h, w)
        return x + self.proj(o)

    def forward(self, x, t):
        f = torch.exp(
            torch.arange(self.c // 2, dtype=torch.float32, device=x.device)
            * (-9.2103 / (self.c // 2))
        )
        a = t.float()[:, None] * f[None]
        e = self.time(torch.cat([a.sin(), a.cos()], 1))
        a = self.r1(self.inp(x), e)
        h = self.attend(self.r3(self.r2(self.down(a), e), e))
        h = F.interpolate(h, scale_factor=2.0, mode="nearest")
        return self.out(self.r4(torch.cat([h, a], 1), e))


@model(
    "diffusion U-Net: group norm, SiLU, time embedding, einsum attention, nearest upsampling", BOTH
)
def diffusion_small(size):
    c, s = (64, 64) if size == "bench" else (16, 16)
    return Built(Diffusion(c), (torch.randn(2, 3, s, s), torch.tensor([3, 741])))


@model("diffusion U-Net, noise-prediction loss", group="train")
def diffusion_small_train(size):
    return Built(
        LossWrap(Diffusion(8), F.mse_loss),
        (torch.randn(2, 3, 16, 16), torch.tensor([3, 741]), torch.randn(2, 3, 16, 16)),
        train=True,
    )


class DLRM(nn.Module):
    def __init__(self, rows, dim, fields=4):
        super().__init__()
        self.bot = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, dim), nn.ReLU())
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(rows, dim, mode="mean" if i == 0 else "sum") for i in range(fields - 1)
        )
        self.emb = nn.Embedding(rows, dim, padding_idx=0)
        n = fields + 1
        self.register_buffer("tri", torch.tril_indices(n, n, -1), persistent=False)
        self.top = nn.Sequential(nn.Linear(dim + n * (n - 1) // 2, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense, idx, offsets, single):
        d = self.bot(dense)
        e = [bag(idx[i], offsets[i]) for i, bag in enumerate(self.bags)] + [self.emb(single)]
        z = torch.stack([d] + e, 1)
        inter = torch.bmm(z, z.transpose(1, 2))[:, self.tri[0], self.tri[1]]
        return torch.sigmoid(self.top(torch.cat([d, inter], 1))).squeeze(1)


def _dlrm_args(b, rows, bag):
    return (
        torch.randn(b, 13),
        torch.randint(0, rows, (3, b * bag)),
        (torch.arange(b) * bag).expand(3, b).contiguous(),
        torch.randint(0, rows, (b,)),
    )


@model("DLRM: embedding bags, pairwise interactions, index", BOTH)
def dlrm_small(size):
    rows, dim, b, bag = (20000, 64, 256, 8) if size == "bench" else (300, 16, 8, 3)
    return Built(DLRM(rows, dim), _dlrm_args(b, rows, bag))


@model("DLRM, binary cross entropy", group="train")
def dlrm_small_train(size):
    return Built(
        LossWrap(DLRM(100, 16), F.binary_cross_entropy),
        (*_dlrm_args(8, 100, 3), (torch.arange(8) % 2).float()),
        train=True,
    )


class LSTMNet(nn.Module):
    def __init__(self, vocab=128, dim=32, hidden=48, kind="lstm"):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = (nn.LSTM if kind == "lstm" else nn.GRU)(
            dim, hidden, num_layers=2, batch_first=True, bidirectional=kind == "gru"
        )
        self.fc = nn.Linear(hidden * (2 if kind == "gru" else 1), 10)

    def forward(self, ids):
        y, _ = self.rnn(self.emb(ids))
        return F.log_softmax(self.fc(y[:, -1]), -1)


@model("embedding, 2-layer LSTM, log-softmax", BOTH)
def lstm_small(size):
    a = dict(vocab=8192, dim=128, hidden=256) if size == "bench" else {}
    return Built(LSTMNet(**a), (torch.randint(0, 128, (2, 32 if size == "bench" else 6)),))


@model("LSTM, negative log likelihood", group="train")
def lstm_small_train(size):
    return Built(
        LossWrap(LSTMNet(), F.nll_loss),
        (torch.randint(0, 128, (4, 6)), torch.arange(4)),
        train=True,
    )


@model("embedding, 2-layer two-way GRU")
def gru_small(size):
    return Built(LSTMNet(kind="gru"), (torch.randint(0, 128, (2, 6)),))


@model("timm MLP-Mixer (bench: mixer_s16, 224)", BOTH)
def mixer_small(size):
    from timm.models.mlp_mixer import MlpMixer

    if size == "bench":
        return Built(
            MlpMixer(img_size=224, patch_size=16, num_blocks=8, embed_dim=512),
            (torch.randn(1, 3, 224, 224),),
        )
    return Built(
        MlpMixer(img_size=32, patch_size=8, num_blocks=3, embed_dim=64, num_classes=10),
        (torch.randn(1, 3, 32, 32),),
    )


class TCN(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.inp = nn.Conv1d(1, c, 7, stride=2)
        self.blocks = nn.ModuleList(nn.Conv1d(c, 2 * c, 3, dilation=2**i) for i in range(3))
        self.dw = nn.Conv1d(c, c, 5, groups=c)
        self.norm = nn.InstanceNorm1d(c, affine=True)
        self.act = nn.PReLU(c)
        self.fc = nn.Linear(2 * c, 5)

    def forward(self, x):
        x = F.elu(self.inp(x))
        for i, b in enumerate(self.blocks):
            x = x + F.glu(b(F.pad(x, (2 ** (i + 1), 0))), dim=1)
        x = self.act(self.norm(self.dw(F.pad(x, (2, 2), mode="reflect"))))
        m = x.mean(-1)
        s = x.var(-1, correction=0).add(1e-5).sqrt()
        return F.softmax(self.fc(torch.cat([m, s], 1)), -1)


@model("dilated causal 1-D convolutions on a waveform, GLU, instance norm, statistics pooling")
def tcn_small(size):
    return Built(TCN(), (torch.randn(2, 1, 256),))


@model("1-D convolutions, Huber loss", group="train")
def tcn_small_train(size):
    return Built(
        LossWrap(TCN(12), F.smooth_l1_loss), (torch.randn(2, 1, 128), torch.rand(2, 5)), train=True
    )


class EncDec(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.src, self.tgt = nn.Embedding(64, d), nn.Embedding(64, d)
        self.pos = nn.Parameter(torch.randn(32, d) * 0.1)
        self.tr = nn.Transformer(d, 4, 1, 1, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.out = nn.Linear(d, 64)

    def forward(self, src, tgt):
        n = tgt.shape[1]
        mask = torch.full((n, n), float("-inf"), device=tgt.device).triu(1)
        h = self.tr(
            self.src(src) + self.pos[: src.shape[1]],
            self.tgt(tgt) + self.pos[:n],
            tgt_mask=mask,
            tgt_is_causal=True,
        )
        return self.out(h)


@model("torch.nn.Transformer encoder-decoder with a causal mask, dynamic target length")
def encdec_small(size):
    d = Dim("tgt", min=3, max=32)
    return Built(
        EncDec(),
        (torch.randint(0, 64, (2, 9)), torch.randint(0, 64, (2, 7))),
        dynamic=({}, {1: d}),
        alt=lambda: (torch.randint(0, 64, (2, 9)), torch.randint(0, 64, (2, 12))),
    )


# ------------------------------------------------------------------ format samples
class CondNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return (
            torch.cond(x.sum() > 0, lambda t: F.relu(self.a(t)), lambda t: self.b(t) * 2, (x,)) + 1
        )


@model("torch.cond: both branches reachable", group="format")
def hop_cond(size):
    return Built(CondNet(), (torch.rand(3, 8),), alt=lambda: (-torch.rand(3, 8),))


class WhileNet(nn.Module):
    def forward(self, x):
        from torch._higher_order_ops.while_loop import while_loop

        i, y = while_loop(
            lambda i, y: i < 5, lambda i, y: (i + 1, y * 1.5 + i), (torch.tensor(0), x)
        )
        return y, i


@model("while_loop with a carried tensor", group="format")
def hop_while(size):
    return Built(WhileNet(), (torch.randn(4),))


class MapNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(4, 4)

    def forward(self, xs):
        from torch._higher_order_ops.map import map as hmap

        return hmap(lambda x: torch.tanh(self.w(x)), xs)


@model("map over the first dimension", group="format")
def hop_map(size):
    return Built(MapNet(), (torch.randn(5, 3, 4),))


class ScanNet(nn.Module):
    def forward(self, xs):
        from torch._higher_order_ops.scan import scan

        return scan(lambda c, x: (c * 0.9 + x, c + x), torch.zeros(4), xs, dim=0)


@model("scan: running state over the first dimension", group="format")
def hop_scan(size):
    return Built(ScanNet(), (torch.randn(6, 4),))


class Vmaps(nn.Module):
    """What vmap leaves in an export: the tree of a generic associative_scan, along another dimension
    and of two tensors; levels within levels; a weight from outside."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4))

    def forward(self, x, y):
        from torch._higher_order_ops.associative_scan import associative_scan

        def step(a, b):
            return a[0] * b[0], b[0] * a[1] + b[1]

        kept, added = associative_scan(step, (x, y), 1, combine_mode="generic")
        row = torch.vmap(lambda v: (v * self.w.sum()).sin())
        outer = torch.vmap(torch.vmap(lambda a, b: a * b - self.w.mean(), in_dims=(None, 0)), in_dims=(0, None))
        return kept, added, row(x), outer(x[0], y[0])


@model("regions of vmap", group="format")
def vmaps(size):
    return Built(Vmaps(), (torch.rand(3, 7), torch.randn(3, 7)))


class Lists(nn.Module):
    """Ops over lists of tensors, as optimisers call them: each kind of overload, in place too."""

    def forward(self, a, b, c, d):
        x, y = [a, b], [c, d]
        positive = torch._foreach_add(torch._foreach_abs(x), 0.5)
        out = []
        out += torch._foreach_add(x, y, alpha=2)
        out += torch._foreach_add(x, [1.0, 2.5])
        out += torch._foreach_add(x, d[0], alpha=3)
        out += torch._foreach_sub(x, 2)
        out += torch._foreach_div(y, positive)
        out += torch._foreach_mul(x, [2.0, 3.5])
        out += torch._foreach_addcmul(x, y, y, 0.5)
        out += torch._foreach_addcdiv(x, y, positive, [0.5, 0.25])
        out += torch._foreach_lerp(x, y, 0.3)
        out += torch._foreach_lerp(x, y, y)
        for name in ("sqrt", "rsqrt", "reciprocal", "neg", "exp", "log", "sign"):
            out += getattr(torch, "_foreach_" + name)(positive)
        for name in ("maximum", "minimum", "clamp_min", "clamp_max"):
            for other in (y, 0.25, [0.1, -0.2]):
                out += getattr(torch, "_foreach_" + name)(x, other)
        out += torch._foreach_norm(x)
        out += torch._foreach_norm(x, 1)
        out += torch._foreach_max(x)
        for exponent in (2.5, y, [2.0, 0.5]):
            out += torch._foreach_pow(positive, exponent)
        out += torch._foreach_pow(2.0, x)
        z = [a.clone(), b.clone()]
        torch._foreach_add_(z, y, alpha=0.5)
        torch._foreach_mul_(z, 1.1)
        torch._foreach_addcmul_(z, y, y, 0.1)
        torch._foreach_addcdiv_(z, y, positive, 0.3)
        torch._foreach_lerp_(z, y, 0.25)
        torch._foreach_sub_(z, [0.1, 0.2])
        torch._foreach_maximum_(z, y)
        copies, zeros = [torch.ones_like(a), torch.ones_like(b)], [a.clone(), b.clone()]
        torch._foreach_copy_(copies, z)
        torch._foreach_abs_(z)
        torch._foreach_sqrt_(z)
        torch._foreach_zero_(zeros)
        return tuple(out + z + copies + zeros)


@model("ops over lists of tensors", group="format")
def lists(size):
    return Built(Lists(), (torch.randn(3, 4), torch.randn(5), torch.randn(3, 4), torch.randn(5)))


class DTypes(nn.Module):
    def __init__(self):
        super().__init__()
        for n, t in dict(
            f64=torch.float64, f32=torch.float32, f16=torch.float16, bf16=torch.bfloat16
        ).items():
            self.register_parameter("p_" + n, nn.Parameter(torch.randn(3, 4).to(t)))
        for n, t in dict(
            i64=torch.int64, i32=torch.int32, i16=torch.int16, i8=torch.int8, u8=torch.uint8
        ).items():
            self.register_buffer("b_" + n, torch.randint(0, 100, (3, 4)).to(t))
        self.register_buffer("b_bool", torch.rand(3, 4) > 0.5)
        self.register_buffer("b_c64", torch.randn(3, 4, dtype=torch.complex64))
        self.register_buffer("b_f8", torch.randn(3, 4).to(torch.float8_e4m3fn))
        self.register_buffer("b_empty", torch.zeros(0, 4))
        self.register_buffer("b_scalar", torch.tensor(2.5))
        self.register_buffer("b_tr", torch.randn(4, 3).t())
        self.register_buffer("b_cl", torch.randn(1, 2, 3, 4).to(memory_format=torch.channels_last))

    def forward(self, x):
        y = x.to(torch.float64) * self.p_f64 + self.p_f32 + self.p_f16 + self.p_bf16
        n = self.b_i64 + self.b_i32 + self.b_i16 + self.b_i8 + self.b_u8
        y = torch.where(self.b_bool, y, n)
        z = (self.b_c64 * torch.conj(self.b_c64)).real
        e = torch.cat([self.b_empty, x], 0)
        c = self.b_cl.to(torch.bfloat16, memory_format=torch.contiguous_format)
        return (
            y + z,
            n,
            e * self.b_scalar + self.b_tr,
            self.b_f8.to(torch.float32),
            c,
            y.half(),
            y > 0,
        )


@model(
    "every common dtype as weight and output; empty, scalar, transposed and channels-last weights",
    group="format",
)
def fmt_dtypes(size):
    return Built(DTypes(), (torch.randn(3, 4),), perturb=False)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        base = torch.randn(6, 8)
        self.a = nn.Parameter(base)
        self.b = self.a  # the same parameter twice
        self.register_buffer("v1", torch.arange(24.0))
        self.register_buffer(
            "v2", self.v1.view(6, 4)[2:5, 1:3]
        )  # a view with an offset and strides
        self.register_buffer("v3", self.v1.view(4, 6).t())
        self.register_buffer("np", torch.randn(8), persistent=False)
        self.const = torch.randn(6)  # a plain attribute: tensor constant

    def forward(self, x):
        y = x @ self.a + self.np
        return (y @ self.b.t() + self.const) @ self.v3.sum(1), self.v2 * y.sum()


@model(
    "tied parameters, views that share storage, non-persistent buffer, tensor constant",
    group="format",
)
def fmt_tied(size):
    return Built(Tied(), (torch.randn(2, 6),), perturb=False)


class Inputs(nn.Module):
    def forward(self, x, scale: int, opts: dict, flag=None, mode="add", *, bias):
        y = x * scale + opts["shift"]
        for t in opts["parts"]:
            y = y + t
        if mode == "add":
            y = y + bias
        return {"y": y, "pair": (y.sum(), 3, None), "list": [y[0], torch.ones(2)]}


@model(
    "nested inputs and outputs: dict, list, keyword, int, string and None inputs; constant outputs",
    group="format",
)
def fmt_inputs(size):
    return Built(
        Inputs(),
        (
            torch.randn(2, 3),
            4,
            {"shift": torch.randn(3), "parts": [torch.randn(2, 3), torch.randn(1, 3)]},
        ),
        kwargs={"bias": torch.randn(3)},
    )


class Mutate(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("cache", torch.zeros(4, 8))

    def forward(self, x, pos):
        self.count.add_(1)
        self.cache[pos] = x.mean(0)
        x.mul_(2)
        y = x[:, :4]
        y += 1
        return self.cache.sum() + x.sum() * self.count


@model(
    "in-place changes to buffers (key-value cache style), to an input and through a view",
    group="format",
)
def fmt_mutation(size):
    return Built(Mutate(), (torch.randn(3, 8), torch.tensor([1])))


@model("the same after run_decompositions: mutations are outputs", group="format")
def fmt_mutation_core(size):
    b = fmt_mutation(size)
    b.core = True
    return b


@model(
    "digits conv net in training mode after run_decompositions: batch-norm statistics are outputs",
    group="format",
)
def cnn_digits_train_core(size):
    b = cnn_digits_train(size)
    b.core = True
    return b


@model("BertModel after run_decompositions, dynamic sequence", group="format")
def bert_mini_core(size):
    b = bert_mini(size)
    b.core = True
    return b


class SymConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, stride=2)
        self.up = nn.ConvTranspose2d(8, 4, 3, stride=2)

    def forward(self, x):
        h, w = x.shape[-2:]
        y = self.up(F.relu(self.c2(F.max_pool2d(self.c1(x), 2))))
        y = F.interpolate(y, size=(h, w), mode="bilinear", align_corners=True)
        z = F.pad(x, (0, (4 - w % 4) % 4, 0, (4 - h % 4) % 4))
        return (
            y + x.mean(1, keepdim=True),
            z.flatten(1).mean(1) / (h * w) ** 0.5,
            x[:, :, 1:, ::2].sum((2, 3)),
        )


@model(
    "fully convolutional with dynamic height and width: floor division, modulo, float sizes",
    group="format",
)
def fmt_symconv(size):
    h, w = Dim("h", min=24, max=256), Dim("w", min=24, max=256)
    return Built(
        SymConv(),
        (torch.randn(1, 3, 34, 41),),
        dynamic=({2: h, 3: w},),
        alt=lambda: (torch.randn(1, 3, 53, 30),),
    )


class NoGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x, target):
        with torch.no_grad():
            scale = self.a(x).abs().mean(-1, keepdim=True) + 0.5
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.b(x * scale)
        return F.mse_loss(y.float() + self.a(x).detach() * 0.1, target)


@model(
    "no_grad and autocast regions and detach inside a loss: part of the gradients stay absent",
    group="format",
)
def fmt_nograd_train(size):
    return Built(NoGrad(), (torch.randn(4, 6), torch.randn(4, 6)), train=True)


class SymNet(nn.Module):
    def forward(self, x, y):
        b, n = x.shape
        z = torch.cat([x, y], 0)
        h = z.reshape(z.shape[0] * 2, n // 2) if True else z
        w = torch.arange(n, device=x.device).float() / n
        return h * (b + 1), z * w, x.new_zeros(b, max(n, 4)), b * n


@model(
    "two symbols, derived sizes (sum, product, floor division, max), a symbolic integer output",
    group="format",
)
def fmt_symint(size):
    a, b, n = Dim("a", min=2, max=100), Dim("b", min=2, max=100), Dim("n", min=1, max=50)
    return Built(
        SymNet(),
        (torch.randn(3, 8), torch.randn(5, 8)),
        dynamic=({0: a, 1: 2 * n}, {0: b, 1: 2 * n}),
        alt=lambda: (torch.randn(7, 14), torch.randn(2, 14)),
    )


class Unbacked(nn.Module):
    def forward(self, x, k):
        idx = (x > 0).nonzero()
        n = k.item()
        torch._check(n >= 1)
        torch._check(n <= 8)
        return idx, torch.full((n, 3), 2.0) * n, x[x > 0].sum()


@model("sizes known only at run time: nonzero, item, masked select, with asserts", group="format")
def fmt_unbacked(size):
    return Built(
        Unbacked(),
        (torch.randn(4, 5), torch.tensor(3)),
        alt=lambda: (torch.randn(4, 5), torch.tensor(6)),
    )


class Attn(nn.Module):
    def forward(self, q, k, v, m):
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        b = F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.3)
        c = F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
        return a, b, c


@model("scaled_dot_product_attention: causal, masked, grouped", group="format")
def fmt_attention(size):
    s = (2, 4, 6, 8)
    return Built(
        Attn(), (torch.randn(s), torch.randn(s), torch.randn(s), torch.rand(2, 1, 6, 6) > 0.3)
    )


# ------------------------------------------------------------------ making
SITE = re.compile(r'File "[^"]*?/(?:site-packages|dist-packages)/')
OWN = re.compile(r'File "(/[^"]*/)([^"/]+)"')


def clean_trace(s):
    s = SITE.sub('File "', re.sub(r"<eval_with_key>\.\d+", "<eval_with_key>", s))
    return OWN.sub(r'File "\2"', s)


def tidy(gm):
    """Source locations relative to the package; no provenance chains."""
    for m in gm.modules():
        if isinstance(m, torch.fx.GraphModule):
            for n in m.graph.nodes:
                if n.meta.get("stack_trace"):
                    n.meta["stack_trace"] = clean_trace(n.meta["stack_trace"])
                n.meta.pop("from_node", None)


def build(m: Model, size: str) -> Built:
    torch.manual_seed(seed_for(m.name))
    b = m.build(size)
    if b.perturb:
        perturb_(b.module)
    b.module.train(b.train)
    return b


def export(b: Built):
    import copy

    args = pytree.tree_map_only(torch.Tensor, torch.clone, b.args)
    kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, b.kwargs or {})
    mod = copy.deepcopy(b.module)
    if b.joint:
        from torch.export.experimental import _export_forward_backward

        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            ep = _export_forward_backward(torch.export.export(mod, args, kwargs, strict=False))
    else:
        ep = torch.export.export(mod, args, kwargs, dynamic_shapes=b.dynamic, strict=b.strict)
    if b.core:
        ep = ep.run_decompositions()
    tidy(ep.graph_module)
    return ep


def flat_tensors(tree, prefix):
    out = {}
    for i, v in enumerate(pytree.tree_leaves(tree)):
        if isinstance(v, torch.Tensor):
            out[f"{prefix}.{i}"] = v.detach().clone().contiguous()
        elif isinstance(v, int) and not isinstance(v, bool) and prefix == "out":
            out[f"{prefix}.{i}"] = torch.tensor(v)
    return out


def record(b: Built, args=None):
    """Runs the eager module on a copy and returns what the io file holds."""
    import copy

    mod = copy.deepcopy(b.module)
    args = b.args if args is None else args
    a, k = pytree.tree_map_only(torch.Tensor, torch.clone, (args, b.kwargs or {}))
    io = flat_tensors((args, b.kwargs or {}), "in")
    before = {n: t.clone() for n, t in mod.named_buffers()}
    if b.train:
        loss = mod(*a, **k)
        loss.backward()
        io.update(flat_tensors(loss, "out"))
        for n, p in mod.named_parameters(
            remove_duplicate=False
        ):  # a tied parameter under each of its names
            if p.grad is not None:
                io["grad." + n] = p.grad.detach().clone().contiguous()
    else:
        with torch.no_grad():
            io.update(flat_tensors(mod(*a, **k), "out"))
        after = flat_tensors((a, k), "in")
        for n, v in after.items():
            if not torch.equal(v, io[n]):
                io["mut." + n] = v
    for n, t in mod.named_buffers():
        if not torch.equal(
            t.float() if t.dtype == torch.float8_e4m3fn else t,
            before[n].float() if t.dtype == torch.float8_e4m3fn else before[n],
        ):
            io["buf." + n] = t.detach().clone().contiguous()
    if b.train:
        mod2 = copy.deepcopy(b.module)
        losses = []
        for _ in range(5):
            a, k = pytree.tree_map_only(torch.Tensor, torch.clone, (args, b.kwargs or {}))
            loss = mod2(*a, **k)
            mod2.zero_grad()
            loss.backward()
            with torch.no_grad():
                for p in mod2.parameters():
                    if p.grad is not None:
                        p -= b.sgd_lr * p.grad
            losses.append(loss.detach())
        io["sgd.losses"] = torch.stack(losses)
    return io


def write(m: Model, b: Built, ep, size, out):
    path = os.path.join(out, m.name + ".pt2")
    torch.export.save(ep, path)
    meta = {
        "schema": "1",
        "model": m.name,
        "doc": m.doc,
        "size": size,
        "torch": torch.__version__.split("+")[0],
        "mode": "train" if b.train else "infer",
        "joint": str(b.joint).lower(),
    }
    if b.train:
        meta["sgd_lr"] = repr(b.sgd_lr)
    base = os.path.join(out, m.name)
    safetensors_file.save(record(b), base + ".io.safetensors", meta)
    if b.alt:
        torch.manual_seed(seed_for(m.name) + 1)
        safetensors_file.save(record(b, b.alt()), base + ".alt.io.safetensors", meta)
    return path


# ------------------------------------------------------------------ checking
TOL = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def compare(name, got, want):
    if want.dtype == torch.float8_e4m3fn:
        got, want = got.float(), want.float()
    if got.shape != want.shape or got.dtype != want.dtype:
        raise AssertionError(
            f"{name}: {tuple(got.shape)} {got.dtype} against {tuple(want.shape)} {want.dtype}"
        )
    if not want.is_floating_point() and not want.is_complex():
        assert torch.equal(got, want), name
        return 0.0
    err = (got - want).abs().max().item() if want.numel() else 0.0
    top = want.abs().max().item() if want.numel() else 0.0
    assert err <= TOL.get(want.dtype, 1e-4) * max(top, 1.0), f"{name}: off by {err}"
    return err


def rebuild(tree, io):
    leaves, spec = pytree.tree_flatten(tree)
    return pytree.tree_unflatten(
        [io[f"in.{i}"].clone() if isinstance(v, torch.Tensor) else v for i, v in enumerate(leaves)],
        spec,
    )


def check_files(path, b: Built):
    """Loads the archive again and runs it on the recorded inputs."""
    from safetensors.torch import load_file

    worst = 0.0
    base = path[: -len(".pt2")]
    for suffix in (".io.safetensors", ".alt.io.safetensors"):
        if not os.path.exists(base + suffix):
            continue
        ep = torch.export.load(path)
        io = load_file(base + suffix)
        args, kwargs = rebuild((b.args, b.kwargs or {}), io)
        if b.joint or b.core:  # functional graphs: run the graph by its signature
            sig = ep.graph_signature
            vals = dict(ep.constants) | dict(ep.state_dict)
            leaves = pytree.tree_leaves((args, kwargs))
            users = iter(leaves)
            flat = [
                vals[s.target] if s.target is not None else next(users) for s in sig.input_specs
            ]
            names = [s.arg.name for s in sig.input_specs if s.target is None]
            got, n = {}, 0
            for s, v in zip(sig.output_specs, ep.graph_module(*flat)):
                kind = s.kind.name
                if kind in ("USER_OUTPUT", "LOSS_OUTPUT"):
                    got[f"out.{n}"] = v
                    n += 1
                else:
                    key = {
                        "BUFFER_MUTATION": "buf.",
                        "USER_INPUT_MUTATION": "mut.in.",
                        "GRADIENT_TO_PARAMETER": "grad.",
                    }[kind]
                    got[
                        key
                        + (
                            str(names.index(s.target))
                            if kind == "USER_INPUT_MUTATION"
                            else s.target
                        )
                    ] = v
            if b.core and b.train:
                ps = {k: v for k, v in ep.state_dict.items() if v.requires_grad}
                for k, g in zip(
                    ps, torch.autograd.grad(got["out.0"], list(ps.values()), allow_unused=True)
                ):
                    if g is not None:
                        got["grad." + k] = g
            for k, want in io.items():
                if k.split(".")[0] in ("out", "grad", "buf", "mut"):
                    worst = max(worst, compare(k, got[k].detach(), want))
            continue
        mod = ep.module()
        got = {}
        if b.train:
            loss = mod(*args, **kwargs)
            loss.backward()
            got.update(flat_tensors(loss, "out"))
            total = {}  # tied parameters come back as two tensors on one storage
            params = list(mod.named_parameters(remove_duplicate=False))
            for _, p in {id(p): (n, p) for n, p in params}.values():
                if p.grad is not None:
                    k = (p.data_ptr(), p.shape, p.stride())
                    total[k] = total[k] + p.grad if k in total else p.grad
            for n, p in params:
                k = (p.data_ptr(), p.shape, p.stride())
                if k in total:
                    got["grad." + n] = total[k]
        else:
            with torch.no_grad():
                got.update(flat_tensors(mod(*args, **kwargs), "out"))
            for n, v in flat_tensors((args, kwargs), "in").items():
                got["mut." + n] = v
        for n, t in mod.named_buffers():
            got["buf." + n] = t
        for n, want in io.items():
            if n.split(".")[0] in ("out", "grad", "buf", "mut"):
                worst = max(worst, compare(n, got[n], want))
    return worst


# ------------------------------------------------------------------ operator coverage
def op_name(t):
    if isinstance(t, torch._ops.OpOverload):
        return str(t)
    if isinstance(t, torch._ops.HigherOrderOperator):
        return f"hop.{t.name()}"
    mod = getattr(t, "__module__", "") or ""
    return f"{mod.lstrip('_')}.{getattr(t, '__name__', t)}"


def histogram(gm):
    c = collections.Counter()
    for m in gm.modules():
        if isinstance(m, torch.fx.GraphModule):
            for n in m.graph.nodes:
                if n.op == "call_function":
                    c[op_name(n.target)] += 1
    c.pop("operator.getitem", None)
    return c


def aot_histograms(ep, b: Built, decompose):
    from torch._functorch.aot_autograd import aot_function
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._decomp import core_aten_decompositions

    fw, bw = collections.Counter(), collections.Counter()

    def grab(into):
        def comp(gm, example):
            into.update(histogram(gm))
            return gm

        return comp

    mod = ep.module()
    params, buffers = dict(mod.named_parameters()), dict(mod.named_buffers())
    args = pytree.tree_map_only(torch.Tensor, torch.clone, b.args)
    f = aot_function(
        lambda p, q, a: torch.func.functional_call(mod, {**p, **q}, a),
        fw_compiler=grab(fw),
        bw_compiler=grab(bw),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=core_aten_decompositions() if decompose else None,
    )
    f(params, buffers, args).backward()
    return fw, bw


def coverage_of(m: Model, size):
    b = build(m, size)
    ep = export(b)
    row = {"model": m.name, "size": size, "train": b.train, "exported": histogram(ep.graph_module)}
    try:
        row["core"] = histogram(ep.run_decompositions().graph_module)
    except Exception as e:
        row["core_error"] = f"{type(e).__name__}: {str(e).splitlines()[0][:160]}"
    if b.train and not b.joint and not b.core:
        for key, dec in (("aot", False), ("aotc", True)):
            try:
                row[key + "_fw"], row[key + "_bw"] = aot_histograms(ep, b, dec)
            except Exception as e:
                row[key + "_error"] = f"{type(e).__name__}: {str(e).splitlines()[0][:160]}"
    return row


def main(argv=None):
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--out", default="models", help="folder to write to")
    ap.add_argument("--only", help="names or groups (net, train, format), comma separated")
    ap.add_argument("--size", choices=BOTH, default="dev")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--check", action="store_true", help="load each archive again and compare")
    ap.add_argument(
        "--coverage", metavar="JSON", help="write operator histograms instead of models"
    )
    ap.add_argument("--keep-going", action="store_true", help="report a failing model and go on")
    a = ap.parse_args(argv)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    only = set(a.only.split(",")) if a.only else None
    if only and (bad := only - set(REGISTRY) - {m.group for m in REGISTRY.values()}):
        ap.error("unknown model: " + ", ".join(sorted(bad)))
    chosen = [m for m in REGISTRY.values() if not only or m.name in only or m.group in only]
    if a.list:
        for m in chosen:
            print(f"{m.name:24} {m.group:7} {','.join(m.sizes):10} {m.doc}")
        return 0
    chosen = [m for m in chosen if a.size in m.sizes]
    if a.coverage:
        rows = []
        for m in chosen:
            try:
                rows.append(coverage_of(m, a.size))
                print(
                    m.name,
                    *(f"{k}: {v}" for k, v in rows[-1].items() if k.endswith("_error")),
                    flush=True,
                )
            except Exception as e:
                print(f"{m.name}: FAILED {type(e).__name__}: {e}", flush=True)
                if not a.keep_going:
                    raise
        with open(a.coverage, "w") as f:
            json.dump(rows, f, indent=1)
        return 0
    os.makedirs(a.out, exist_ok=True)
    failed = 0
    for m in chosen:
        try:
            b = build(m, a.size)
            path = write(m, b, export(b), a.size, a.out)
            note = ""
            if a.check:
                note = f"  reload max abs error {check_files(path, b):.2e}"
            print(f"{m.name:24} {os.path.getsize(path):>10} bytes{note}", flush=True)
        except Exception as e:
            failed += 1
            print(f"{m.name:24} FAILED {type(e).__name__}: {str(e)[:1500]}", flush=True)
            if not a.keep_going:
                raise
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
