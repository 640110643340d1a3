package decode

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection/selectiontest"
)

// patterns are what the decoders' speed is measured on.
func patterns() []pattern {
	r := rand.New(rand.NewPCG(9, 9))
	total := 0.0
	counter := func() float64 { total += float64(r.IntN(40)); return total }
	return []pattern{
		{"counter", 1, counter},
		{"gauge", 1, func() float64 { return math.Round(1e9 + 1e7*r.NormFloat64()) }},
		{"constant", 1, func() float64 { return 17 }},
		{"random", 1, r.Float64},
		{"late", 4, counter},
	}
}

type pattern struct {
	name  string
	late  int64 // samples are less than this many ms late
	value func() float64
}

// chunks are 500 chunks of 120 samples, 15 s apart.
func (s pattern) chunks(b *testing.B, e chunkenc.Encoding) (out [][]byte) {
	r := rand.New(rand.NewPCG(8, 8))
	ts, vs := make([]int64, 120), make([]float64, 120)
	for c := range 500 {
		for i := range ts {
			ts[i], vs[i] = int64(c*len(ts)+i)*15_000+r.Int64N(s.late), s.value()
		}
		out = append(out, selectiontest.Chunk(b, e, nil, ts, vs))
	}
	return out
}

func BenchmarkDecode(b *testing.B) {
	for _, e := range []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncXOR2} {
		for _, s := range patterns() {
			chunks := s.chunks(b, e)
			ts, vs := make([]int64, 120), make([]float64, 120)
			run := func(by string, decode func(c []byte)) {
				b.Run(fmt.Sprintf("%s/%s/%s", e, s.name, by), func(b *testing.B) {
					for b.Loop() {
						for _, c := range chunks {
							decode(c)
						}
					}
					b.ReportMetric(float64(b.N*len(ts)*len(chunks))/b.Elapsed().Seconds()/1e6, "Msamples/s")
				})
			}
			run("promwarp", func(c []byte) {
				if _, err := decode(e, c, ts, vs, nil, 0); err != nil {
					b.Fatal(err)
				}
			})
			var it chunkenc.Iterator
			run("prometheus", func(c []byte) {
				x, err := chunkenc.FromData(e, c)
				if err != nil {
					b.Fatal(err)
				}
				it = x.Iterator(it)
				for i := 0; it.Next() != chunkenc.ValNone; i++ {
					ts[i], vs[i] = it.At()
				}
			})
		}
	}
}
