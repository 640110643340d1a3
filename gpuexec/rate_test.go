package gpuexec

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/probe"
	"github.com/promwarp/promwarp/kernels/abi"
)

// rateRun is what TestDecodeRate writes to the file that resultEnv names.
type rateRun struct {
	Date      string    `json:"date"`
	Commit    string    `json:"commit"`
	GPU       cuda.Info `json:"gpu"`
	Chunks    int       `json:"chunks"`
	PerChunk  int       `json:"samples_per_chunk"`
	Launches  int       `json:"launches"`
	Rates     []rate    `json:"rates"`
	MemorySet float64   `json:"device_memory_set_bytes_per_second"` // the ceiling of storing
}

// rate is the speed of decoding chunks of one shape: the median and the best.
type rate struct {
	Shape          string  `json:"shape"`
	BytesPerSample float64 `json:"encoded_bytes_per_sample"`
	Decode         float64 `json:"decode_samples_per_second"` // columns stored
	DecodeBest     float64 `json:"decode_samples_per_second_best"`
	DecodeBytes    float64 `json:"decode_bytes_per_second"` // read and written
	Fold           float64 `json:"fold_samples_per_second"` // nothing stored
	FoldBest       float64 `json:"fold_samples_per_second_best"`
}

const (
	resultEnv = "PROMWARP_GPU_RESULT" // where the figures go, as JSON
	commitEnv = "PROMWARP_COMMIT"     // what they are figures of
	perChunk  = 120
	distinct  = 4096 // chunks that differ; the device gets them over and over
)

// rateShapes are the kinds of series that decoding is measured on.
var rateShapes = []struct {
	name   string
	jitter int64 // of timestamps, ms
	value  func(r *rand.Rand, i int, last float64) float64
}{
	{"counter", 0, func(r *rand.Rand, _ int, last float64) float64 { return last + float64(r.IntN(40)) }},
	{"counter with jitter", 5, func(r *rand.Rand, _ int, last float64) float64 { return last + float64(r.IntN(40)) }},
	{"gauge", 0, func(r *rand.Rand, _ int, _ float64) float64 { return math.Round(1e9 + 1e7*r.NormFloat64()) }},
	{"constant", 0, func(*rand.Rand, int, float64) float64 { return 17 }},
	{"random", 0, func(r *rand.Rand, _ int, _ float64) float64 { return r.Float64() }},
	{"counters and gauges", 0, func(r *rand.Rand, i int, last float64) float64 {
		if i/abi.TileChunks%2 == 0 {
			return last + float64(r.IntN(40))
		}
		return math.Round(1e9 + 1e7*r.NormFloat64())
	}},
	// Neighbouring threads decode chunks that have nothing in common.
	{"three kinds in turn", 0, func(r *rand.Rand, i int, last float64) float64 {
		switch i % 3 {
		case 0:
			return last + float64(r.IntN(40))
		case 1:
			return math.Round(1e9 + 1e7*r.NormFloat64())
		}
		return 17
	}},
}

// TestDecodeRate measures decoding on a real GPU.
func TestDecodeRate(t *testing.T) {
	if !cudatest.Real() {
		t.Skip("needs a GPU")
	}
	gpus, err := cudatest.Open(t).Devices()
	require.NoError(t, err)
	run := rateRun{
		Date: time.Now().UTC().Format(time.RFC3339), Commit: os.Getenv(commitEnv), GPU: gpus[0],
		Chunks: 2 << 20, PerChunk: perChunk, Launches: 21,
	}
	onBench(t, func(b *bench) {
		for i := range rateShapes {
			run.Rates = append(run.Rates, measureShape(b, &run, i))
		}
		const n = 4 << 30
		p := space[byte](b, n)
		ms := b.times(run.Launches, func() error { return b.c.Set(p, 0, n, b.stream) })
		run.MemorySet = n / (ms[len(ms)/2] / 1000)
		b.free(p)
	})
	out, err := json.MarshalIndent(run, "", "  ")
	require.NoError(t, err)
	t.Logf("%s", out)
	if path := os.Getenv(resultEnv); path != "" {
		require.NoError(t, os.WriteFile(path, append(out, '\n'), 0o644))
	}
}

func measureShape(b *bench, run *rateRun, shape int) rate {
	r := rand.New(rand.NewPCG(21, uint64(shape)))
	chunks := make([][]byte, distinct)
	sums := make([]abi.ChunkSums, distinct)
	ts, vs := make([]int64, perChunk), make([]float64, perChunk)
	for i := range chunks {
		start, v := r.Int64N(1e6), float64(r.IntN(1e6))
		for j := range ts {
			v = rateShapes[shape].value(r, i, v)
			ts[j], vs[j] = 1_790_000_000_000+start+int64(j)*15_000, v
			if jitter := rateShapes[shape].jitter; jitter > 0 {
				ts[j] += r.Int64N(2*jitter + 1)
			}
			sums[i].Times += uint64(ts[j])
			sums[i].Sum += vs[j]
		}
		chunks[i] = encode(b.t, ts, vs)
	}
	part, refs := slabOf(chunks, r)
	copies := run.Chunks / distinct
	slab := space[byte](b, uint64(copies*len(part)))
	bytes := 0
	for _, c := range chunks {
		bytes += len(c)
	}
	all := make([]abi.ChunkRef, 0, run.Chunks)
	for i := range copies {
		off := uint64(i * len(part))
		require.NoError(b.t, b.c.CopyIn(slab+cuda.Pointer(off), part, b.stream))
		for _, ref := range refs {
			ref.Off += off
			all = append(all, ref)
		}
	}
	rows, total := abi.Tiles(all)
	in := Chunks{slab, put(b, all), uint32(len(all))}
	places := total * abi.TileChunks
	out := launch.Columns{Rows: put(b, rows), Times: space[int64](b, places), Values: space[float64](b, places)}
	status, gotSums := space[uint32](b, uint64(len(all))), space[abi.ChunkSums](b, uint64(len(all)))

	decode := b.times(run.Launches, func() error { return b.decodeXOR(in, out, status) })
	for _, s := range get[abi.Status](b, status, uint64(len(all))) {
		require.NoError(b.t, s.Err())
	}
	// The first and the last tile stand for the others.
	for _, at := range []uint64{0, places - perChunk*abi.TileChunks} {
		times := get[int64](b, out.Times+cuda.Pointer(8*at), perChunk*abi.TileChunks)
		chunk := int(at/perChunk) % distinct
		for j := range perChunk {
			require.NotZero(b.t, times[j*abi.TileChunks])
		}
		sum := uint64(0)
		for j := range perChunk {
			sum += uint64(times[j*abi.TileChunks])
		}
		require.Equal(b.t, sums[chunk].Times, sum)
	}
	reduce := b.times(run.Launches, func() error { return b.reduceXOR(in, gotSums, status) })
	for i, f := range get[abi.ChunkSums](b, gotSums, uint64(len(all))) {
		if f != sums[i%distinct] {
			b.t.Fatalf("chunk %d comes to %v, not %v", i, f, sums[i%distinct])
		}
	}
	b.free(in.Slab, in.Refs, out.Rows, out.Times, out.Values, status, gotSums)

	samples := float64(run.Chunks * perChunk)
	median := func(ms []float64) float64 { return samples / (ms[len(ms)/2] / 1000) }
	perSample := float64(bytes) / (distinct * perChunk)
	moved := float64(copies*len(part)) + 16*samples + 20*float64(len(all))
	return rate{
		Shape: rateShapes[shape].name, BytesPerSample: perSample,
		Decode: median(decode), DecodeBest: samples / (decode[0] / 1000), DecodeBytes: moved / samples * median(decode),
		Fold: median(reduce), FoldBest: samples / (reduce[0] / 1000),
	}
}

// times runs work n times, after once to warm up, and returns how long each took
// on the device, in ms, the shortest first.
func (b *bench) times(n int, enqueue func() error) []float64 {
	begin, err := b.c.NewEvent(true)
	require.NoError(b.t, err)
	end, err := b.c.NewEvent(true)
	require.NoError(b.t, err)
	var ms []float64
	for i := range n + 1 {
		took, err := probe.Timed(b.c, b.stream, begin, end, enqueue)
		require.NoError(b.t, err)
		if i > 0 {
			ms = append(ms, took)
		}
	}
	require.NoError(b.t, b.c.DestroyEvent(begin))
	require.NoError(b.t, b.c.DestroyEvent(end))
	slices.Sort(ms)
	return ms
}
