"""Models to measure that tools/recordings/make_models.py lacks. Each entry returns a Case.

Case.kind is "infer" (module, args) or "train" (module gives the loss of its args; SGD step) or
"func" (plain function and args, for compile-time measurements).
"""

import math
from dataclasses import dataclass
from typing import Any, Callable

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Case:
    kind: str
    fn: Any
    args: tuple
    lr: float = 0.01
    tol: float = 2e-3


REG: dict[str, Callable[[], Case]] = {}


def case(f):
    REG[f.__name__] = f
    return f


class Block(nn.Module):
    """Pre-norm transformer encoder block."""

    def __init__(self, d=256, h=4, mult=4, causal=False):
        super().__init__()
        self.h, self.causal = h, causal
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc1, self.fc2 = nn.Linear(d, mult * d), nn.Linear(mult * d, d)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, s, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.proj(o.transpose(1, 2).reshape(b, s, d))
        return x + self.fc2(F.gelu(self.fc1(self.n2(x))))


class Encoder(nn.Module):
    def __init__(self, layers, d, h, vocab=8192, causal=False, head=False, pos=512):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Parameter(torch.randn(pos, d) * 0.02)
        self.blocks = nn.Sequential(*[Block(d, h, causal=causal) for _ in range(layers)])
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False) if head else None

    def forward(self, ids):
        x = self.norm(self.blocks(self.emb(ids) + self.pos[: ids.shape[1]]))
        return x if self.head is None else self.head(x)


@case
def encoder_4x256_s128():
    return Case("infer", Encoder(4, 256, 4).eval(), (torch.randint(0, 8192, (1, 128)),))


@case
def encoder_12x768_s128():
    return Case("infer", Encoder(12, 768, 12).eval(), (torch.randint(0, 8192, (1, 128)),))


@case
def gpt_4x256_s256():
    return Case(
        "infer",
        Encoder(4, 256, 4, causal=True, head=True).eval(),
        (torch.randint(0, 8192, (1, 256)),),
    )


def _recurrent(kind, size, batch, steps):
    def make():
        layers = kind(size, size, num_layers=2).eval()
        return Case("infer", layers, (torch.randn(steps, batch, size),))

    return make


# Two layers, of 64, 256 and 512 units: one sentence, a small batch, a large one.
for _kind in (nn.LSTM, nn.GRU):
    for _size, _batch, _steps in ((64, 1, 64), (256, 8, 32), (512, 32, 32)):
        REG[f"{_kind.__name__.lower()}_{_size}_b{_batch}"] = _recurrent(_kind, _size, _batch, _steps)


class MLPLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10)
        )

    def forward(self, x, y):
        return F.cross_entropy(self.net(x), y)


@case
def mlp_train_b128():
    return Case("train", MLPLoss().train(), (torch.randn(128, 784), torch.arange(128) % 10))


@case
def mlp_infer_b1():
    return Case("infer", MLPLoss().net.eval(), (torch.randn(1, 784),))


def pointwise3(x, y):
    return torch.relu(x * y + 1.0)


@case
def pointwise3_1m():
    return Case("func", pointwise3, (torch.randn(1024, 1024), torch.randn(1024, 1024)))


@case
def block_256():
    return Case("infer", Block().eval(), (torch.randn(1, 128, 256),))


def gelu_bias(x, b):
    return F.gelu(x + b)


def chain10(x, y):
    t = torch.tanh(x * 1.5 + y)
    u = t * torch.sigmoid(y * 0.7)
    return torch.relu(x - u) * 0.5 + u


def softmax_rows(x):
    return torch.softmax(x, -1)


def layernorm_rows(x, w, b):
    return F.layer_norm(x, (x.shape[-1],), w, b)


def _pw(fn, n, k):
    def make():
        x = torch.randn(n // 1024, 1024)
        rest = {
            "x": [],
            "xy": [torch.randn_like(x)],
            "xb": [torch.randn(1024)],
            "xwb": [torch.randn(1024), torch.randn(1024)],
        }[k]
        return Case("func", fn, (x, *rest), tol=1e-4)

    return make


for _n, _l in ((1 << 16, "64k"), (1 << 20, "1m"), (1 << 22, "4m"), (1 << 24, "16m")):
    for _f, _k in (
        (pointwise3, "xy"),
        (gelu_bias, "xb"),
        (chain10, "xy"),
        (softmax_rows, "x"),
        (layernorm_rows, "xwb"),
    ):
        REG[f"pw_{_f.__name__}_{_l}"] = _pw(_f, _n, _k)
