package reduce_test

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/remoteread/reduce"
	"github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/selection"
)

// A range query for x at the minutes 10, 20 and 30 sees one sample for each of them.
func Example() {
	const minute = 60_000
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "x"))
	for t := int64(0); t < 40*minute; t += 15_000 {
		_ = b.Floats([]int64{t + 7}, []float64{float64(t)})
	}
	sel, _ := b.Finish()

	hints := &storage.SelectHints{Start: 10*minute - 5*minute + 1, End: 30 * minute, Step: 10 * minute}
	r := reduce.New(reduce.Options{Lookback: 5 * time.Minute})
	left, release, err := r.Thin(context.Background(), serve.Query{
		MinT: hints.Start, MaxT: hints.End, Start: hints.Start, End: hints.End, Hints: hints, Reader: serve.Release{Major: 3, Minor: 15},
	}, sel)
	if err != nil {
		panic(err)
	}
	defer release()
	for i := range left.NumSeries() {
		it := left.Decode(i, left.Chunks(i), hints.Start, hints.End, nil)
		for it.Next() != chunkenc.ValNone {
			t, _ := it.At()
			fmt.Println(left.Labels(i), time.Duration(t)*time.Millisecond)
		}
	}
	// Output:
	// {__name__="x"} 9m45.007s
	// {__name__="x"} 19m45.007s
	// {__name__="x"} 29m45.007s
}
