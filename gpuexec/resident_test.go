package gpuexec

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/gpuexec/resident"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
	"github.com/promwarp/promwarp/selection/slab"
)

// stretchOf makes series with chunks of 40 samples, one a minute, from a chunk on.
func stretchOf(t testing.TB, series, from, chunks int) *selection.Selection {
	b := selection.NewBuilder(0)
	for i := range series {
		b.Series(labels.FromStrings("__name__", "m_total", "job", string(rune('a'+i%3)), "i", string(rune('A'+i/26))+string(rune('A'+i%26))))
		r := rand.New(rand.NewPCG(uint64(i), uint64(from)))
		for c := from; c < from+chunks; c++ {
			ts, vs := make([]int64, 40), make([]float64, 40)
			for k := range ts {
				ts[k], vs[k] = int64(c*40+k)*60_000, float64(c*40+k)+r.Float64()
			}
			require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[39], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
		}
	}
	s, err := b.Finish()
	require.NoError(t, err)
	return s
}

// overAll is a grid over some chunks.
func overAll(from, chunks int) plan.Grid {
	return plan.Grid{Start: int64(from*40) * 60_000, Interval: 600_000, Steps: chunks * 4}
}

// check evaluates a job and compares with the CPU.
func check(t testing.TB, x *Executor, job cpuexec.Job, what string) pipeline.Stages {
	want, err := x.cpu.Run(t.Context(), job)
	require.NoError(t, err)
	var s pipeline.Stages
	got, err := x.RunStages(t.Context(), job, &s)
	require.NoError(t, err, what)
	same(t, want, got, true, what)
	settled(t, x)
	return s
}

// settled checks that nothing is in use, and that the store's memory is all there.
func settled(t testing.TB, x *Executor) {
	require.NoError(t, x.Store.Check())
}

// TestStays: a job's chunks stay on the device, so that the same job copies nothing,
// one with another grouping only tables, and one over more or fewer chunks only what
// is new, whichever query made the selection of them.
func TestStays(t *testing.T) {
	x := executor(t, Options{Memory: 64 << 20, Staging: 1 << 20})
	one, two := stretchOf(t, 60, 0, 6), stretchOf(t, 60, 6, 3)
	both, err := selection.Join(context.Background(), one, two)
	require.NoError(t, err)
	chunks := func(s *selection.Selection) (n int64) {
		for k := range s.NumSlabs() {
			n += int64(len(s.Slab(k).Bytes()))
		}
		return n
	}
	node := aggregation("sum", "rate", 3_600_000, 0, nil, []string{"job"}, false)
	first := check(t, x, jobOver(node, overAll(0, 6), one), "first")
	tables := first.CopiedBytes - chunks(one)
	require.Positive(t, tables)
	require.Zero(t, first.ResidentBytes)
	require.Positive(t, first.Copy)

	again := check(t, x, jobOver(node, overAll(0, 6), one), "again")
	require.Zero(t, again.CopiedBytes)
	require.Positive(t, again.ResidentBytes)
	require.Less(t, again.Copy, first.Copy)
	require.Positive(t, again.Decode)
	require.Positive(t, again.Window)
	require.Positive(t, again.Reduce)
	require.Positive(t, again.Result)

	other := check(t, x, jobOver(aggregation("max", "last", 300_000, 0, nil, nil, false), overAll(0, 6), one.Slice(0, math.MaxInt64)), "another")
	require.Less(t, other.CopiedBytes, 2*tables)

	grown := check(t, x, jobOver(node, overAll(0, 9), both), "grown")
	require.GreaterOrEqual(t, grown.CopiedBytes, chunks(two))
	require.Less(t, grown.CopiedBytes, chunks(two)+3*tables)

	sliced := check(t, x, jobOver(node, overAll(3, 4), both.Slice(3*40*60_000, 7*40*60_000-1)), "sliced")
	require.Less(t, sliced.CopiedBytes, 2*tables)

	x.Store.Forget(one)
	forgotten := check(t, x, jobOver(node, overAll(0, 6), one), "forgotten")
	require.Equal(t, first.CopiedBytes, forgotten.CopiedBytes)

	// What is not referred to any more holds no memory.
	held, _ := x.Store.Used()
	one, two, both = nil, nil, nil
	small := stretchOf(t, 1, 0, 1)
	require.Eventually(t, func() bool {
		runtime.GC()
		check(t, x, jobOver(node, overAll(0, 1), small), "after all is gone")
		now, _ := x.Store.Used()
		return now < held/10
	}, 10*time.Second, time.Millisecond)
}

// TestNotesSize: what is noted of where series go counts as the selection's memory,
// once for all jobs that read the same.
func TestNotesSize(t *testing.T) {
	const series = 600
	x := executor(t, Options{Memory: 64 << 20, Staging: 1 << 20})
	sel := stretchOf(t, series, 0, 2)
	job := jobOver(aggregation("sum", "rate", 3_600_000, 0, nil, []string{"job"}, false), overAll(0, 2), sel)
	_, err := x.cpu.Run(t.Context(), job)
	require.NoError(t, err)
	groups := sel.Notes.SizeBytes()
	require.Greater(t, groups, int64(4*series))
	for range 2 {
		_, err = x.Run(t.Context(), job)
		require.NoError(t, err)
		layout := sel.Notes.SizeBytes() - groups
		require.Greater(t, layout, int64(8*series), "its place, and which is at a place")
		require.Less(t, layout, int64(64*series))
	}
	settled(t, x)
}

// TestLittleRoom: what does not fit beside other things comes with the tables, and
// slabs of which a small part is needed are not copied as a whole.
func TestLittleRoom(t *testing.T) {
	sel := stretchOf(t, 500, 0, 20)
	node := aggregation("sum", "rate", 3_600_000, 0, nil, []string{"job"}, false)
	job := jobOver(node, overAll(0, 20), sel)
	x := executor(t, Options{Memory: 6 << 20, Staging: 100 << 10})
	for range 3 {
		s := check(t, x, job, "little memory")
		require.Positive(t, s.CopiedBytes)
	}
	x.Store.Clear()
	var all []*resident.Block // with none left for slabs
	for n := 4 << 20; n >= 256; {
		if b := resident.Add(x.Store, x, n); b != nil {
			all = append(all, b)
		} else {
			n /= 2
		}
	}
	want, err := x.cpu.Run(t.Context(), job)
	require.NoError(t, err)
	var s pipeline.Stages
	got, err := x.RunStages(t.Context(), job, &s)
	require.NoError(t, err)
	same(t, want, got, true, "no room at all")
	require.Zero(t, s.ResidentBytes)
	x.Store.Unpin(all)

	x = executor(t, Options{Memory: 64 << 20, Staging: 1 << 20})
	sel = stretchOf(t, 200, 0, 40)
	s = check(t, x, jobOver(node, overAll(3, 1), sel), "a small part")
	whole := int64(0)
	for k := range sel.NumSlabs() {
		whole += int64(len(sel.Slab(k).Bytes()))
	}
	require.Less(t, s.CopiedBytes, whole/4)
}

// TestPageLocked: page-locked slabs are copied as they are.
func TestPageLocked(t *testing.T) {
	x := executor(t, Options{Memory: 64 << 20, Staging: 64 << 10})
	pageLock(t, x.Dev)
	sel := stretchOf(t, 300, 0, 30)
	locked := 0
	for k := range sel.NumSlabs() {
		if sel.Slab(k).PageLocked() {
			locked++
		}
	}
	require.Positive(t, locked)
	check(t, x, jobOver(aggregation("sum", "rate", 3_600_000, 0, nil, []string{"job"}, false), overAll(0, 30), sel), "page-locked")
	runtime.KeepAlive(sel)
}

// TestNotPageLocked: memory that cannot be page-locked is used as it is.
func TestNotPageLocked(t *testing.T) {
	h := cudatest.Control(t)
	x := executor(t, Options{Memory: 64 << 20, Staging: 64 << 10})
	pageLock(t, x.Dev)
	h.Configure("cuMemHostRegister_v2:1=2")
	sel := stretchOf(t, 300, 0, 30)
	locked := 0
	for k := range sel.NumSlabs() {
		if slab := sel.Slab(k); slab.PageLocked() {
			locked++
		}
	}
	require.Equal(t, h.Calls("cuMemHostRegister_v2")-1, locked)
	check(t, x, jobOver(aggregation("sum", "rate", 3_600_000, 0, nil, []string{"job"}, false), overAll(0, 30), sel), "partly page-locked")
	runtime.KeepAlive(sel)
}

// TestManyAtOnce: jobs of many at once, over few and many selections, some of them
// cancelled, get their answers, while memory is allocated and given back.
func TestManyAtOnce(t *testing.T) {
	x := executor(t, Options{Memory: 16 << 20, Segment: 1 << 20, Staging: 200 << 10})
	sels := []*selection.Selection{stretchOf(t, 200, 0, 8), stretchOf(t, 40, 0, 3), stretchOf(t, 100, 2, 6)}
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			job := jobOver(aggregation([]string{"sum", "max"}[i%2], "rate", 3_600_000, 0, nil, []string{"job"}, false), overAll(0, 8), sels[i%3])
			want, err := x.cpu.Run(t.Context(), job)
			if err != nil {
				t.Error(err)
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if i%6 == 5 {
				time.AfterFunc(time.Duration(i)*time.Millisecond, cancel)
			}
			got, err := x.Run(ctx, job)
			if i%6 == 5 && ctx.Err() != nil {
				return // either way
			}
			if err != nil {
				t.Error(err)
				return
			}
			same(t, want, got, true, "one of many")
		})
	}
	for range 50 {
		x.Store.Trim()
		time.Sleep(time.Millisecond)
	}
	wg.Wait()
	settled(t, x)
}

// TestSmallBesideLarge: a small job does not wait for a large one.
func TestSmallBesideLarge(t *testing.T) {
	x := executor(t, Options{Memory: 16 << 20, Staging: 200 << 10})
	large, err := x.Begin(t.Context(), x.Large) // a large one is under way
	require.NoError(t, err)
	check(t, x, jobOver(aggregation("sum", "rate", 3_600_000, 0, nil, nil, false), overAll(0, 2), stretchOf(t, 10, 0, 2)), "a small one")
	large.Leave()
}

// TestSmallAtOnce: as many small jobs run at once as there are small workspaces, while further ones wait;
// a large one, which came last, does not wait for any of them.
func TestSmallAtOnce(t *testing.T) {
	x := executor(t, Options{Memory: 256 << 20, Staging: 200 << 10})
	leaf := leafOf(t, t.Context(), jobOver(aggregation("sum", "rate", 3_600_000, 0, nil, []string{"job"}, false), overAll(0, 2), stretchOf(t, 70, 0, 2)))
	want, err := Evaluate(t.Context(), x.Machine, leaf, nil)
	require.NoError(t, err)
	n := cap(x.Small)
	require.Equal(t, 4, n)
	var wg sync.WaitGroup
	arrived, goOn := make(chan struct{}, 2*n), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	for range 2 * n {
		l, once := *leaf, sync.Once{}
		l.Ended = func() error { // is asked in the middle of a job
			once.Do(func() {
				arrived <- struct{}{}
				<-goOn
			})
			return nil
		}
		wg.Go(func() {
			got, err := Evaluate(t.Context(), x.Machine, &l, nil)
			assert.NoError(t, err)
			assert.Equal(t, encoded(t, want), encoded(t, got))
		})
	}
	for range n {
		<-arrived
	}
	large := *leaf
	large.Windows = 65 << 20
	got, err := Evaluate(t.Context(), x.Machine, &large, nil)
	require.NoError(t, err)
	require.Equal(t, encoded(t, want), encoded(t, got))
	require.Empty(t, arrived, "more than there are workspaces")
	release()
	wg.Wait()
	settled(t, x)
}

// TestChain: a leaf that is asked again reads what is packed in one chain: besides small tables, its
// results are all that is copied, and all that is waited for.
func TestChain(t *testing.T) {
	h := cudatest.Control(t)
	x := executor(t, Options{Memory: 64 << 20, Staging: 1 << 20})
	sel := stretchOf(t, 300, 0, 2)
	count := func(f func()) (calls int) {
		names := []string{"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuStreamWaitEvent", "cuEventSynchronize"}
		for _, name := range names {
			calls -= h.Calls(name)
		}
		f()
		for _, name := range names {
			calls += h.Calls(name)
		}
		return calls
	}
	for op, calls := range map[string]int{"sum": 2, "stddev": 2, "topk": 3, "quantile": 4} {
		node := aggregation(op, "rate", 3_600_000, 0, nil, []string{"job"}, false)
		node.Param = map[string]float64{"topk": 3, "quantile": 0.5}[op]
		job := jobOver(node, overAll(0, 2), sel)
		leaf := leafOf(t, t.Context(), job)
		for range 4 {
			check(t, x, job, op)
		}
		require.Equal(t, calls, count(func() {
			o, err := Evaluate(t.Context(), x.Machine, leaf, nil)
			require.NoError(t, err)
			require.Equal(t, 1, o.Stages.Batches)
		}), op)
	}
	x.SmallJob = 0
	for width, chain := range map[int64]bool{3_600_000: true, 65 * overAll(0, 2).Interval: false} {
		job := jobOver(aggregation("sum", "rate", width, 0, nil, []string{"job"}, false), overAll(0, 2), sel)
		for range 3 {
			check(t, x, job, "large")
		}
		require.Equal(t, chain, count(func() { check(t, x, job, "large") }) == 2, "large, windows of %d ms", width)
	}
	settled(t, x)
}

// TestSeriesWithoutChunks: where a tile of series has no chunks in a range, and all others are packed, its
// samples are not what another job has left in that memory.
func TestSeriesWithoutChunks(t *testing.T) {
	x := executor(t, Options{Memory: 256 << 20, Staging: 1 << 20})
	node := aggregation("sum", "rate", 3_600_000, 0, nil, []string{"i"}, false)
	run := func(without int, sel *selection.Selection) *selection.Selection {
		if sel == nil {
			b := selection.NewBuilder(0)
			for i := range 64 {
				b.Series(labels.FromStrings("__name__", "m_total", "i", fmt.Sprint(100+i)))
				ts, vs := make([]int64, 40), make([]float64, 40)
				for k := range ts {
					ts[k], vs[k] = int64(k)*60_000, float64(k)
					if i/32 == without {
						ts[k] += 60_000_000
					}
				}
				require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[39], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
			}
			var err error
			sel, err = b.Finish()
			require.NoError(t, err)
		}
		check(t, x, jobOver(node, overAll(0, 1), sel), "a range")
		return sel
	}
	packed := run(0, run(0, nil))
	for range cap(x.Small) {
		run(1, nil)
	}
	for range cap(x.Small) { // the memory of each
		run(0, packed)
	}
	l := leafOf(t, t.Context(), jobOver(node, overAll(0, 1), packed))
	want, err := Evaluate(t.Context(), x.Machine, l, nil)
	require.NoError(t, err)
	times := slices.Repeat([]int64{1_200_000}, 256<<10)
	for range cap(x.Small) { // filled with what would be very many samples
		var got pipeline.Outcome
		require.NoError(t, x.Evaluate(t.Context(), l.In(), nil, func(j *pipeline.Job) pipeline.Program {
			s := j.Workspace.Slots[0].Stream
			require.NoError(t, x.Dev.Do(func(c *cuda.Context) error {
				return errors.Join(c.CopyIn(j.At(layout.Section{}), layout.BytesOf(times), s), c.Wait(s))
			}))
			return queryProduct(j, l)
		}, &got))
		require.Equal(t, encoded(t, want), encoded(t, got))
	}
}

// TestResidencyModel does at random what a cache and dashboards do, with little
// memory: every answer is the CPU's.
func TestResidencyModel(t *testing.T) {
	driver := cudatest.Open(t)
	dev, err := driver.Device(0)
	require.NoError(t, err)
	defer func() { require.NoError(t, dev.Close()) }()
	tiles := make([]*selection.Selection, 6)
	for k := range tiles {
		tiles[k] = stretchOf(t, 70, k*2, 2)
	}
	rapid.Check(t, func(rt *rapid.T) {
		memory := rapid.Uint64Range(4<<20, 10<<20).Draw(rt, "memory")
		segment := rapid.SampledFrom([]uint64{0, 300 << 10}).Draw(rt, "segment")
		x, err := New(dev, cpuexec.New(cpuexec.Options{}), Options{Memory: memory, Segment: segment, Staging: 64 << 10})
		require.NoError(t, err)
		defer func() { require.NoError(t, x.Close()) }()
		var sel *selection.Selection
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			from := rapid.IntRange(0, 5).Draw(rt, "from")
			n := rapid.IntRange(1, 6-from).Draw(rt, "tiles")
			if sel == nil || rapid.Bool().Draw(rt, "another") {
				joined, err := selection.Join(context.Background(), tiles[from:from+n]...)
				require.NoError(t, err)
				sel = joined
			}
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 3:
				for range rapid.IntRange(1, 30).Draw(rt, "minutes") {
					x.Store.Trim()
				}
			case 0:
				x.Store.Forget(sel)
			case 1:
				sel = sel.WithMemos(int64(40*from) * 60_000)
			case 2:
				sel = sel.Slice(int64(40*from)*60_000, int64(40*(from+1))*60_000)
				if sel.NumSeries() == 0 {
					sel = nil
					continue
				}
			}
			op := rapid.SampledFrom([]string{"sum", "max", "count"}).Draw(rt, "op")
			by := rapid.SampledFrom([][]string{nil, {"job"}, {"i"}}).Draw(rt, "by")
			f := rapid.SampledFrom([]string{"rate", "last", "max_over_time"}).Draw(rt, "f")
			check(t, x, jobOver(aggregation(op, f, 1_800_000, 0, nil, by, false), overAll(2*from, 2*n), sel), "a job")
		}
	})
}

// pageLock page-locks slabs that are made from now on until the test ends, as a
// process with a GPU does.
func pageLock(t testing.TB, dev *cuda.Device) {
	pinned.PageLockSlabs(dev)
	t.Cleanup(func() { slab.PageLock(nil) })
}
