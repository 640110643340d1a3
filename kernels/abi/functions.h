// The numbers of functions that a kernel is told by: mirrored by functions.go.
#pragma once
#include "compiler.h"

// Functions of a window's first or last sample. Mirrors abi.Ends; 6 is whether there is one.
typedef u32 Ends;
const Ends kInstant = 0;     // the last sample
const Ends kNewest = 1;      // the last sample of a range
const Ends kOldest = 2;      // the first one
const Ends kNewestTime = 3;  // the time of the last, in seconds
const Ends kOldestTime = 4;
const Ends kNumber = 5;       // how many samples
const Ends kInstantTime = 7;  // the time of the last sample, in seconds

// Functions of pairs of neighbouring samples. Mirrors abi.Pairs.
typedef u32 Pairs;
const Pairs kLastRate = 0;        // of the last two samples, a counter's
const Pairs kLastDifference = 1;  // of the last two samples
const Pairs kChanges = 2;
const Pairs kResets = 3;

// Functions whose state takes one sample after the other. Mirrors abi.Statistic.
typedef u32 Statistic;
const Statistic kVariance = 0;
const Statistic kDeviation = 1;
const Statistic kSlope = 2;       // of the least-squares line
const Statistic kPrediction = 3;  // its value `param` seconds after the step
const Statistic kSmoothing = 4;   // by the factors `param` and `trend`
const Statistic kTimeOfMin = 5;   // the last, of equal ones
const Statistic kTimeOfMax = 6;

// Aggregations, of windows (the first four) and of groups. Mirrors abi.Operator.
typedef u32 Operator;
const Operator kSum = 0, kAvg = 1, kMin = 2, kMax = 3, kCount = 4, kGroup = 5, kStdDev = 6, kStdVar = 7;

// Functions of one value. Those from kEqual on compare. Mirrors abi.Map.
typedef u32 Map;
const Map kNegate = 0, kAbs = 1, kCeil = 2, kFloor = 3, kSign = 4, kRoot = 5, kRound = 6, kClamp = 7;
const Map kAdd = 8, kSubtract = 9, kSubtractFrom = 10, kMultiply = 11, kDivide = 12, kDivideInto = 13, kScale = 14;
const Map kEqual = 15, kUnequal = 16, kGreater = 17, kLess = 18, kAtLeast = 19, kAtMost = 20;
