package brokenstore

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/prompb"
)

// seriesKinds are the kinds whose series or labels are broken.
var seriesKinds = []Kind{
	altered("series of another name", "does not match", relabelled("__name__", "another_total")),
	altered("series of another label", "does not match", relabelled("job", "another")),
	altered("series without labels", "does not match", func(x *exchange) { x.series[0].Labels = nil }),
	altered("an empty metric name", "the metric name is empty", relabelled("__name__", "")),
	altered("a label twice", "appears twice", func(x *exchange) {
		ls := &x.series[0].Labels
		*ls = append(*ls, prompb.Label{Name: "job", Value: "other"})
	}),
	altered("labels that are not sorted", "labels are not sorted", func(x *exchange) { slices.Reverse(x.series[0].Labels) }),
	altered("a label without a name", "a label has no name", func(x *exchange) {
		x.series[0].Labels = slices.Insert(x.series[0].Labels, 0, prompb.Label{Value: "x"})
	}),
	altered("a label's name that is not UTF-8", "is not valid UTF-8", func(x *exchange) {
		x.series[0].Labels = append(x.series[0].Labels, prompb.Label{Name: "z\xff", Value: "x"})
	}),
	altered("a label's value that is not UTF-8", "is not valid UTF-8", relabelled("instance", "\xff")),
	altered("a label of 17 MB", "exceeds the limit", relabelled("instance", strings.Repeat("x", 17<<20))),
	altered("series that are not sorted", "", func(x *exchange) { slices.Reverse(x.series) }),
	altered("a series twice", "", func(x *exchange) { x.series = append(x.series, x.series...) }),
	altered("a series in pieces", "", func(x *exchange) {
		var out []*prompb.ChunkedSeries
		for _, s := range x.series {
			for _, c := range s.Chunks {
				out = append(out, &prompb.ChunkedSeries{Labels: s.Labels, Chunks: []prompb.Chunk{c}})
			}
		}
		slices.Reverse(out)
		x.series = out
	}),
	altered("a series without chunks", "", func(x *exchange) {
		ls := append(slices.Clone(x.series[0].Labels), prompb.Label{Name: "z", Value: "1"})
		x.series = append(x.series, &prompb.ChunkedSeries{Labels: ls})
	}),
}

// relabelled gives the first series' label of that name, which it has, another value.
func relabelled(name, value string) func(*exchange) {
	return func(x *exchange) {
		ls := x.series[0].Labels
		ls[slices.IndexFunc(ls, func(l prompb.Label) bool { return l.Name == name })].Value = value
	}
}
