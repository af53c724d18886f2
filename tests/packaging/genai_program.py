"""Generate with onnxruntime-genai, where this package is not installed.

Arguments: a directory with ``genai_config.json``, the number of steps, and the tokens of a prompt. It prints the new
tokens as JSON.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import onnxruntime_genai as genai  # type: ignore[import-not-found,unused-ignore]

directory, steps, *prompt = sys.argv[1:]
model = genai.Model(directory)
parameters = genai.GeneratorParams(model)
parameters.set_search_options(do_sample=False, max_length=len(prompt) + int(steps))
generator = genai.Generator(model, parameters)
generator.append_tokens(np.array([list(map(int, prompt))], np.int32))
for _ in range(int(steps)):
    generator.generate_next_token()
print(json.dumps(list(map(int, generator.get_sequence(0)))[len(prompt) :]))
