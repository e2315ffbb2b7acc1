"""Training loops in the style of public ones, without a mistake: a small GPT, a ResNet with a
prefetcher, a VAE, a DCGAN, and layers sharded by hand whose weights are gathered ahead.

    python check_scripts.py NAME STEPS

Nothing here knows of pleat or of a simulated device. Values are never looked at."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "cuda"


# ---- a small GPT ----


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        q, k, v = (y.view(n, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        out: torch.Tensor = self.out(y.transpose(1, 2).contiguous().view(n, t, c))
        return out


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x))
        x = x + self.mlp(self.norm_2(x))
        return x


class Gpt(nn.Module):
    def __init__(self, vocabulary: int = 512, context: int = 64, width: int = 128) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(4))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, index: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        places = torch.arange(index.shape[1], device=index.device)
        x = self.tokens(index) + self.places(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def gpt(steps: int) -> None:
    data = torch.randint(512, (10000,))
    model = Gpt().to(DEVICE)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=True)
    scaler = torch.amp.GradScaler(DEVICE)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        at = torch.randint(len(data) - 65, (8,))
        x = torch.stack([data[i : i + 64] for i in at])
        y = torch.stack([data[i + 1 : i + 65] for i in at])
        return (
            x.pin_memory().to(DEVICE, non_blocking=True),
            y.pin_memory().to(DEVICE, non_blocking=True),
        )

    @torch.no_grad()
    def estimate() -> float:
        model.eval()
        losses = torch.zeros(3)
        for k in range(3):
            losses[k] = model(*batch()).item()
        model.train()
        return float(losses.mean())

    x, y = batch()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 6e-4 * 0.5 * (1 + math.cos(math.pi * step / steps))
        if step % 5 == 0:
            estimate()
        for _micro in range(2):
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                loss = model(x, y) / 2
            x, y = batch()  # while the GPU works
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        loss.item()


# ---- a ResNet, with batches prefetched on a stream of their own ----


class Residual(nn.Module):
    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.conv_2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm_1, self.norm_2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.short: nn.Module = nn.Identity()
        if stride != 1 or before != width:
            self.short = nn.Sequential(
                nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm_1(self.conv_1(x)), inplace=True)
        y = self.norm_2(self.conv_2(y))
        y += self.short(x)
        return F.relu(y, inplace=True)


class Prefetcher:
    """Copies the next batch while the present one is worked on."""

    def __init__(self, loader: Any) -> None:
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.mean = torch.tensor([0.49, 0.48, 0.45], device=DEVICE).view(1, 3, 1, 1)
        self.preload()

    def preload(self) -> None:
        self.next: tuple[torch.Tensor, torch.Tensor] | None = None
        try:
            images, labels = next(self.loader)
        except StopIteration:
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            images = images.to(DEVICE, non_blocking=True, memory_format=torch.channels_last)
            labels = labels.to(DEVICE, non_blocking=True)
            self.next = images.float().sub_(self.mean), labels

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while self.next is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            images, labels = self.next
            images.record_stream(torch.cuda.current_stream())
            labels.record_stream(torch.cuda.current_stream())
            self.preload()
            yield images, labels


def resnet(steps: int) -> None:
    images = torch.randint(256, (16 * steps, 3, 32, 32), dtype=torch.uint8)
    data = torch.utils.data.TensorDataset(images, torch.randint(10, (16 * steps,)))
    loader = torch.utils.data.DataLoader(data, 16, shuffle=True, pin_memory=True)
    widths = (16, 16, 32, 64)
    body = [Residual(a, b, 1 if a == b else 2) for a, b in zip(widths, widths[1:])]
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1), *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    )
    model = model.to(DEVICE, memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    correct = torch.zeros((), device=DEVICE)
    for images, labels in Prefetcher(loader):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.float16):
            out = model(images)
            loss = F.cross_entropy(out, labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        correct += out.argmax(1).eq(labels).sum()
    correct.item()


# ---- a VAE ----


class Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.mean, self.spread = (
            nn.Linear(784, 400),
            nn.Linear(400, 20),
            nn.Linear(400, 20),
        )
        self.fc3, self.fc4 = nn.Linear(20, 400), nn.Linear(400, 784)

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        h = F.relu(self.fc1(x.view(-1, 784)))
        mean, spread = self.mean(h), self.spread(h)
        std = torch.exp(0.5 * spread)
        return self.decode(mean + torch.randn_like(std) * std), mean, spread


def vae(steps: int) -> None:
    model = Vae().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    total = 0.0
    for step in range(steps):
        is_test = step % 5 == 4
        data = torch.rand(128, 1, 28, 28).to(DEVICE)
        with torch.no_grad() if is_test else nullcontext():
            image, mean, spread = model(data)
            bce = F.binary_cross_entropy(image, data.view(-1, 784), reduction="sum")
            loss = bce - 0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())
        if is_test:
            torch.cat([data[:8], image.view(128, 1, 28, 28)[:8]]).cpu()
            model.decode(torch.randn(64, 20).to(DEVICE)).cpu()
            continue
        optimizer.zero_grad()
        loss.backward()
        total += loss.item()
        optimizer.step()


# ---- a DCGAN ----


def dcgan(steps: int) -> None:
    def up(a: int, b: int, *args: int) -> list[nn.Module]:
        conv = nn.ConvTranspose2d(a, b, 4, *args, bias=False)
        return [conv, nn.BatchNorm2d(b), nn.ReLU(True)]

    def down(a: int, b: int) -> list[nn.Module]:
        return [nn.Conv2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, True)]

    net_g = nn.Sequential(
        *up(100, 64, 1, 0), *up(64, 32, 2, 1), nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh()
    ).to(DEVICE)
    net_d = nn.Sequential(
        *down(3, 32), *down(32, 64), nn.Conv2d(64, 1, 4, 1, 0), nn.Sigmoid()
    ).to(DEVICE)
    criterion = nn.BCELoss()
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_g = torch.optim.Adam(net_g.parameters(), lr=2e-4, betas=(0.5, 0.999))
    fixed = torch.randn(16, 100, 1, 1, device=DEVICE)
    for step in range(steps):
        net_d.zero_grad()
        real = torch.rand(16, 3, 16, 16).to(DEVICE)
        label = torch.full((16,), 1.0, device=DEVICE)
        error_real = criterion(net_d(real).view(-1), label)
        error_real.backward()
        fake = net_g(torch.randn(16, 100, 1, 1, device=DEVICE))
        label.fill_(0.0)
        error_fake = criterion(net_d(fake.detach()).view(-1), label)
        error_fake.backward()
        optimizer_d.step()
        net_g.zero_grad()
        label.fill_(1.0)
        error = criterion(net_d(fake).view(-1), label)
        error.backward()
        optimizer_g.step()
        (error_real + error_fake).item()
        if step % 5 == 0:
            with torch.no_grad():
                net_g(fixed).detach().cpu()


# ---- layers that are sharded by hand ----


class Sharded:
    """A layer's weights live on the host. They are gathered on a stream ahead of their use, and
    gradients go back on another one."""

    def __init__(self, width: int, gather: torch.cuda.Stream, reduce: torch.cuda.Stream) -> None:
        self.gather, self.reduce = gather, reduce
        self.kept = torch.randn(width, width).pin_memory()
        self.grad = torch.zeros(width, width).pin_memory()
        self.whole: torch.Tensor | None = None
        self.ready = torch.cuda.Event()

    def prefetch(self) -> None:
        if self.whole is None:
            with torch.cuda.stream(self.gather):
                self.whole = self.kept.to(DEVICE, non_blocking=True)
                self.ready.record()

    def use(self) -> torch.Tensor:
        self.prefetch()
        assert self.whole is not None
        main = torch.cuda.current_stream()
        main.wait_event(self.ready)
        self.whole.record_stream(main)
        return self.whole

    def free(self) -> None:
        self.whole = None

    def give_back(self, grad: torch.Tensor) -> None:
        self.reduce.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.reduce):
            self.grad.copy_(grad.mul(0.5), non_blocking=True)
        grad.record_stream(self.reduce)


def sharded(steps: int) -> None:
    gather, reduce = torch.cuda.Stream(), torch.cuda.Stream()
    layers = [Sharded(256, gather, reduce) for _ in range(6)]
    for _ in range(steps):
        x = torch.randn(64, 256).to(DEVICE)
        kept = []
        for i, layer in enumerate(layers):
            weight = layer.use()
            if i + 1 < len(layers):
                layers[i + 1].prefetch()
            kept.append(x)
            x = torch.relu(x @ weight)
            del weight
            layer.free()
        grad = torch.ones_like(x)
        for i in reversed(range(len(layers))):
            weight = layers[i].use()
            if i > 0:
                layers[i - 1].prefetch()
            layers[i].give_back(kept[i].t() @ grad)
            grad = grad @ weight.t()
            del weight
            layers[i].free()
        reduce.synchronize()
        for layer in layers:
            layer.kept -= 0.1 * layer.grad


SCRIPTS = {"gpt": gpt, "resnet": resnet, "vae": vae, "dcgan": dcgan, "sharded": sharded}

if __name__ == "__main__":
    SCRIPTS[sys.argv[1]](int(sys.argv[2]))
