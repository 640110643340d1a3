// Package gpuexec evaluates aggregations over windows on NVIDIA GPUs, and finds
// out what the devices of a machine can do.
//
// A job goes through the device in batches of series, which are copied, decoded,
// windowed and added to the aggregates on several streams, so that one batch is
// copied while another is computed.
package gpuexec

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels"
)

// Kernels holds the kernels loaded on one device.
type Kernels struct {
	modules                       []cuda.Module
	decode, fold, groupSum, check cuda.Function

	decodeSeries, decodeMixed, stepReads             cuda.Function
	groupFold, foldSquares, groupResult              cuda.Function
	groupRank, groupQuantile, mapValues, seriesRows  cuda.Function
	windowEnds, windowAll, windowPanes, windowJoin   cuda.Function
	windowRate, windowPairs, windowFold, windowOrder cuda.Function

	fusedAll, fusedEnds, fusedRate fusedKernel
}

// LoadKernels compiles and loads all kernels, beside each other. The driver keeps what it
// compiled, so only the first start on a machine takes more than some ms.
func LoadKernels(dev *cuda.Device) (*Kernels, error) {
	k := &Kernels{}
	all := map[string]*cuda.Function{
		kernels.DecodeXOR: &k.decode,
		kernels.FoldXOR:   &k.fold,
		kernels.GroupSum:  &k.groupSum,
		kernels.Check:     &k.check,

		kernels.DecodeSeries: &k.decodeSeries,
		kernels.DecodeMixed:  &k.decodeMixed,
		kernels.WindowEnds:   &k.windowEnds,
		kernels.WindowAll:    &k.windowAll,
		kernels.WindowPanes:  &k.windowPanes,
		kernels.WindowJoin:   &k.windowJoin,
		kernels.WindowRate:   &k.windowRate,
		kernels.WindowPairs:  &k.windowPairs,
		kernels.WindowFold:   &k.windowFold,
		kernels.WindowOrder:  &k.windowOrder,
		kernels.StepReads:    &k.stepReads,

		kernels.FusedAll:                 &k.fusedAll.plain,
		kernels.FusedEnds:                &k.fusedEnds.plain,
		kernels.FusedRate:                &k.fusedRate.plain,
		kernels.Mixed(kernels.FusedAll):  &k.fusedAll.mixed,
		kernels.Mixed(kernels.FusedEnds): &k.fusedEnds.mixed,
		kernels.Mixed(kernels.FusedRate): &k.fusedRate.mixed,

		kernels.GroupFold:   &k.groupFold,
		kernels.FoldSquares: &k.foldSquares,
		kernels.GroupResult: &k.groupResult,
		kernels.GroupRank:   &k.groupRank,
		kernels.Quantile:    &k.groupQuantile,
		kernels.MapValues:   &k.mapValues,
		kernels.SeriesRows:  &k.seriesRows,
	}
	names := slices.Sorted(maps.Keys(all))
	modules, errs := make([]cuda.Module, len(names)), make([]error, len(names))
	parallel.For(len(names), func(i int) {
		errs[i] = dev.Do(func(c *cuda.Context) (err error) {
			if modules[i], err = c.Load(kernels.PTX(names[i])); err != nil {
				return fmt.Errorf("kernel %s: %w", names[i], err)
			}
			*all[names[i]], err = c.Function(modules[i], names[i])
			return err
		})
	})
	k.modules = slices.DeleteFunc(modules, func(m cuda.Module) bool { return m == 0 })
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, dev.Do(k.Unload))
	}
	return k, nil
}

// Unload gives the kernels back.
func (k *Kernels) Unload(c *cuda.Context) error {
	var errs []error
	for _, m := range k.modules {
		errs = append(errs, c.Unload(m))
	}
	return errors.Join(errs...)
}

// Chunks are encoded chunks in device memory.
type Chunks struct {
	Slab  cuda.Pointer // their bytes
	Refs  cuda.Pointer // a kernels.ChunkRef each
	Count uint32
}

// Columns are decoded chunks in device memory, laid out by kernels.Tiles.
type Columns struct {
	Rows   cuda.Pointer // uint64 a tile
	Times  cuda.Pointer // int64 a place, ms
	Values cuda.Pointer // float64 a place
}

// Decode puts decoding of chunks to columns on a stream. status gets a
// kernels.Status a chunk.
func (k *Kernels) Decode(c *cuda.Context, s cuda.Stream, in Chunks, out Columns, status cuda.Pointer) error {
	return c.Launch(k.decode, blocks(in.Count, kernels.DecodeBlock), cuda.Size{X: kernels.DecodeBlock}, 0, s,
		in.Slab, in.Refs, in.Count, out.Rows, out.Times, out.Values, status)
}

// Fold puts decoding of chunks to a kernels.Fold each on a stream.
func (k *Kernels) Fold(c *cuda.Context, s cuda.Stream, in Chunks, folds, status cuda.Pointer) error {
	return c.Launch(k.fold, blocks(in.Count, kernels.DecodeBlock), cuda.Size{X: kernels.DecodeBlock}, 0, s,
		in.Slab, in.Refs, in.Count, folds, status)
}

// Grid is a matrix of series by steps in device memory, with a bit for each
// place that says whether there is a value. A row of bits begins at a new uint32.
type Grid struct {
	Values  cuda.Pointer // float64, row by row
	Present cuda.Pointer // uint32, row by row
	Steps   uint32
}

// Groups say in device memory which series belong together: those of group g
// are Members[First[g]] to Members[First[g+1]-1], all uint32.
type Groups struct {
	Members, First cuda.Pointer
	Count          uint32
}

// maxGridY is the most blocks that a grid has in its second dimension. A test
// lowers it.
var maxGridY uint32 = 65535

// GroupSum puts adding the series of each group on a stream. sums gets a float64
// and counts a uint32 for each group and step.
func (k *Kernels) GroupSum(c *cuda.Context, s cuda.Stream, in Grid, groups Groups, sums, counts cuda.Pointer) error {
	grid := blocks(in.Steps, kernels.GroupSumSteps)
	grid.Y = min(groups.Count, maxGridY)
	return c.Launch(k.groupSum, grid, cuda.Size{X: kernels.GroupSumSteps, Y: kernels.GroupSumParts}, 0, s,
		in.Values, in.Present, groups.Members, groups.First, groups.Count, in.Steps, sums, counts)
}

// Check puts adding count numbers (uint32) on a stream. sums gets a uint32 for
// each kernels.CheckBlock of them.
func (k *Kernels) Check(c *cuda.Context, s cuda.Stream, numbers cuda.Pointer, count uint32, sums cuda.Pointer) error {
	return c.Launch(k.check, blocks(count, kernels.CheckBlock), cuda.Size{X: kernels.CheckBlock}, 0, s, numbers, count, sums)
}

// blocks is the grid of one thread an item.
func blocks(items, threads uint32) cuda.Size {
	return cuda.Size{X: (items + threads - 1) / threads}
}
