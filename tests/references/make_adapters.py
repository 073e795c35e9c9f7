"""Makes adapters/: random adapters over architectures/bert and others, and what PEFT and torch compute with them.

    python -m tests.references.make_adapters

Needs torch, transformers, peft and safetensors. LoRA, DoRA, IA3 and prefixes are PEFT's. The bottlenecks, Compacter,
AdapterFusion and PALs are written out here in torch, as the `adapters` library and the papers define them.
"""

import json
import pathlib
import shutil

import numpy as np
import peft
import torch
import transformers

from tests.float64 import in_float64

HERE = pathlib.Path(__file__).parent
FOLDER = HERE / "adapters"
LAYERS, DIM, INNER, SIZE, LENGTH = 2, 8, 16, 4, 3
INPUTS = {
    "input_ids": torch.tensor([[2, 7, 9, 14, 3, 5, 3], [2, 11, 3, 0, 0, 0, 0]]),
    "attention_mask": torch.tensor([[1] * 7, [1] * 3 + [0] * 4]),
}


def base(name):
    model = transformers.AutoModel.from_pretrained(HERE / "architectures" / name, attn_implementation="eager")
    return model.eval()


def states(model, **options):
    with torch.no_grad():
        return model(**INPUTS, **options).last_hidden_state.numpy()


def randomize(model, marks, scale=0.3):
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        if any(mark in name for mark in marks):
            with torch.no_grad():
                parameter += torch.randn_like(parameter) * scale


def lora(name, base_name, **options):
    """Writes a folder as PEFT does, with `outputs.npz`."""
    config = peft.LoraConfig(r=2, lora_alpha=5, lora_dropout=0.1, **options)
    model = peft.get_peft_model(base(base_name), config).eval()
    randomize(model, ["lora_"])
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    model.save_pretrained(FOLDER / name)
    (FOLDER / name / "README.md").unlink(missing_ok=True)
    file = FOLDER / name / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "base_model_name_or_path": base_name}, indent=2) + "\n")
    np.savez(FOLDER / name / "outputs.npz", states(model))


def lora_with_head(kind, head, auto, task_type, targets, suffix="", **options):
    """Writes a folder as PEFT does for a task, over a reference folder of heads, with `outputs.npz`."""
    source, path = HERE / "heads" / f"{kind}_{head}", FOLDER / "peft_heads" / f"{kind}_{head}{suffix}"
    source = source if source.exists() else HERE / "heads" / f"{kind}_classifier"
    torch.manual_seed(0)
    model = auto.from_pretrained(source, attn_implementation="eager")
    config = peft.LoraConfig(task_type, r=2, lora_alpha=5, target_modules=targets, **options)
    model = peft.get_peft_model(model, config).eval()
    randomize(model, ["lora_", "modules_to_save", "trainable_tokens"])
    shutil.rmtree(path, ignore_errors=True)
    model.save_pretrained(path)
    (path / "README.md").unlink(missing_ok=True)
    file = path / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "base_model_name_or_path": kind}, indent=2) + "\n")
    ids = torch.tensor([[2, 7, 9, 4, 3, 5], [2, 8, 3, 0, 0, 0]])
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=(ids > 0).long()).logits
    np.savez(path / "outputs.npz", (logits[ids > 0] if logits.ndim == 3 else logits).numpy())


def of_encoder_decoder(base_name, kind, config):
    """Writes a folder as PEFT does over sequence_to_sequence/BASE, with logits in float64 and the error of float32."""
    path, source = FOLDER / "peft_encoder_decoders" / f"{base_name}_{kind}", HERE / "sequence_to_sequence" / base_name
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(source, attn_implementation="eager")
    model = peft.get_peft_model(model, config).eval()
    randomize(model, ["lora_", "ia3_l"], scale=0.1 if kind == "ia3" else 0.3)  # IA3's vectors begin at 1
    shutil.rmtree(path, ignore_errors=True)
    model.save_pretrained(path)
    (path / "README.md").unlink(missing_ok=True)
    file = path / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "base_model_name_or_path": base_name}, indent=2) + "\n")
    arrays = np.load(source / "outputs.npz")
    names = {"token_ids": "input_ids", "padding_mask": "attention_mask"}
    inputs = {
        f"{half}{theirs}": torch.tensor(arrays[f"{half}{ours}"][:, :8]).long()
        for half in ("", "decoder_")
        for ours, theirs in names.items()
    }
    with torch.no_grad():
        rounded, exact = model(**inputs).logits, in_float64(model)(**inputs).logits
    real = inputs["decoder_attention_mask"] == 1
    np.savez(path / "outputs.npz", logits=exact[real].float().numpy(), error=(exact - rounded)[real].abs().max())


def ia3():
    """IA3 on keys, values and the inside of the feed-forward network, as in the paper."""
    targets = r".*(self\.key|self\.value|layer\.\d+\.output\.dense)"
    config = peft.IA3Config(target_modules=targets, feedforward_modules=r".*layer\.\d+\.output\.dense")
    model = peft.get_peft_model(base("bert"), config).eval()
    randomize(model, ["ia3_l"])
    found = {}
    for i, layer in enumerate(model.base_model.model.encoder.layer):
        for ours, module in (("key", layer.attention.self.key), ("value", layer.attention.self.value)):
            found[f"block_{i}.attention.query_key_value/{ours}"] = module.ia3_l["default"]
        found[f"block_{i}.feed_forward.outer/inputs"] = layer.output.dense.ia3_l["default"]
    save("ia3", {name: tensor.reshape(-1) for name, tensor in found.items()}, states(model))


def prefix():
    """A prefix of PEFT, which moves the positions of the text by its length. Here the table of positions moves back."""
    model = base("gpt2")
    with torch.no_grad():
        model.wpe.weight.copy_(torch.roll(model.wpe.weight, LENGTH, 0))
    config = peft.PrefixTuningConfig(num_virtual_tokens=LENGTH, task_type="FEATURE_EXTRACTION")
    model = peft.get_peft_model(model, config).eval()
    table = model.prompt_encoder["default"].embedding.weight
    torch.manual_seed(0)
    with torch.no_grad():
        table.copy_(torch.randn_like(table) * 0.5)
    parts = table.detach().reshape(LENGTH, LAYERS, 2, 2, DIM // 2)
    found = {}
    for i in range(LAYERS):
        found[f"block_{i}.attention.prefix/keys"] = parts[:, i, 0]
        found[f"block_{i}.attention.prefix/values"] = parts[:, i, 1]
    save("prefix", found, states(model))


class Bottleneck(torch.nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.down, self.up = torch.nn.Linear(DIM, SIZE), torch.nn.Linear(SIZE, DIM)
        self.activation = activation

    def forward(self, x):
        return self.up(self.activation(self.down(x)))

    def arrays(self):
        found = {"down_kernel": self.down.weight.T, "down_bias": self.down.bias}
        return {**found, "up_kernel": self.up.weight.T, "up_bias": self.up.bias}


class Compact(torch.nn.Module):
    def __init__(self, rule):
        super().__init__()
        self.rule, terms = rule, len(rule)
        self.parts = {}
        for name, rows, columns in (("down", DIM, SIZE), ("up", SIZE, DIM)):
            self.parts[f"{name}_left"] = torch.randn(terms, rows // terms, 1)
            self.parts[f"{name}_right"] = torch.randn(terms, 1, columns // terms)
            self.parts[f"{name}_bias"] = torch.randn(columns)

    def linear(self, x, name):
        products = torch.bmm(self.parts[f"{name}_left"], self.parts[f"{name}_right"])
        kernel = sum(torch.kron(rule, product) for rule, product in zip(self.rule, products))
        return x @ kernel + self.parts[f"{name}_bias"]

    def forward(self, x):
        return self.linear(torch.nn.functional.gelu(self.linear(x, "down")), "up")

    def arrays(self):
        return self.parts


class Fusion(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = torch.nn.Linear(DIM, DIM), torch.nn.Linear(DIM, DIM)
        self.value = torch.nn.Linear(DIM, DIM, bias=False)

    def forward(self, query, changes):
        changes = torch.stack(changes, 2)
        scores = (self.query(query).unsqueeze(2) @ self.key(changes).transpose(-2, -1)).squeeze(2)
        return (scores.softmax(-1).unsqueeze(2) @ self.value(changes)).squeeze(2)

    def arrays(self):
        found = {f"{name}_kernel": getattr(self, name).weight.T for name in ("query", "key", "value")}
        return {**found, "query_bias": self.query.bias, "key_bias": self.key.bias}


class Pals(torch.nn.Module):
    """Two heads; the projections are shared by all layers."""

    def __init__(self, down, up):
        super().__init__()
        self.down, self.up = down, up
        self.projections = [torch.randn(SIZE, SIZE) for _ in range(3)]

    def forward(self, x):
        batch, length, _ = x.shape
        query, key, value = ((x @ self.down @ w).view(batch, length, 2, -1).transpose(1, 2) for w in self.projections)
        hidden = (1 - INPUTS["attention_mask"])[:, None, None] * -3e4
        scores = query @ key.transpose(-2, -1) / (SIZE // 2) ** 0.5 + hidden
        return (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, SIZE) @ self.up

    def arrays(self):
        return {"query_key_value/kernel": torch.cat(self.projections, -1)}


def written_out(name, make, places, change):
    """Changes the outputs `h` of sub-layers before the residual: `h + change(adapter, h, x, norm)`."""
    torch.manual_seed(0)
    model, found = base("bert"), {}
    for i, layer in enumerate(model.encoder.layer):
        inputs = {}
        layer.register_forward_pre_hook(lambda module, args, inputs=inputs: inputs.update(x=args[0]))
        for place in places:
            part = layer.attention.output if place == "attention" else layer.output
            adapter = make()

            def forward(hidden, x, part=part, adapter=adapter, inputs=inputs):
                h = part.dense(hidden)
                return part.LayerNorm(h + change(adapter, h, x, part.LayerNorm, inputs["x"]) + x)

            part.forward = forward
            adapters = adapter if isinstance(adapter, dict) else {"": adapter}
            for key, module in adapters.items():
                for weight, value in module.arrays().items():
                    found[f"{key}:" * bool(key) + f"block_{i}.{place}/{weight}"] = value
    return model, found


def save(name, tensors, outputs):
    arrays = {key: np.ascontiguousarray(value.detach().numpy()) for key, value in tensors.items()}
    np.savez(FOLDER / f"{name}.npz", outputs=outputs, **arrays)


def main():
    FOLDER.mkdir(exist_ok=True)
    lora("peft_lora", "bert", target_modules=["query", "value", "intermediate.dense"])
    lora("peft_rslora", "bert", target_modules=["key"], use_rslora=True)
    lora("peft_dora", "bert", target_modules=["query", "output.dense"], use_dora=True)
    lora("peft_gpt2", "gpt2", target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)
    of_bert = ["query", "value", "intermediate.dense", "output.dense"]
    targets = {"bert": of_bert, "roberta": of_bert, "distilbert": ["q_lin", "v_lin", "out_lin", "lin1", "lin2"]}
    for kind, names in {**targets, "modernbert": ["Wqkv", "Wi", "mlp.Wo"]}.items():
        lora_with_head(kind, "classifier", transformers.AutoModelForSequenceClassification, "SEQ_CLS", names)
        lora_with_head(kind, "tokens", transformers.AutoModelForTokenClassification, "TOKEN_CLS", names)
    auto = transformers.AutoModelForSequenceClassification
    for kind, options in (("bert", {"use_dora": True}), ("albert", {}), ("deberta-v2", {})):
        lora_with_head(kind, "classifier", auto, "SEQ_CLS", "all-linear", "_all", **options)
    saved = {"modules_to_save": ["pooler", "LayerNorm"], "trainable_token_indices": [7, 3]}
    lora_with_head("bert", "classifier", auto, "SEQ_CLS", ["query"], "_saved", **saved)
    task = {"task_type": "SEQ_2_SEQ_LM"}
    of_encoder_decoder("t5", "lora", peft.LoraConfig(r=2, lora_alpha=5, **task))
    of_encoder_decoder("t5_gated", "ia3", peft.IA3Config(**task))
    of_encoder_decoder("bart", "dora", peft.LoraConfig(r=2, lora_alpha=5, use_dora=True, **task))
    of_encoder_decoder("bart", "ia3", peft.IA3Config(**task))
    ia3()
    prefix()
    both, silu, relu = ("attention", "feed_forward"), torch.nn.functional.silu, torch.relu
    rule = torch.randn(2, 2, 2, generator=torch.Generator().manual_seed(0))
    down, up = (torch.randn(*shape, generator=torch.Generator().manual_seed(1)) for shape in ((DIM, SIZE), (SIZE, DIM)))

    def fused(adapter, h, x, norm, first):
        z = norm(h + x)
        return adapter["fusion"](z, [adapter["a"](z), adapter["b"](z)])

    cases = {
        "houlsby": (lambda: Bottleneck(silu), both, lambda a, h, x, norm, first: a(h)),
        "pfeiffer": (lambda: Bottleneck(relu), both[1:], lambda a, h, x, norm, first: a(norm(h + x))),
        "parallel": (lambda: Bottleneck(relu), both[1:], lambda a, h, x, norm, first: 4 * a(x)),
        "compacter": (lambda: Compact(rule), both, lambda a, h, x, norm, first: a(h)),
        "fusion": (lambda: {"a": Bottleneck(relu), "b": Bottleneck(relu), "fusion": Fusion()}, both[1:], fused),
        "pals": (lambda: Pals(down, up), ("block",), lambda a, h, x, norm, first: a(first)),
    }
    for name, (make, places, change) in cases.items():
        model, found = written_out(name, make, places, change)
        if name == "compacter":
            found["block_0.attention/rule/rule"] = rule
        if name == "pals":
            found |= {"block_0.block/projections/down_kernel": down, "block_0.block/projections/up_kernel": up}
        save(name, found, states(model))


if __name__ == "__main__":
    main()
