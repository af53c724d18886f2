// What running a bundle takes in JavaScript, on Node and in a browser.

// The manifest has ONNX Runtime's own names; its JavaScript API calls one of them otherwise.
const LEVELS = { disable_all: 'disabled', basic: 'basic', extended: 'extended', all: 'all' };

/** The bundle's options, so that the nodes run that were measured. */
export function sessionOptions(manifest) {
  if (manifest.provider !== 'CPUExecutionProvider') {
    throw new Error(`it was verified on ${manifest.provider}, this program has the CPU's`);
  }
  const { graph_optimization_level: level, config_entries: entries } = manifest.session_options;
  if (!(level in LEVELS)) throw new Error(`unknown graph_optimization_level ${level}`);
  if (!entries) throw new Error('the manifest has no config_entries');
  // Keys keep their dots here; nested objects, {optimization: {...}}, mean the same.
  return { graphOptimizationLevel: LEVELS[level], extra: { ...entries }, logSeverityLevel: 3 };
}

/** Returns how far an output is from the stored one as a line, and whether that is near enough, which NaN never is. */
export function compare(name, actual, expected, tolerance) {
  if (actual.type !== expected.type || String(actual.dims) !== String(expected.dims)) {
    const [have, want] = [actual, expected].map(({ type, dims }) => `${type}[${dims}]`);
    return { line: `${name}: ${have}, expected ${want}`, near: false };
  }
  let [largest, scale] = [0, 0];
  for (let i = 0; i < expected.data.length; i++) {
    const value = Number(expected.data[i]);
    largest = Math.max(largest, Math.abs(Number(actual.data[i]) - value)); // Math.max hands a NaN on
    scale = Math.max(scale, Math.abs(value));
  }
  const allowed = tolerance * scale;
  return {
    line: `${name}: largest difference ${largest.toExponential(2)}, allowed ${allowed.toExponential(2)}`,
    near: largest <= allowed && allowed < Infinity,
  };
}
