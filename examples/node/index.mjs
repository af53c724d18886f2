// Runs a bundle as it was verified and timed.
//
// node index.mjs BUNDLE [--profile PREFIX] [--tolerance R]

import { readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import ort from 'onnxruntime-node';

import { compare, sessionOptions } from './bundle.mjs';
import { readTensor } from './tensor_proto.mjs';

/** The test vectors of a kind, `input` or `output`, by name. */
async function vectors(bundle, kind, count) {
  const tensors = {};
  for (let index = 0; index < count; index++) {
    const file = join(bundle, 'test_data_set_0', `${kind}_${index}.pb`);
    const { name, type, data, dims } = readTensor(await readFile(file));
    tensors[name] = new ort.Tensor(type, data, dims);
  }
  return tensors;
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { profile: { type: 'string' }, tolerance: { type: 'string' } },
  });
  if (positionals.length !== 1) throw new Error('usage: node index.mjs BUNDLE [--profile PREFIX] [--tolerance R]');
  const [bundle] = positionals;
  const manifest = JSON.parse(await readFile(join(bundle, 'manifest.json'), 'utf8'));
  const inputs = await vectors(bundle, 'input', manifest.inputs.length);
  const expected = await vectors(bundle, 'output', manifest.outputs.length);

  const session = await ort.InferenceSession.create(join(bundle, 'model.onnx'), {
    ...sessionOptions(manifest),
    executionProviders: ['cpu'],
    intraOpNumThreads: availableParallelism(), // 0 would mean every core of the machine
    ...(values.profile === undefined ? {} : { enableProfiling: true, profileFilePrefix: values.profile }),
  });
  const actual = await session.run(inputs);
  if (values.profile !== undefined) session.endProfiling();

  const tolerance = values.tolerance === undefined ? undefined : Number(values.tolerance);
  const found = Object.keys(expected).map((name) =>
    compare(name, actual[name], expected[name], manifest, tolerance),
  );
  for (const { line } of found) console.log(line);
  return found.every(({ near }) => near) ? 0 : 1;
}

process.exitCode = await main().catch((error) => {
  console.error(error.message.split('\n')[0]);
  return 2;
});
