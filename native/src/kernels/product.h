// The grid of tiles of a product, and one tile of it from end to end.
//
//     many tokens                          few tokens
//       panel 0   panel 1   panel 2          panels 0 .. 3      panels 4 .. 7
//     +---------+---------+---------+      +------------------+------------------+
//     | task 0  | task 2  | task 4  |      |      task 0      |      task 1      |
//     +---------+---------+---------+      +------------------+------------------+
//     | task 1  | task 3  | task 5  |
//     +---------+---------+---------+
//
// Tasks run down a panel first, so that one thread reads it again from a near cache.
//
// Weights of a whole model come from memory, which is slow to answer but fast to deliver. Two ways fetch them in time:
//
//     far     each task fetches its share of the next panels into the second-level cache
//     near    each step fetches the lines a little way down its own panels into the nearest cache
//
// A core keeps ten to sixteen requests of the program under way, which limits `far`. Processors also fetch by
// themselves what follows in memory. Where a tile has several panels, those of Intel and Zen 5 then follow each panel
// of `near` (decisions 39 and 42). Where it has one, `far` goes through the next panel in up to four streams, of which
// Intel's follow each (decision 41).
#pragma once

#include <algorithm>

#include "epilogue.h"
#include "instruction_sets.h"
#include "norm.h"

namespace {

FFN_INLINE int panels_of_tile(int tokens) { return tokens <= kRows4 ? 4 : tokens <= kRows2 ? 2 : 1; }
FFN_INLINE int panels_of_task(int tokens) { return kTilesOfTask * panels_of_tile(tokens); }
FFN_INLINE int divided_up(int a, int b) { return (a + b - 1) / b; }

FFN_INLINE bool fetches_near(int panels) { return panels > 1 && ffn::fetching().near > 0; }

int tasks(const ffn::Product& p) {
  return divided_up(p.end_panel - p.first_panel, panels_of_task(p.tokens)) * divided_up(p.tokens, kRows1);
}

FFN_INLINE Scales scales_of(const ffn::Product& p, int token, int panel) {
  if (!kGrouped) return {};
  const ffn::Weights& w = *p.weights;
  const long size = w.groups * kPanel, group = p.first_unit / kChunk, at = panel * size + group * kPanel;
  return {p.scales + token * w.groups + group, w.groups, w.scales.data() + at, w.sums.data() + at, size};
}

// What belongs to the columns of panels. Without it, each group of K waits for its scales.
FFN_INLINE void fetch_columns(const ffn::Weights& w, int panel, int panels) {
  const long from = panel * kPanel, end = (panel + panels < w.panels ? panel + panels : w.panels) * kPanel;
  const long bytes = (end - from) * 4;
  fetch_lines<0, 2>(w.bias.data() + from, bytes);
  fetch_lines<0, 2>(w.scales.data() + from * w.groups, bytes * w.groups);
  fetch_lines<0, 2>(w.sums.data() + from * w.groups, bytes * w.groups);
}

// What a tile is written to, and the residual that is added to it, while it is multiplied. The float32 that 8-bit
// integers are made of is near already: a block of it fits the second-level cache.
FFN_INLINE void fetch_results(const ffn::Product& p, long first, int rows, int panel, int panels) {
  if (kGrouped && p.as_units) return;
  const long width = p.weights->gated ? kPanel / 2 : kPanel, bytes = Dot::kNarrow && p.as_units ? 2 : 4;
  const long column = panel * width, count = panels * width;
  for (long row = first; row < first + rows; row++) {
    fetch_to_write(static_cast<const char*>(p.to) + (row * p.to_stride + column) * bytes, count * bytes);
    if (p.residual) fetch_to_read(p.residual + row * p.weights->columns + column, count);
  }
}

template <class D = Dot>
void convert(const float* from, const float* factors, int columns, int32_t* to, long units, ffn::RowScale* scales) {
  if constexpr (D::kElements == 4) {
    D::convert(from, factors, columns, to, units, kChunk, scales);
  } else {
    D::convert(from, columns, to, units);
  }
}

constexpr int kLinesOfPanel = kUnroll * kPanel / kUnitsOfLine;  // for each kUnroll units

constexpr long kDeep = 3072 / Dot::kWords, kLongestStretch = 1024 / Dot::kWords;  // units
constexpr long kWhole = 128;                                                      // a stretch is a multiple of it
static_assert(kWhole % kUnroll == 0 && (kChunk > kDeep || kWhole % kChunk == 0), "a stretch ends where a chunk does");

// Few tokens, whose tiles have several panels, read each weight once: stretches would keep nothing near for them.
long stretch(int tokens, long units) {
  if (units <= kDeep || panels_of_tile(tokens) > 1) return units;
  const long count = (units + kLongestStretch - 1) / kLongestStretch, least = (units + count - 1) / count;
  return (least + kWhole - 1) / kWhole * kWhole;
}

// What is multiplied after some panels, of which it is given the first unit: the panels beside them, or the first of
// the next stretch or phase. Null after the last.
FFN_INLINE const int32_t* after(const ffn::Product& p, int panel) {
  const ffn::Weights& w = *p.weights;
  long unit = p.first_unit;
  if (panel == p.end_panel) {
    unit = p.end_unit < w.units ? p.end_unit : 0;
    if (unit) panel = p.first_panel;
  }
  return panel < w.panels ? w.data.get() + (panel * w.units + unit) * kPanel : nullptr;
}

// Streams in which a tile of one panel fetches its share of the next one: not more than the share has lines.
FFN_INLINE int far_streams(int down) {
  constexpr int kLinesOfFourUnits = 4 * kPanel / kUnitsOfLine;
  const int most = std::min(ffn::fetching().streams, kLinesOfFourUnits / down);
  return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

FFN_INLINE Ahead fetch_far(const int32_t* panels, int count, long panel_size, long units, int part, int down,
                           int streams) {
  if (count > 1) return {panels, kLinesOfPanel, panel_size};
  const long lines = divided_up(kLinesOfPanel, streams * down), steps = units / kUnroll;
  return {panels + part * lines * steps * kUnitsOfLine, lines, units * kPanel / streams};
}

FFN_INLINE Multiply pick(int rows, int panels, int streams) {
  if (panels == 4) return pick<4, kRows4>(rows);
  if (panels == 2) return pick<2, kRows2>(rows);
  return streams == 4 ? pick<1, kRows1, 4>(rows) : streams == 2 ? pick<1, kRows1, 2>(rows) : pick<1, kRows1>(rows);
}

void run(const ffn::Product& p, int task) {
  const ffn::Weights& w = *p.weights;
  const int wide = panels_of_task(p.tokens), down = divided_up(p.tokens, kRows1);
  const int group = task / down, part = task % down;
  const int first = p.tokens * part / down, rows = p.tokens * (part + 1) / down - first;
  const int from = p.first_panel + group * wide, end = p.end_panel - from < wide ? p.end_panel : from + wide;
  const long panel_size = w.units * kPanel, units = p.end_unit - p.first_unit;
  const int32_t* a = p.a + first * p.a_stride + p.first_unit * Dot::kWords;
  const int streams = far_streams(down);

  alignas(64) float of_task[kTile];
  Tiles tiles;
  // At the right edge, panels that fill no tile are multiplied one at a time.
  for (int panel = from, at_once = panels_of_tile(p.tokens); panel < end; panel += at_once) {
    if (end - panel < at_once) at_once = 1;
    const Multiply multiply = pick(rows, at_once, streams);
    tiles.shape(rows, at_once);
    if (part == 0) fetch_columns(w, panel + at_once, at_once);
    const bool last = p.end_unit == w.units;
    if (last) fetch_results(p, first, rows, panel, at_once);
    const int32_t* b = w.data.get() + panel * panel_size + p.first_unit * kPanel;
    Source source{a, p.a_stride, b, panel_size, units, {}, scales_of(p, first, panel)};
    if (fetches_near(at_once)) {
      source.ahead = {b + near_units(), kLinesOfPanel, panel_size, true};
    } else if (const int32_t* next = after(p, panel + at_once)) {
      source.ahead = fetch_far(next, at_once, panel_size, units, part, down, streams);
    }
    float* tile = p.sums ? p.sums + ((panel - p.first_panel) * p.tokens + first * at_once) * kPanel : of_task;
    multiply_all(multiply, source, p.first_unit == 0, tile, at_once * kPanel);
    if (last) finish(p, tile, first, rows, panel, at_once);
  }
}

constexpr ffn::Kernels kernels(const char* name, int block = Dot::kBlock, bool pairs_in_16_bits = false) {
  const ffn::Format format{Dot::kPrecision, kLanes, kPanel,      Dot::kElements,  kUnroll,
                           block,           kChunk, Dot::kWords, pairs_in_16_bits};
  return {name, format, &convert<>, &norm, &stretch, &tasks, &run};
}

}  // namespace
