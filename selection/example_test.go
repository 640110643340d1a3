package selection_test

import (
	"context"
	"fmt"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection"
)

// minutes makes a selection of one series with a sample a minute, whose value is the minute.
func minutes(series string, from, to int64) *selection.Selection {
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("job", series))
	var times []int64
	var values []float64
	for m := from; m <= to; m++ {
		times, values = append(times, m*60_000), append(values, float64(m))
	}
	if err := b.Floats(times, values); err != nil {
		panic(err)
	}
	sel, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return sel
}

// Samples become chunks, the rows of a table, and samples again.
func Example() {
	sel := minutes("a", 1, 200)
	for i, series := range sel.Series() {
		for _, c := range sel.Chunks(i) {
			fmt.Printf("%s: slab %d, bytes %d to %d: %d samples from %d to %d ms\n", series, c.Slab, c.Off, c.Off+c.Len, c.Samples, c.MinT, c.MaxT)
		}
		it := sel.Decode(i, sel.Chunks(i), 199*60_000, 200*60_000, nil)
		for it.Next() != chunkenc.ValNone {
			fmt.Println(it.At())
		}
	}
	// Output:
	// {job="a"}: slab 0, bytes 0 to 162: 120 samples from 60000 to 7200000 ms
	// {job="a"}: slab 0, bytes 168 to 280: 80 samples from 7260000 to 12000000 ms
	// 11940000 199
	// 12000000 200
}

// What two fetches brought becomes one selection. The slabs are shared, and samples that came
// twice are there once.
func ExampleJoin() {
	sel, err := selection.Join(context.Background(), minutes("a", 1, 90), minutes("a", 61, 150), minutes("b", 1, 1))
	if err != nil {
		panic(err)
	}
	for i, series := range sel.Series() {
		fmt.Println(series, len(sel.Chunks(i)), "chunks")
	}
	fmt.Println(sel.NumSamples(), "samples")
	// Output:
	// {job="a"} 2 chunks
	// {job="b"} 1 chunks
	// 151 samples
}
