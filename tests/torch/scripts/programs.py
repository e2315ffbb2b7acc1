"""Training and serving as in ordinary programs, with variable lengths. Nothing here knows of pleat
or of a simulated device. Usage: programs.py NAME STEPS. Prints a line of JSON per rank, the final
statistics of torch's allocator.

Results are never looked at, since they are zeros on the simulated runtime."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from typing import Any

import torch
from torch import distributed, nn


def device() -> torch.device:
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.long, device=device())


def gpt2(steps: int, rng: random.Random) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=12, n_embd=768, n_head=12)).to(device())
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(steps):
        tokens = zeros(8, rng.randrange(200, 1025))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def llama(n_layers: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=n_layers,
        num_attention_heads=16,
        num_key_value_heads=8,
        vocab_size=32000,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16).to(device())


def llama_lora(steps: int, rng: random.Random) -> None:
    import peft

    model = llama(16)
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    of_attention = ["q_proj", "k_proj", "v_proj", "o_proj"]
    modules = [*of_attention, "up_proj", "down_proj", "gate_proj"]
    model = peft.get_peft_model(model, peft.LoraConfig(r=16, target_modules=modules))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    for _ in range(steps):
        tokens = zeros(4, rng.randrange(128, 2049))
        model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def bert_amp(steps: int, rng: random.Random) -> None:
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig()).to(device())
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(steps):
        n, length = rng.randrange(8, 33), rng.randrange(32, 513)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(zeros(n, length), labels=zeros(n)).loss
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


class Images(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """Batches of 16, all of one size."""

    def __init__(self, steps: int) -> None:
        self.n = 16 * steps

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        batch = i // 16
        return torch.zeros(3, 160 + 32 * (batch * 7 % 6), 160 + 32 * (batch * 5 % 5)), 0


def resnet(steps: int, rng: random.Random) -> None:
    import torchvision

    del rng
    form = torch.channels_last
    model = torchvision.models.resnet50().to(device(), memory_format=form)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    loader = torch.utils.data.DataLoader(
        Images(steps), batch_size=16, num_workers=2, pin_memory=True
    )
    for images, labels in loader:
        images = images.to(device(), non_blocking=True, memory_format=form)
        labels = labels.to(device(), non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def serve(steps: int, rng: random.Random) -> None:
    """Without generate(), which queries the device for the end: see docs/runtime.md."""
    model = llama(12).eval()
    with torch.inference_mode():
        for _ in range(steps):
            tokens, past = zeros(rng.randrange(4, 33), rng.randrange(64, 1025)), None
            for _ in range(12):
                found = model(tokens, past_key_values=past, use_cache=True, logits_to_keep=1)
                tokens, past = found.logits.argmax(-1), found.past_key_values


class Sentences(torch.utils.data.Dataset[dict[str, list[int]]]):
    def __init__(self, n: int, rng: random.Random) -> None:
        self.lengths = [rng.randrange(32, 513) for _ in range(n)]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, i: int) -> dict[str, list[int]]:
        return {"input_ids": [1] * self.lengths[i]}


def pad(rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
    longest = max(len(row["input_ids"]) for row in rows)
    padded = [row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows]
    tokens = torch.tensor(padded)
    return {"input_ids": tokens, "labels": tokens}


def trainer(steps: int, rng: random.Random) -> dict[str, int]:
    """The batch is halved, or cut by a tenth, at each OutOfMemoryError, and training begins anew."""
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=64,
            auto_find_batch_size=True,
            max_steps=steps,
            bf16=True,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=768, n_head=12))
        it = Trainer(model, arguments, train_dataset=Sentences(512, rng), data_collator=pad)
        it.train()
        return {"batch": it._train_batch_size}


class Decoder(nn.Module):
    def __init__(self, width: int, n_layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(32000, width)
        layer = lambda: nn.TransformerEncoderLayer(width, 16, 4 * width, 0.0, batch_first=True)
        self.layers = nn.ModuleList(layer() for _ in range(n_layers))
        self.head = nn.Linear(width, 32000, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


def train_decoder(model: nn.Module, steps: int, rng: random.Random) -> None:
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        tokens = zeros(8, rng.randrange(128, 1025))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def ddp(steps: int, rng: random.Random) -> None:
    model = Decoder(1024, 8).to(device())
    train_decoder(nn.parallel.DistributedDataParallel(model, [device()]), steps, rng)


def fsdp2(steps: int, rng: random.Random) -> None:
    from torch.distributed.fsdp import fully_shard

    model = Decoder(1024, 8).to(device())
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    train_decoder(model, steps, rng)


def main() -> None:
    name, steps = sys.argv[1], int(sys.argv[2])
    is_sharded = name in ("ddp", "fsdp2")
    if is_sharded:
        torch.cuda.set_device(device())
        distributed.init_process_group("nccl")
    torch.manual_seed(0)
    found: dict[str, Any] = {"rank": int(os.environ.get("RANK", "0"))}
    try:
        found.update(globals()[name](steps, random.Random(0)) or {})
    except torch.OutOfMemoryError as error:
        found["error"] = str(error).splitlines()[0]
    torch.cuda.synchronize()
    found.update(torch.cuda.memory_stats())
    print("\n" + json.dumps(found), flush=True)
    if "error" in found:
        os._exit(3)  # without waiting for the other ranks
    if is_sharded:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
