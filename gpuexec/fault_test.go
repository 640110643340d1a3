package gpuexec

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

var (
	faultOptions = Options{Memory: 8 << 20, Staging: 200 << 10}
	faultGrid    = plan.Grid{Start: 1_000_000, Interval: 60_000, Steps: 40}
)

// TestEveryFault lets each call that a job makes fail in turn: the error names it,
// the next job's answer is right, and closing gives everything back.
func TestEveryFault(t *testing.T) {
	h := cudatest.Control(t)
	sel := randomSelection(t, rand.New(rand.NewPCG(51, 52)), 100)
	job := jobOver(aggregation("sum", "rate", 300_000, 0, nil, []string{"job"}, false), faultGrid, sel)
	want, err := cpuexec.New(cpuexec.Options{}).Run(t.Context(), job)
	require.NoError(t, err)
	calls := map[string]int{}
	for _, name := range []string{
		"cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate", "cuModuleLoadDataEx", "cuModuleGetFunction",
		"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemsetD8Async", "cuStreamSynchronize", "cuStreamWaitEvent",
		"cuEventRecord", "cuEventSynchronize", "cuLaunchKernel", "cuMemGetInfo_v2", "cuMemFree_v2", "cuMemFreeHost",
	} {
		calls[name] = 0
	}
	whole := func(o Options) (runErr, err error) {
		dev, err := cudatest.Open(t).Device(0)
		require.NoError(t, err)
		x, err := New(dev, cpuexec.New(cpuexec.Options{}), o)
		if err == nil {
			var got *plan.Matrix
			x.Store.Forget(sel)
			for range 3 { // the second packs, the third reads what is packed
				if got, runErr = x.Run(t.Context(), job); runErr != nil {
					break
				}
			}
			if runErr != nil {
				got, err = x.Run(t.Context(), job) // as if nothing had happened
			}
			if err == nil {
				same(t, want, got, true, "after a fault")
			}
			err = errors.Join(err, x.Close())
		}
		require.NoError(t, dev.Close())
		return runErr, err
	}
	runErr, err := whole(faultOptions)
	require.NoError(t, errors.Join(runErr, err))
	require.Zero(t, h.Held())
	for name := range calls {
		calls[name] = h.Calls(name)
	}
	require.Greater(t, calls["cuLaunchKernel"], 10, "several batches")
	tries := 12
	if testing.Short() {
		tries = 6
	}
	for name, n := range calls {
		for nth := 1; nth <= n; nth += max(1, n/tries) {
			h.Reset()
			h.Configure(fmt.Sprintf("%s:%d=999", name, nth))
			o := faultOptions
			runErr, err := whole(o)
			if h.Calls(name) < nth {
				continue // what is waited for, and what is packed, depends on which batch is done first
			}
			require.ErrorContains(t, errors.Join(runErr, err), name+": CUDA_ERROR_UNKNOWN (999)", "%s call %d of %d", name, nth, n)
			if runErr != nil && name != "cuMemFree_v2" {
				require.NoError(t, err, "%s call %d: the next job", name, nth)
			}
			require.Zero(t, h.Held(), "%s call %d", name, nth)
		}
	}
}

// TestLost: after a kernel went wrong every job fails, at once.
func TestLost(t *testing.T) {
	h := cudatest.Control(t)
	sel := randomSelection(t, rand.New(rand.NewPCG(53, 54)), 50)
	job := jobOver(aggregation("max", "last", 300_000, 0, nil, nil, false), faultGrid, sel)
	dev, err := cudatest.Open(t).Device(0)
	require.NoError(t, err)
	x, err := New(dev, cpuexec.New(cpuexec.Options{}), faultOptions)
	require.NoError(t, err)
	h.Configure("cuLaunchKernel:2=719")
	_, err = x.Run(t.Context(), job)
	require.True(t, cuda.Lost(err), "%v", err)
	launches := h.Calls("cuLaunchKernel")
	_, err = x.Run(t.Context(), job)
	require.True(t, cuda.Lost(err), "%v", err)
	require.ErrorContains(t, err, "the GPU was lost in an earlier job")
	require.Equal(t, launches, h.Calls("cuLaunchKernel"))
	_ = x.Close()
	require.NoError(t, dev.Close())
}

// TestTooLittleMemory: what does not fit is unsuited, or an error when the
// executor is made.
func TestTooLittleMemory(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("memory=5000000")
	sel := randomSelection(t, rand.New(rand.NewPCG(55, 56)), 200)
	dev := cudatest.Device(t)
	cpu := cpuexec.New(cpuexec.Options{})
	_, err := New(dev, cpu, Options{Memory: 6_000_000})
	require.ErrorIs(t, err, cuda.OutOfMemory)
	for memory, reason := range map[uint64]string{
		100_000:   "its groups, at every step or bucket, need more memory than the executor has on the device",
		1_000_000: "32 series alone need more memory than the executor has on the device",
	} {
		x, err := New(dev, cpu, Options{Memory: memory})
		require.NoError(t, err)
		_, err = x.Run(t.Context(), jobOver(aggregation("sum", "rate", 300_000, 0, nil, []string{"instance"}, false), plan.Grid{Start: 0, Interval: 60_000, Steps: 50}, sel))
		var u *pipeline.Unsuited
		require.ErrorAs(t, err, &u)
		require.Equal(t, reason, u.Reason)
		require.NoError(t, x.Close())
	}
}

// TestUnsuited: windows that are not on the GPU are told.
func TestUnsuited(t *testing.T) {
	x := executor(t, faultOptions)
	unknown := aggregation("sum", "rate", 60_000, 0, nil, nil, false)
	unknown.Input.(*plan.Window).Func = window.StartTimestamp
	sel := randomSelection(t, rand.New(rand.NewPCG(71, 72)), 40)
	_, err := x.Run(t.Context(), jobOver(unknown, faultGrid, sel))
	require.EqualError(t, err, "not on the GPU: the function start_timestamp is not on the GPU: kernels do not decode start timestamps")
	_, err = x.Run(t.Context(), jobOver(aggregation("sum", "mad_over_time", 3_600_000, 0, nil, nil, false), faultGrid, sel))
	require.EqualError(t, err, "not on the GPU: windows of more than 64 samples are not sorted on the GPU yet")
}

// TestCancelled: a query that ends stops between batches, with Prometheus's error.
func TestCancelled(t *testing.T) {
	sel := randomSelection(t, rand.New(rand.NewPCG(57, 58)), 300)
	x := executor(t, faultOptions)
	node := aggregation("sum", "rate", 300_000, 0, nil, nil, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := jobOver(node, faultGrid, sel)
	l := leafOf(t, ctx, cancelled)
	cancel()
	o, err := Evaluate(ctx, x.Machine, l, nil)
	require.ErrorIs(t, err, promql.ErrQueryCanceled("expression evaluation"))
	require.Zero(t, o.Stages.Batches, "a batch was enqueued")
	large, err := x.Begin(t.Context(), x.Large)
	require.NoError(t, err)
	_, err = x.Begin(ctx, x.Large)
	large.Leave()
	require.ErrorIs(t, err, context.Canceled, "one that waits for another gives up, too")
	want, err := x.cpu.Run(t.Context(), jobOver(node, faultGrid, sel))
	require.NoError(t, err)
	got, err := x.Run(t.Context(), jobOver(node, faultGrid, sel))
	require.NoError(t, err)
	same(t, want, got, true, "after one that was cancelled")
}

// TestCorruptChunk: the error names the series, and the selection is discarded.
func TestCorruptChunk(t *testing.T) {
	x := executor(t, faultOptions)
	r := rand.New(rand.NewPCG(59, 60))
	for _, bad := range []int{0, 31, 32, 250} {
		b := selection.NewBuilder(0)
		for i := range 300 {
			b.Series(labels.FromStrings("__name__", "m_total", "job", fmt.Sprint(i%3), "i", fmt.Sprintf("%03d", i)))
			for p := range 3 {
				ts, vs := make([]int64, 50), make([]float64, 50)
				for k := range ts {
					ts[k], vs[k] = int64(p*50+k)*15_000+1_000_000, r.Float64()
				}
				data := selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)
				if i == bad && p == 1 {
					data = data[:len(data)-20]
				}
				require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[49], data))
			}
		}
		sel, err := b.Finish()
		require.NoError(t, err)
		discarded := false
		sel.OnDiscard = func() { discarded = true }
		for range 2 { // the chunks are on the device at the second time
			discarded = false
			_, err = x.Run(t.Context(), jobOver(aggregation("sum", "rate", 300_000, 0, nil, []string{"job"}, false), faultGrid, sel))
			var ce *selection.CorruptError
			require.ErrorAs(t, err, &ce)
			require.Equal(t, labels.FromStrings("__name__", "m_total", "job", fmt.Sprint(bad%3), "i", fmt.Sprintf("%03d", bad)), ce.Series)
			require.EqualValues(t, 50*15_000+1_000_000, ce.MinT)
			require.EqualError(t, ce.Err, "its bit stream ends before its last sample")
			require.True(t, discarded)
		}
		x.Store.Forget(sel)
	}
}

// TestResident: answers over a selection that is on the device already are the same.
func TestResident(t *testing.T) {
	x := executor(t, Options{Memory: 24 << 20, Staging: 1 << 20})
	r := rand.New(rand.NewPCG(61, 62))
	sel := randomSelection(t, r, 300)
	for _, f := range testFunctions {
		job := jobOver(aggregation("min", f, 300_000, 0, nil, []string{"instance"}, false), faultGrid, sel)
		want, err := x.Run(t.Context(), job)
		if err != nil {
			require.EqualError(t, err, mixedZeros)
			continue
		}
		got, err := x.Run(t.Context(), job)
		require.NoError(t, err)
		same(t, want, got, true, f)
		x.Store.Forget(sel)
		x.Store.Forget(sel)
	}
}

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
		job.CountSamples = false
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
		for enc, good := range map[chunkenc.Encoding][]byte{chunkenc.EncXOR: selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs), chunkenc.EncXOR2: encode2(t, r, ts, vs)} {
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
			enc, data := chunkenc.EncXOR, selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)
			if r.IntN(2) == 0 {
				enc, data = chunkenc.EncXOR2, encode2(t, r, ts, vs)
			}
			if !abi.EntryFits(uint32(len(data)), uint32(n), ts[0], ts[n-1], 0) {
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
	k, err := launch.Load(dev, nil, append(launch.Queries(), launch.Probe...)...)
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
