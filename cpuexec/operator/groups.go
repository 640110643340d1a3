package operator

import (
	"context"
	"runtime"
	"slices"
	"unsafe"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// Groups assigns series to the groups of an aggregation.
type Groups struct {
	Of     []int32 // group of each series
	Labels []labels.Labels
	Sizes  []int32 // series in each
}

// SizeBytes implements selection.Sized.
func (g Groups) SizeBytes() int64 {
	size := 4 * int64(len(g.Of)+len(g.Sizes))
	for _, l := range g.Labels {
		size += int64(unsafe.Sizeof(l)) + int64(l.ByteSize())
	}
	return size
}

// Group computes the group of each of n series whose labels are given by at,
// which is called from several goroutines at once. Once ctx has ended they are of no use.
func Group(ctx context.Context, a *plan.Aggregate, n int, at func(int) labels.Labels) Groups {
	g := Groups{Of: make([]int32, n)}
	keys := make([]uint64, n)
	const block = 4096
	parallel.While(runtime.GOMAXPROCS(0), (n+block-1)/block, func(_, k int) bool {
		buf := make([]byte, 0, 1024)
		for i := k * block; i < min(n, (k+1)*block); i++ {
			keys[i], buf = GroupingKey(a, at(i), buf)
		}
		return ctx.Err() == nil
	})
	watch := parallel.Watch{Ctx: ctx}
	defer watch.Leave()
	index := map[uint64]int32{}
	var b labels.ScratchBuilder
	for i, key := range keys {
		k, ok := index[key]
		if !ok {
			k = int32(len(g.Labels))
			index[key] = k
			g.Labels, g.Sizes = append(g.Labels, GroupLabels(a, &b, at(i))), append(g.Sizes, 0)
		}
		g.Of[i] = k
		g.Sizes[k]++
		if watch.Err() != nil {
			break
		}
	}
	return g
}

// GroupingKey is the number by which Prometheus's engine tells groups apart.
// buf is scratch memory; it is returned for the next call.
func GroupingKey(a *plan.Aggregate, l labels.Labels, buf []byte) (uint64, []byte) {
	switch {
	case a.Without:
		return l.HashWithoutLabels(buf, a.Grouping...)
	case len(a.Grouping) > 0:
		return l.HashForLabels(buf, a.Grouping...)
	}
	return 0, buf
}

// GroupLabels are the labels of the group that a series with labels l is in.
func GroupLabels(a *plan.Aggregate, b *labels.ScratchBuilder, l labels.Labels) labels.Labels {
	b.Reset()
	l.Range(func(one labels.Label) {
		_, listed := slices.BinarySearch(a.Grouping, one.Name)
		if listed != a.Without && !(a.Without && one.Name == model.MetricNameLabel) {
			b.Add(one.Name, one.Value)
		}
	})
	return b.Labels()
}
