/* Reads one file of test_data_set_0: a TensorProto of ONNX, of which a bundle's vectors use four fields.
 *
 * An application feeds its own arrays and needs none of this. A protobuf library would bring a code generator
 * and a copy of onnx.proto3 for these four fields, so they are read by hand. C and C++ share this file. */
#ifndef TENSOR_PROTO_H
#define TENSOR_PROTO_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSOR_MAX_RANK = 16, TENSOR_MAX_NAME = 255 };

typedef struct {
    char name[TENSOR_MAX_NAME + 1];
    int64_t dims[TENSOR_MAX_RANK];
    size_t rank;
    int32_t data_type;   /* TensorProto.DataType; ONNXTensorElementDataType has the same numbers */
    unsigned char *data; /* the numbers, little-endian: release with free() */
    size_t size;         /* of data, in bytes */
} tensor_proto;

/* Reads a base-128 varint at *at, and moves *at behind it. Returns 0 where the bytes end within it. */
static int tensor_proto_varint(const unsigned char **at, const unsigned char *end, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        const unsigned char byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return 1;
    }
    return 0;
}

/* Takes the fields dims (1), data_type (2), name (8) and raw_data (9) out of the bytes. Returns 0 where they are
 * not well formed, or another field holds something. */
static int tensor_proto_parse(tensor_proto *tensor, const unsigned char *at, const unsigned char *end) {
    enum { VARINT = 0, BYTES = 2 };
    while (at < end) {
        uint64_t key, value;
        if (!tensor_proto_varint(&at, end, &key) || !tensor_proto_varint(&at, end, &value)) return 0;
        const unsigned field = (unsigned)(key >> 3), wire = (unsigned)(key & 7);
        if (wire == VARINT) {
            if (field == 1 && tensor->rank < TENSOR_MAX_RANK)
                tensor->dims[tensor->rank++] = (int64_t)value;
            else if (field == 2)
                tensor->data_type = (int32_t)value;
            else
                return 0;
            continue;
        }
        if (wire != BYTES || value > (uint64_t)(end - at)) return 0;
        if (field == 8 && value <= TENSOR_MAX_NAME) {
            memcpy(tensor->name, at, (size_t)value);
        } else if (field == 9 && tensor->data == NULL) {
            tensor->size = (size_t)value;
            tensor->data = (unsigned char *)malloc(tensor->size + 1); /* never of no bytes: that may be NULL */
            if (tensor->data == NULL) return 0;
            memcpy(tensor->data, at, tensor->size);
        } else {
            return 0;
        }
        at += value;
    }
    return tensor->data != NULL;
}

/* Reads a file. Returns 0 where it cannot be read or is no such tensor; nothing needs to be released then. */
static int tensor_proto_read(const char *path, tensor_proto *tensor) {
    memset(tensor, 0, sizeof *tensor);
    FILE *const file = fopen(path, "rb");
    if (file == NULL) return 0;
    long size = -1;
    if (fseek(file, 0, SEEK_END) == 0) size = ftell(file);
    rewind(file);
    unsigned char *const bytes = size < 0 ? NULL : (unsigned char *)malloc((size_t)size + 1);
    const int whole = bytes != NULL && fread(bytes, 1, (size_t)size, file) == (size_t)size;
    fclose(file);
    const int good = whole && tensor_proto_parse(tensor, bytes, bytes + size);
    free(bytes);
    if (!good) free(tensor->data);
    return good;
}
#endif
