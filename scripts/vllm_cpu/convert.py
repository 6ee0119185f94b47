"""Writes a GGUF file as the folder that vLLM reads: convert.py FILE.gguf FOLDER.

Run by the Python of vLLM's environment. transformers unpacks the weights (to float32), but refuses to save a model
that was read from GGUF; so the weights are written with safetensors, as bfloat16, beside the model's own config.
"""

import sys
from pathlib import Path

import torch
from gguf import GGUFReader
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging


def main() -> None:
    """Read argv, write the folder."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    logging.disable_progress_bar()
    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    weights = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        weights.pop("lm_head.weight", None)  # the same tensor as the embeddings
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})

    config = model.config
    del config.quantization_config
    config.dtype = torch.bfloat16
    config.save_pretrained(target)
    tokenizer = AutoTokenizer.from_pretrained(**where)
    tokenizer.chat_template = GGUFReader(str(source)).fields["tokenizer.chat_template"].contents()
    tokenizer.save_pretrained(target)
    ends = {"bos_token_id": config.bos_token_id, "eos_token_id": config.eos_token_id}
    GenerationConfig(**ends).save_pretrained(target)


if __name__ == "__main__":
    main()
