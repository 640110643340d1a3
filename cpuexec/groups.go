package cpuexec

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/schema"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// groups assigns series to the groups of an aggregation.
type groups struct {
	of     []int32 // group of each series
	labels []labels.Labels
	size   int64 // bytes
}

// SizeBytes implements selection.Sized.
func (g groups) SizeBytes() int64 { return g.size }

// group computes the group of each of n series whose labels are given by at,
// which is called from several goroutines at once.
func group(a *plan.Aggregate, n int, at func(int) labels.Labels) groups {
	g := groups{of: make([]int32, n)}
	keys := make([]uint64, n)
	const block = 4096
	parallel.For((n+block-1)/block, func(k int) {
		buf := make([]byte, 0, 1024)
		for i := k * block; i < min(n, (k+1)*block); i++ {
			keys[i], buf = groupingKey(a, at(i), buf)
		}
	})
	index := map[uint64]int32{}
	b := labels.NewBuilder(labels.EmptyLabels())
	for i, key := range keys {
		k, ok := index[key]
		if !ok {
			k = int32(len(g.labels))
			index[key] = k
			g.labels = append(g.labels, groupLabels(a, b, at(i)))
		}
		g.of[i] = k
	}
	g.size = 4 * int64(n)
	for _, l := range g.labels {
		g.size += selection.LabelBytes(l)
	}
	return g
}

// groupingKey is the number by which Prometheus's engine tells groups apart.
// buf is scratch memory; it is returned for the next call.
func groupingKey(a *plan.Aggregate, l labels.Labels, buf []byte) (uint64, []byte) {
	switch {
	case a.Without:
		return l.HashWithoutLabels(buf, a.Grouping...)
	case len(a.Grouping) > 0:
		return l.HashForLabels(buf, a.Grouping...)
	}
	return 0, buf
}

func groupLabels(a *plan.Aggregate, b *labels.Builder, l labels.Labels) labels.Labels {
	switch {
	case a.Without:
		b.Reset(l)
		b.Del(a.Grouping...)
		b.Del(model.MetricNameLabel)
		return b.Labels()
	case len(a.Grouping) > 0:
		b.Reset(l)
		b.Keep(a.Grouping...)
		return b.Labels()
	}
	return labels.EmptyLabels()
}

// namesMatter reports whether the labels that a range function drops (metric
// name, type and unit) can show in the groups of a.
func namesMatter(a *plan.Aggregate) bool {
	return a.Without || slices.ContainsFunc(a.Grouping, schema.IsMetadataLabel)
}

// looksLikeCounter reports whether a metric's name ends as counters' names do.
func looksLikeCounter(name string) bool {
	return strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_sum") ||
		strings.HasSuffix(name, "_count") || strings.HasSuffix(name, "_bucket")
}

// dropNames removes what a range function drops: metric name, type and unit.
func dropNames(l labels.Labels) labels.Labels { return l.DropReserved(schema.IsMetadataLabel) }

// unequal is how much more than its share, in percent, a core may get for its groups
// to be left to it.
const unequal = 25

// shared returns the series from the given one on by group, the groups with the most
// series first; and nil if so many workers, each of which takes the next group when it
// is done with one, would not be done at about the same time.
func (g *groups) shared(from, workers int) [][]int32 {
	sizes := make([]int, len(g.labels))
	for _, k := range g.of[from:] {
		sizes[k]++
	}
	members, room := make([][]int32, len(sizes)), make([]int32, len(g.of)-from)
	for k, n := range sizes {
		members[k], room = room[:0:n], room[n:]
	}
	for i, k := range g.of[from:] {
		members[k] = append(members[k], int32(from+i))
	}
	slices.SortStableFunc(members, func(x, y []int32) int { return cmp.Compare(len(y), len(x)) })
	loads := make([]int, workers)
	for _, m := range members {
		least := 0
		for k := range loads {
			if loads[k] < loads[least] {
				least = k
			}
		}
		loads[least] += len(m)
	}
	if share := (len(g.of) - from + workers - 1) / workers; slices.Max(loads) > share+share*unequal/100 {
		return nil
	}
	return members
}
