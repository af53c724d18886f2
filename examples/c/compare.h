/* Compares an output with the stored one, as the bundle was judged. C and C++ share this file. */
#ifndef COMPARE_H
#define COMPARE_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef enum {
    OF_LARGEST,  /* amount times the largest stored number */
    CLASSIC,     /* amount, plus relative times each stored number: atol and rtol */
    RELATIVE_L2, /* amount times the L2 norm of the stored numbers */
    ULPS         /* amount units in the last place at the largest stored number */
} tolerance_kind;

/* How far an output may be from the stored one. The programs read it from the manifest or from their arguments. */
typedef struct {
    tolerance_kind kind;
    double amount, relative;
} tolerance;

/* TensorProto.DataType, whose numbers are those of ONNXTensorElementDataType. */
enum { FLOAT32 = 1, UINT8 = 2, INT8 = 3, INT32 = 6, INT64 = 7, BOOLEAN = 9, FLOAT16 = 10, FLOAT64 = 11, BFLOAT16 = 16 };

/* Returns the bytes of a number of a type; 0 for a type that is not compared here. */
static size_t number_size(int type) {
    switch (type) {
        case UINT8: case INT8: case BOOLEAN: return 1;
        case FLOAT16: case BFLOAT16: return 2;
        case FLOAT32: case INT32: return 4;
        case FLOAT64: case INT64: return 8;
        default: return 0;
    }
}

static double from_half(uint16_t bits) {
    const int sign = bits >> 15 ? -1 : 1, exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    if (exponent == 0x1f) return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

/* Returns a number of a tensor as a double; 64-bit integers above 2^53 are rounded. */
static double number_at(const void *data, int type, size_t index) {
    const unsigned char *const at = (const unsigned char *)data + index * number_size(type);
    float f32;
    double f64;
    int8_t i8;
    int32_t i32;
    int64_t i64;
    uint16_t bits;
    uint32_t wide;
    switch (type) {
        case FLOAT32: memcpy(&f32, at, sizeof f32); return f32;
        case FLOAT64: memcpy(&f64, at, sizeof f64); return f64;
        case FLOAT16: memcpy(&bits, at, sizeof bits); return from_half(bits);
        case BFLOAT16: /* the upper half of a float32 */
            memcpy(&bits, at, sizeof bits);
            wide = (uint32_t)bits << 16;
            memcpy(&f32, &wide, sizeof f32);
            return f32;
        case INT8: memcpy(&i8, at, sizeof i8); return i8;
        case INT32: memcpy(&i32, at, sizeof i32); return i32;
        case INT64: memcpy(&i64, at, sizeof i64); return (double)i64;
        default: return *at;
    }
}

/* Returns the distance of neighbouring numbers of a type at a size; 0 for integers, which must be equal. */
static double ulp(int type, double scale) {
    const int bits = type == FLOAT16 ? 10 : type == BFLOAT16 ? 7 : type == FLOAT32 ? 23 : type == FLOAT64 ? 52 : 0;
    return bits && scale > 0 && isfinite(scale) ? ldexp(1, ilogb(scale) - bits) : 0;
}

/* Prints how far an output is from the stored one. Returns whether that is near enough, which NaN never is. */
static int compare(const char *name, const void *have, const void *want, int type, size_t count, tolerance allowed) {
    double scale = 0, distance = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        const double stored = number_at(want, type, i), difference = number_at(have, type, i) - stored;
        if (!isnan(scale) && !(fabs(stored) <= scale)) scale = fabs(stored); /* a NaN is taken, and stays */
        distance += difference * difference;
        norm += stored * stored;
    }
    if (allowed.kind == RELATIVE_L2) {
        const double found = sqrt(distance), bound = allowed.amount * sqrt(norm);
        printf("%s: L2 norm of the difference %.3g, allowed %.3g\n", name, found, bound);
        return found <= bound && isfinite(bound);
    }
    double unit = 1;
    if (allowed.kind == OF_LARGEST) unit = scale;
    if (allowed.kind == ULPS) unit = ulp(type, scale);
    double largest = 0, bound = 0, excess = -INFINITY;
    int near_enough = 1;
    for (size_t i = 0; i < count; i++) {
        const double stored = number_at(want, type, i), difference = fabs(number_at(have, type, i) - stored);
        const double limit = allowed.amount * unit + allowed.relative * fabs(stored);
        if (!(difference <= limit && isfinite(limit))) near_enough = 0;
        if (isnan(excess) || difference - limit <= excess) continue;
        excess = difference - limit;
        largest = difference;
        bound = limit;
    }
    printf("%s: largest difference %.3g, allowed %.3g\n", name, largest, bound);
    return near_enough;
}
#endif
