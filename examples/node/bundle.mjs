// What running a bundle takes in JavaScript, on Node and in a browser.

// The manifest has ONNX Runtime's own names; its JavaScript API calls one of them otherwise.
const LEVELS = { disable_all: 'disabled', basic: 'basic', extended: 'extended', all: 'all' };

/** The bundle's options, so that the nodes run that were measured. */
export function sessionOptions(manifest) {
  // The nodes of native kernels carry their bodies, which run here.
  if (!['CPUExecutionProvider', 'FfnExecutionProvider'].includes(manifest.provider)) {
    throw new Error(`it was verified on ${manifest.provider}, this program has the CPU's`);
  }
  const { graph_optimization_level: level, config_entries: entries } = manifest.session_options;
  if (!(level in LEVELS)) throw new Error(`unknown graph_optimization_level ${level}`);
  if (!entries) throw new Error('the manifest has no config_entries');
  // Keys keep their dots here; nested objects, {optimization: {...}}, mean the same.
  return { graphOptimizationLevel: LEVELS[level], extra: { ...entries }, logSeverityLevel: 3 };
}

/**
 * Returns how far an output is from the stored one as a line, and whether that is near enough, which NaN never is.
 *
 * Without a tolerance it is judged as the bundle was: by its declared closeness or budget, else in units in the last
 * place (ulp) at the largest stored number.
 */
export function compare(name, actual, expected, manifest, tolerance) {
  if (actual.type !== expected.type || String(actual.dims) !== String(expected.dims)) {
    const [have, want] = [actual, expected].map(({ type, dims }) => `${type}[${dims}]`);
    return { line: `${name}: ${have}, expected ${want}`, near: false };
  }
  const [found, stored] = [numbers(actual), numbers(expected)];
  const differences = found.map((value, i) => Math.abs(value - stored[i]));
  const { closeness, relative_l2: everywhere, drawn_l2: drawn, floor_ulps: floor } = manifest.tolerances;
  const classic = closeness[name] ?? closeness['*'];
  const budget = drawn ?? everywhere;
  const scale = stored.reduce((most, value) => Math.max(most, Math.abs(value)), 0); // Math.max hands a NaN on

  let bounds;
  if (tolerance !== undefined) {
    bounds = stored.map(() => tolerance * scale);
  } else if (classic !== undefined) {
    bounds = stored.map((value) => classic.atol + classic.rtol * Math.abs(value));
  } else if (budget != null) {
    const [distance, allowed] = [norm(differences), budget * norm(stored)];
    const line = `${name}: L2 norm of the difference ${distance.toExponential(2)}, allowed ${allowed.toExponential(2)}`;
    return { line, near: distance <= allowed && allowed < Infinity };
  } else {
    const judged = Object.values(manifest.parity.runtimes).map(({ allowed_ulps: allowed }) => allowed ?? 0);
    const bound = Math.max(floor, ...judged) * ulp(expected.type, scale);
    bounds = stored.map(() => bound);
  }
  let worst = 0;
  differences.forEach((difference, i) => {
    if (Number.isNaN(difference) || difference - bounds[i] > differences[worst] - bounds[worst]) worst = i;
  });
  const [largest, allowed] = [differences[worst] ?? 0, bounds[worst] ?? 0];
  return {
    line: `${name}: largest difference ${largest.toExponential(2)}, allowed ${allowed.toExponential(2)}`,
    near: differences.every((difference, i) => difference <= bounds[i] && bounds[i] < Infinity),
  };
}

const FRACTION_BITS = { float16: 10, float32: 23, float64: 52 };

/** The distance of neighbouring numbers of a type at a size; 0 for integers, which must be equal. */
function ulp(type, scale) {
  return scale === 0 || !(type in FRACTION_BITS) ? 0 : 2 ** (Math.floor(Math.log2(scale)) - FRACTION_BITS[type]);
}

function norm(values) {
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
}

/** The numbers of a tensor. Where JavaScript has no Float16Array, float16 comes as 16 bits. */
function numbers({ type, data }) {
  const read = type === 'float16' && data instanceof Uint16Array ? fromHalf : Number;
  return Array.from(data, (value) => read(value));
}

function fromHalf(bits) {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 0x1f, bits & 0x3ff];
  if (exponent === 0x1f) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
}
