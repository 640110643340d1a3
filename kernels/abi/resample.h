// What resample requests are told by: parts of the states of runs, and aggregates. Mirrored by
// resample.go.
#pragma once
#include "aggregates.h"

// A set of parts of a state, as aggregate.Parts has them.
typedef u32 Parts;
const Parts kCountPart = 1;
const Parts kSumPart = 2;
const Parts kMeanPart = 4;
const Parts kExtremesPart = 8;
const Parts kEndsPart = 16;
const Parts kSquaresPart = 32;
const Parts kWeightedPart = 64;
const Parts kValuesPart = 128;

// What another kernel has found already, of the order of a run's values.
const Aggregate kFound = 0xffffffff;
