// Runs a bundle in the browser, as it was verified: index.html?bundle=URL[&provider=webgpu][&profile][&tolerance=R]
//
// The page shows what the other examples print, and <html data-status> is their exit status. A profile goes to the
// console, which is where ONNX Runtime's WebAssembly writes it.

import { compare, sessionOptions } from '../node/bundle.mjs';
import { readTensor } from '../node/tensor_proto.mjs';

async function fetched(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response;
}

/** The test vectors of a kind, `input` or `output`, by name. */
async function vectors(ort, bundle, kind, count) {
  const tensors = {};
  for (let index = 0; index < count; index++) {
    const response = await fetched(`${bundle}/test_data_set_0/${kind}_${index}.pb`);
    const { name, type, data, dims } = readTensor(new Uint8Array(await response.arrayBuffer()));
    tensors[name] = new ort.Tensor(type, data, dims);
  }
  return tensors;
}

/** ONNX Runtime with WebAssembly alone, or with WebGPU beside it, which is a larger file. */
async function runtime(provider) {
  if (provider === 'wasm') return import('onnxruntime-web');
  if (provider !== 'webgpu') throw new Error(`provider ${provider} is neither wasm nor webgpu`);
  if (!(await navigator.gpu?.requestAdapter())) {
    throw new Error('this browser gives no WebGPU adapter: leave out &provider=webgpu to run on WebAssembly');
  }
  return import('onnxruntime-web/webgpu');
}

async function main(query, show) {
  const bundle = query.get('bundle');
  if (bundle === null) throw new Error('usage: index.html?bundle=URL[&provider=webgpu][&profile][&tolerance=R]');
  const manifest = await (await fetched(`${bundle}/manifest.json`)).json();
  const provider = query.get('provider') ?? 'wasm';
  const ort = await runtime(provider);
  const inputs = await vectors(ort, bundle, 'input', manifest.inputs.length);
  const expected = await vectors(ort, bundle, 'output', manifest.outputs.length);

  // Threads need a page that is isolated from other origins: two headers of the server.
  ort.env.wasm.numThreads = crossOriginIsolated ? navigator.hardwareConcurrency : 1;
  const weights = ['model.onnx.data'].filter((name) => name in manifest.files); // else they are in model.onnx
  const session = await ort.InferenceSession.create(`${bundle}/model.onnx`, {
    ...sessionOptions(manifest),
    externalData: weights.map((path) => ({ path, data: `${bundle}/${path}` })),
    executionProviders: [provider],
    enableProfiling: query.has('profile'),
  });
  const actual = await session.run(inputs);
  if (query.has('profile')) session.endProfiling();

  const tolerance = query.has('tolerance') ? Number(query.get('tolerance')) : undefined;
  const found = Object.keys(expected).map((name) => compare(name, actual[name], expected[name], manifest, tolerance));
  show(found.map(({ line }) => line).join('\n'));
  return found.every(({ near }) => near) ? 0 : 1;
}

const show = (text) => {
  document.getElementById('result').textContent = text;
};
const status = await main(new URLSearchParams(location.search), show).catch((error) => {
  show(error.message.split('\n')[0]);
  return 2;
});
document.documentElement.dataset.status = status;
