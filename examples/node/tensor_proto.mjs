// Reads one file of `test_data_set_0`: a TensorProto of ONNX, of which a bundle's vectors use four fields.
//
// An application feeds its own arrays and needs none of this. A protobuf library would be a second dependency for
// four fields, so they are read by hand.

// TensorProto.DataType -> type of an ort.Tensor, and the array that holds it.
const TYPES = {
  1: ['float32', Float32Array],
  2: ['uint8', Uint8Array],
  3: ['int8', Int8Array],
  6: ['int32', Int32Array],
  7: ['int64', BigInt64Array],
  9: ['bool', Uint8Array],
  10: ['float16', globalThis.Float16Array ?? Uint16Array], // as ort.Tensor wants it
  11: ['float64', Float64Array],
};

/** Yields `[field, value]`: a number for a varint, bytes for what has a length. */
function* fields(bytes) {
  let at = 0;
  const varint = () => {
    for (let value = 0, factor = 1; at < bytes.length; factor *= 128) {
      const byte = bytes[at++];
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
    throw new Error('the tensor ends within a number');
  };
  while (at < bytes.length) {
    const key = varint();
    const [field, wire, value] = [Math.floor(key / 8), key % 8, varint()];
    if (wire === 0) {
      yield [field, value];
    } else if (wire === 2 && value <= bytes.length - at) {
      yield [field, bytes.subarray(at, at + value)];
      at += value;
    } else {
      throw new Error('this is no tensor that is read here');
    }
  }
}

/** Returns `{name, type, data, dims}`, what `new ort.Tensor(type, data, dims)` takes. */
export function readTensor(bytes) {
  const dims = [];
  let name, dataType, raw;
  for (const [field, value] of fields(bytes)) {
    const number = typeof value === 'number';
    if (field === 1 && number) dims.push(value);
    else if (field === 2 && number) dataType = value;
    else if (field === 8 && !number) name = new TextDecoder().decode(value);
    else if (field === 9 && !number) raw = Uint8Array.from(value); // a copy: the bytes may begin where no number may
    else throw new Error(`a tensor with field ${field} is not read here`);
  }
  if (dataType === 16) throw new Error(`tensor ${name} is in bfloat16, which ONNX Runtime's JavaScript does not take`);
  if (!(dataType in TYPES)) throw new Error(`tensor ${name} has data type ${dataType}, which is not read here`);
  if (raw === undefined) throw new Error(`tensor ${name} has no raw_data`);
  const [type, ArrayType] = TYPES[dataType];
  return { name, type, data: new ArrayType(raw.buffer), dims };
}
