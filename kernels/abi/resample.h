// What resample requests are told by: parts of the states of runs, and aggregates. Mirrored by
// resample.go.
#pragma once
#include "compiler.h"

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

// What is made of a state.
typedef u32 Aggregate;
const Aggregate kCountOf = 0;
const Aggregate kSumOf = 1;
const Aggregate kMeanOf = 2;
const Aggregate kMinOf = 3;
const Aggregate kMaxOf = 4;
const Aggregate kRangeOf = 5;
const Aggregate kDeviationOf = 6;
const Aggregate kVarianceOf = 7;
const Aggregate kFirstOf = 8;
const Aggregate kLastOf = 9;
const Aggregate kWeightedMeanOf = 10;
// What another kernel has found already, of the order of a run's values.
const Aggregate kFound = 11;
