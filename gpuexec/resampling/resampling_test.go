package resampling

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/selection/synthetic"
)

var (
	rounds = flag.Int("resampling.rounds", 50, "requests of TestRandom, and of TestRandomCustom")
	seed   = flag.Uint64("resampling.seed", 1, "seed of TestRandom")
)

// some is a third of n in short runs.
func some(n int) int {
	if testing.Short() {
		return n / 3
	}
	return n
}

var (
	layouts = []string{"every=1m", "every=7s", "every=5m&closed=right", "every=1m&period=150s", "every=1m&period=150s&closed=right", "every=1m&period=20s&label=right", "every=90s&offset=13s&origin=1111.5",
		"every=1d&timezone=Europe/Berlin", "every=1d&timezone=America/Havana&closed=right", "every=1w", "every=1M&timezone=Australia/Lord_Howe", "every=1d&period=1w&timezone=Europe/Berlin", "every=1M&period=1w", "every=1y"}
	groupings = []string{"", "", "&by=job", "&without=i", "&by=", "&by=job&reaggregate=sum", "&reaggregate=std", "&reaggregate=mean&by=job", "&reaggregate=max&without=job", "&by=job&reaggregate=median", "&reaggregate=median"}
	fillings  = []string{"", "", "&fill=null", "&fill=prev", "&fill=linear", "&fill=-1.5"}
	sets      = []string{
		"count", "sum,mean", "median,95pct,0pct,100pct,33.3pct,99pct", "nunique,median", "count,max,median,rate:median,rate:99.9pct", "min,max,range", "first,last", "std,var", "time_weighted_mean", "mean", "rate:sum,rate:max",
		"count,sum,mean,min,max,range,std,var,first,last,time_weighted_mean,rate:count,rate:sum,rate:mean,rate:min,rate:std,rate:first,rate:time_weighted_mean",
	}
)

// randomRequest is a form over a time that buckets are found in, around a change of clocks, a leap
// day, or any; and that time, in s.
func randomRequest(r *rand.Rand) (form string, start, end int64) {
	layout := layouts[r.IntN(len(layouts))]
	around := []int64{1_774_746_000, 1_793_494_800, 1_709_164_800, 1_700_000_000 + r.Int64N(1e7)}[r.IntN(4)]
	length := map[byte]int64{'s': 60, 'm': 300, 'd': 86400, 'w': 7 * 86400, 'M': 31 * 86400, 'y': 366 * 86400}
	unit := byte('s')
	for i := len("every="); i < len(layout) && layout[i] != '&'; i++ {
		unit = layout[i]
	}
	buckets := 1 + r.Int64N(40)
	start = around - buckets*length[unit] + r.Int64N(length[unit])
	end = around + length[unit]*(1+buckets)
	form = fmt.Sprintf("metric=m&%s&aggregates=%s&start=%d&end=%d%s%s", layout, sets[r.IntN(len(sets))], start, end, groupings[r.IntN(len(groupings))], fillings[r.IntN(len(fillings))])
	return form, start, end
}

// TestRandom compares random requests over random series with the cores, with little memory, so
// that there are several batches and rows find no memory to stay in, and with much.
func TestRandom(t *testing.T) {
	all := []*counting{on(t, pipeline.Options{Memory: 256 << 20, Staging: 8 << 20, Rows: 2 * 8 * pinned.BufferValues}), on(t, pipeline.Options{Memory: 512 << 20})}
	all[0].GoodBatch = 1 << 18
	defer func() { fusedLongest = 1 }()
	batches, fused := 0, 0
	for round := range some(*rounds) {
		r := rand.New(rand.NewPCG(*seed, uint64(round)))
		form, start, end := randomRequest(r)
		sel := random(t, r, 1+r.IntN(120), 1000*start, 1000*end)
		fusedLongest = []float64{0, 1, 3, 1e9}[r.IntN(4)]
		for k, a := range all {
			a.Last.Stages.Batches = 0
			check(t, a, synthetic.Storage{Selection: sel}, form, fmt.Sprintf("-resampling.seed=%d, round %d, machine %d: %s", *seed, round, k, form))
			batches = max(batches, a.Last.Stages.Batches)
			if a.Last.Stages.Fused {
				fused++
			}
		}
	}
	if n := all[0].declined; n > some(*rounds)/10 {
		t.Errorf("%d requests of %d were declined", n, some(*rounds))
	}
	if fused < some(*rounds)/10 {
		t.Errorf("%d requests were counted while chunks were decoded", fused)
	}
	if batches < 3 {
		t.Errorf("%d batches at most", batches)
	}
}
