"""Writes .safetensors files that are the same for the same tensors and metadata, byte for byte: the
package's own writer orders metadata at random. Imported by the other tools; needs torch."""

import json

import torch

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
}


def save(tensors, path, meta):
    """Raises KeyError for a dtype that the format or Tenon lacks; then no file is written."""
    head, blobs, at = {"__metadata__": dict(sorted(meta.items()))}, [], 0
    for name, t in sorted(tensors.items(), key=lambda e: (-e[1].element_size(), e[0])):
        # A copy: contiguous() leaves the strides of dimensions of one element as they are.
        flat = t.detach().resolve_conj().resolve_neg().reshape(-1)
        flat = torch.empty(flat.shape, dtype=flat.dtype).copy_(flat)
        raw = flat.view(torch.uint8).numpy().tobytes() if t.numel() else b""
        head[name] = {
            "dtype": NAMES[t.dtype],
            "shape": list(t.shape),
            "data_offsets": [at, at + len(raw)],
        }
        blobs.append(raw)
        at += len(raw)
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))
