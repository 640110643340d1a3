package gpuexec

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// TestCorruptAlike cuts chunks at every byte and flips every bit of them: the GPU
// gives the cores' answer, or their error.
func TestCorruptAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	x := executor(t, Options{Memory: 200 << 20, Staging: 100 << 10})
	cpu := cpuexec.New(cpuexec.Options{})
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	seen, fused := map[string]int{}, map[bool]int{}
	check := func(enc chunkenc.Encoding, minT, maxT int64, data []byte) {
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m_total"))
		if b.Chunk(enc, minT, maxT, data) != nil {
			return // noticed earlier
		}
		sel, err := b.Finish()
		require.NoError(t, err)
		grid := plan.Grid{Start: minT, Interval: max(1, (maxT-minT)/20), Steps: 22}
		width := []int64{max(1, (maxT-minT)/7), grid.Interval}[(fused[true]+fused[false])%2] // not fused, or fused
		job := jobOver(aggregation("max", "last_over_time", width, 0, nil, nil, false), grid, sel)
		want, wantErr := cpu.Run(t.Context(), job)
		var stages pipeline.Stages
		got, err := x.RunStages(t.Context(), job, &stages)
		fused[stages.Fused]++
		if wantErr == nil {
			seen["none"]++
			require.NoError(t, err, "%s %x", enc, data)
			same(t, want, got, true, enc.String())
			return
		}
		require.EqualError(t, err, wantErr.Error(), "%s %x", enc, data)
		var w, g *selection.CorruptError
		require.ErrorAs(t, wantErr, &w)
		require.ErrorAs(t, err, &g)
		seen[w.Err.Error()[:20]]++
	}
	for range rounds {
		ts, vs := selectiontest.RandomSamples(r, 1+r.IntN(40))
		minT, maxT := ts[0], ts[len(ts)-1]
		for enc, good := range map[chunkenc.Encoding][]byte{chunkenc.EncXOR: encode(t, ts, vs), chunkenc.EncXOR2: encode2(t, r, ts, vs)} {
			check(enc, minT, maxT, good)
			check(enc, minT+1, maxT+1, good)
			check(enc, minT-1, max(minT-1, maxT-1), good)
			for at := 2; at < len(good); at++ {
				check(enc, minT, maxT, good[:at])
			}
			for bit := range len(good) * 8 {
				bad := append([]byte(nil), good...)
				bad[bit/8] ^= 0x80 >> (bit % 8)
				check(enc, minT, maxT, bad)
			}
		}
	}
	t.Log(seen, fused)
	require.Positive(t, fused[true])
	require.Positive(t, fused[false])
	if !testing.Short() {
		require.Len(t, seen, 5, "all kinds of errors, and none")
	}
}

// TestWideChunks: chunks of many bytes, of long time ranges and far from the others
// do not fit into entries of the table of chunks, and are found all the same.
func TestWideChunks(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	b := selection.NewBuilder(0)
	wide := 0
	const day = 86_400_000
	for i := range 100 {
		b.Series(labels.FromStrings("__name__", "m", "instance", strconv.Itoa(100+i)))
		at := r.Int64N(day)
		for range 1 + r.IntN(8) {
			n, every := 30, int64(15_000)
			switch kind := r.IntN(4); {
			case wide == 0:
				n = math.MaxUint16 // the most that a chunk has
			case kind == 0:
				n = 2000 // of 10 bytes
			case kind == 1:
				every = day / 4
			case kind == 2:
				at += 500 * day
			}
			ts, vs := make([]int64, n), make([]float64, n)
			for k := range ts {
				at += every + r.Int64N(1000)
				ts[k], vs[k] = at, r.Float64()
			}
			enc, data := chunkenc.EncXOR, encode(t, ts, vs)
			if r.IntN(2) == 0 {
				enc, data = chunkenc.EncXOR2, encode2(t, r, ts, vs)
			}
			if !abi.EntryFits(uint32(len(data)), ts[0], ts[n-1], 0) {
				wide++
			}
			require.NoError(t, b.Chunk(enc, ts[0], ts[n-1], data))
		}
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	require.Greater(t, wide, 100)
	require.Less(t, wide, sel.NumChunks()-50)
	x, cpu := executor(t, Options{Memory: 512 << 20}), cpuexec.New(cpuexec.Options{})
	for _, interval := range []int64{day / 24, 3 * day} {
		job := jobOver(aggregation("sum", "sum_over_time", day, 0, nil, nil, false), plan.Grid{Interval: interval, Steps: 500}, sel)
		want, err := cpu.Run(t.Context(), job)
		require.NoError(t, err)
		require.NotEmpty(t, want.Rows)
		got, err := x.Run(t.Context(), job)
		require.NoError(t, err)
		same(t, want, got, true, "wide chunks")
	}
}

// inOwnProcess is set where a test runs in a process that it may spoil.
const inOwnProcess = "PROMWARP_TEST_OWN_PROCESS"

// TestLostDevice: after a kernel went wrong every call fails until the process
// ends, though the device is closed and opened again.
func TestLostDevice(t *testing.T) {
	if os.Getenv(inOwnProcess) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLostDevice$", "-test.v")
		cmd.Env = append(os.Environ(), inOwnProcess+"=1", "PROMWARP_CUDA_LIBRARY="+cudatest.Library(t))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestLostDevice")
		return
	}
	var h *cudatest.Host
	if !cudatest.Real() {
		h = cudatest.Control(t)
	}
	driver := cudatest.Open(t)
	dev, err := driver.Device(0)
	require.NoError(t, err)
	k, err := launch.Load(dev, append(launch.Queries(), launch.Probe...)...)
	require.NoError(t, err)
	require.NoError(t, dev.Do(func(c *cuda.Context) error {
		s, err := c.NewStream()
		require.NoError(t, err)
		err = spoil(c, k, s, h)
		require.True(t, cuda.Lost(err), "%v", err)
		_, err = c.Alloc(1)
		require.True(t, cuda.Lost(err), "%v", err)
		_, err = c.NewStream()
		require.True(t, cuda.Lost(err), "%v", err)
		require.True(t, cuda.Lost(k.Unload(c)))
		return nil
	}))
	require.NoError(t, dev.Close())

	_, err = driver.Device(0)
	require.True(t, cuda.Lost(err), "%v", err)
	require.ErrorContains(t, err, "a kernel failed on it, and it is of no use to this process until that is restarted")
}

// spoil lets a kernel read what no one may, or, on the host driver, fail
// as one that did.
func spoil(c *cuda.Context, k *launch.Set, s cuda.Stream, h *cudatest.Host) error {
	if h != nil {
		h.Configure("cuLaunchKernel:1=719")
	}
	err := k.On(c, s).Launch("check", cuda.Size{X: 1}, cuda.Size{X: abi.CheckBlock}, cuda.Pointer(0), uint32(abi.CheckBlock), cuda.Pointer(0))
	return errors.Join(err, c.Wait(s))
}
