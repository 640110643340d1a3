package gpuexec

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/gpuexec/probe"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection/slab"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// speedRun is what TestExecutorSpeed writes to the file that speedEnv names.
type speedRun struct {
	Date    string    `json:"date"`
	Commit  string    `json:"commit"`
	GPU     cuda.Info `json:"gpu"`
	Link    float64   `json:"link_bytes_per_second"`
	Cores   int       `json:"cores"`
	Series  int       `json:"series"`
	Samples int64     `json:"samples"`
	Chunks  int       `json:"chunks"`
	Bytes   int64     `json:"chunk_bytes"`
	Steps   int       `json:"steps"`
	Speeds  []speed   `json:"speeds"`
}

// speed is how long a query takes from the job to the matrix, in ms: medians.
type speed struct {
	Query        string  `json:"query"`
	Resident     float64 `json:"gpu_resident_ms"`     // the chunk bytes are on the device
	NotResident  float64 `json:"gpu_not_resident_ms"` // they are in the host's page-locked memory
	CPU          float64 `json:"cpu_ms,omitempty"`    // cpuexec, from chunks
	Open         float64 `json:"open_ms"`             // part of the former: labels and groups
	ResidentRate float64 `json:"gpu_resident_samples_per_second"`
	HostRate     float64 `json:"gpu_not_resident_samples_per_second"`
	CPURate      float64 `json:"cpu_samples_per_second,omitempty"`
	LinkShare    float64 `json:"gpu_not_resident_share_of_link"` // chunk bytes a second over what the link copies
	Overlap      float64 `json:"gpu_not_resident_overlap"`       // share of the kernels' time that copying hides
	Batches      int     `json:"batches"`

	// Of the last runs, durations in ns.
	ResidentStages    pipeline.Stages `json:"gpu_resident_stages"`
	NotResidentStages pipeline.Stages `json:"gpu_not_resident_stages"`

	// On the device alone, all batches one after the other.
	Decode float64 `json:"kernel_decode_ms"`
	Window float64 `json:"kernel_window_ms"`
	Read   float64 `json:"kernel_reads_ms"`
	Reduce float64 `json:"kernel_fold_ms"`
}

const (
	speedEnv  = "PROMWARP_GPU_SPEED"        // where the figures go, as JSON
	speedSize = "PROMWARP_GPU_SPEED_SERIES" // how many series
	speedOnly = "PROMWARP_GPU_SPEED_ONLY"   // a regular expression for the queries
)

// TestExecutorSpeed measures queries over 10 000 samples of each series on a real
// GPU and on the cores of its machine.
func TestExecutorSpeed(t *testing.T) {
	if !cudatest.Real() {
		t.Skip("needs a GPU")
	}
	series := 100_000
	if n, err := strconv.Atoi(os.Getenv(speedSize)); err == nil {
		series = n
	}
	x := executor(t, Options{Memory: 32 << 30})
	pageLock(t, x.Dev)
	start := time.Now()
	sel, err := synthetic.Counters("m_total", series, 10_000)
	require.NoError(t, err)
	t.Logf("made in %v", time.Since(start))
	const every = 60_000 // ms
	grid := plan.Grid{Start: synthetic.Start + every, Interval: every, Steps: 2500}
	run := speedRun{
		Date: time.Now().UTC().Format(time.RFC3339), Commit: os.Getenv(commitEnv), GPU: x.Dev.Info, Link: x.Link(),
		Cores: runtime.GOMAXPROCS(0), Series: series, Samples: sel.NumSamples(), Chunks: sel.NumChunks(), Steps: grid.Steps,
	}
	for i := range series {
		for _, c := range sel.Chunks(i) {
			run.Bytes += int64(c.Len)
		}
	}
	cpu := cpuexec.New(cpuexec.Options{})
	save := func() {
		out, err := json.MarshalIndent(run, "", "  ")
		require.NoError(t, err)
		if path := os.Getenv(speedEnv); path != "" {
			require.NoError(t, os.WriteFile(path, append(out, '\n'), 0o644))
		}
	}
	for _, q := range []struct {
		op, f    string
		width    int64 // ms
		cpu      bool
		interval int64 // ms, where it is not every
	}{
		{"sum by (job)", "rate", 300_000, true, 0}, {"sum by (job)", "rate", 3_600_000, false, 0}, {"sum by (job)", "rate", 86_400_000, false, 0},
		{"sum by (job)", window.Last.Name, 300_000, true, 0},
		{"max by (job)", "max_over_time", 300_000, true, 0}, {"max by (job)", "max_over_time", 3_600_000, false, 0}, {"max by (job)", "max_over_time", 86_400_000, false, 0},
		{"avg by (job)", "avg_over_time", 300_000, false, 0}, {"avg by (job)", "avg_over_time", 3_600_000, true, 0}, {"avg by (job)", "avg_over_time", 86_400_000, true, 0},
		{"sum by (job)", "sum_over_time", 86_400_000, false, 0}, {"sum by (job)", "count_over_time", 86_400_000, false, 0},
		{"max by (job)", "quantile_over_time", 300_000, true, 0}, {"max by (job)", "mad_over_time", 300_000, false, 0},
		{"max by (job)", "stddev_over_time", 300_000, false, 0}, {"max by (job)", "deriv", 300_000, false, 0},
		{"sum by (job)", "changes", 300_000, false, 0}, {"sum by (job)", "irate", 300_000, false, 0},
		{"stddev by (job)", "rate", 300_000, true, 0}, {"stddev", "rate", 300_000, false, 0},
		{"topk", "rate", 300_000, true, 0}, {"topk by (job)", "rate", 300_000, false, 0}, {"bottomk", window.Last.Name, 300_000, false, 0},
		{"quantile", "rate", 300_000, true, 0}, {"quantile by (job)", "rate", 300_000, false, 0},
		{"sum by (job) of maps of", "rate", 300_000, true, 0},
		{"limitk", "rate", 300_000, true, 0}, // the cores take all rows
		// Windows that share no sample.
		{"sum by (job)", "rate", 300_000, true, 300_000}, {"sum by (job)", "rate", 300_000, false, 1_800_000},
		{"sum by (job)", window.Last.Name, 300_000, true, 300_000}, {"sum by (job)", window.Last.Name, 300_000, false, 1_800_000},
		{"max by (job)", "max_over_time", 300_000, true, 300_000},
		{"avg by (job)", "avg_over_time", 300_000, true, 300_000}, {"sum", "avg_over_time", 105_000, false, 105_000},
	} {
		s := speed{Query: fmt.Sprintf("%s (%s(m_total[%v]))", q.op, q.f, time.Duration(q.width)*time.Millisecond)}
		grid := grid
		if q.interval > 0 {
			s.Query += fmt.Sprintf(" every %v", time.Duration(q.interval)*time.Millisecond)
			grid.Interval, grid.Steps = q.interval, int(int64(grid.Steps)*every/q.interval)
		}
		if !regexp.MustCompile(os.Getenv(speedOnly)).MatchString(s.Query) {
			continue
		}
		job := jobOver(speedNode(q.op, q.f, q.width), grid, sel)
		var got, again, want *plan.Matrix
		var err error
		evaluate := func(to *pipeline.Stages) *plan.Matrix {
			*to = pipeline.Stages{}
			m, err := x.RunStages(t.Context(), job, to)
			require.NoError(t, err)
			return m
		}
		s.NotResident = median(7, func() { x.empty(); got = evaluate(&s.NotResidentStages) })
		s.Resident = median(9, func() { again = evaluate(&s.ResidentStages) })
		require.Zero(t, s.ResidentStages.CopiedBytes)
		same(t, got, again, true, "resident")
		s.kernels(t, x, job)
		if q.cpu {
			s.CPU = median(1, func() { want, err = cpu.Run(t.Context(), job); require.NoError(t, err) })
			same(t, want, got, q.f != "avg_over_time", s.Query)
		}
		samples := float64(run.Samples)
		s.ResidentRate, s.HostRate = samples/(s.Resident/1000), samples/(s.NotResident/1000)
		if q.cpu {
			s.CPURate = samples / (s.CPU / 1000)
		}
		s.LinkShare = float64(run.Bytes) / (s.NotResident / 1000) / run.Link
		s.Overlap = s.NotResidentStages.Overlap()
		out, err := json.Marshal(s)
		require.NoError(t, err)
		t.Logf("%s", out)
		run.Speeds = append(run.Speeds, s)
		save()
	}
}

// speedNode is the aggregation of a query that is measured: op says how it groups.
func speedNode(op, f string, width int64) plan.Node {
	op, by, grouped := strings.Cut(op, " by ")
	by, mapped := strings.CutSuffix(by, " of maps of")
	grouping := []string{strings.Trim(by, "()")}
	if !grouped {
		grouping = nil
	}
	a := aggregation(op, f, width, 0, nil, grouping, false)
	switch op {
	case "topk", "bottomk", "limitk":
		a.Param = 10
	case "quantile":
		a.Param = 0.9
	}
	if mapped {
		a.Input = &plan.Map{Func: vector.Named("abs"), Input: a.Input, Origin: plan.Origin{Text: "abs"}}
		a.Input = &plan.Map{Func: vector.Named("*"), Input: a.Input, Args: []float64{8}, Origin: plan.Origin{Text: "abs * 8"}}
		a.Input = &plan.Map{Func: vector.Named(">"), Input: a.Input, Args: []float64{3}, Origin: plan.Origin{Text: "abs * 8 > 3"}}
	}
	return a
}

// empty forgets all that is on the device.
func (x *Executor) empty() { x.Store.Clear() }

// pageLock page-locks slabs that are made from now on until the test ends, as a
// process with a GPU does.
func pageLock(t testing.TB, dev *cuda.Device) {
	pinned.PageLockSlabs(dev)
	t.Cleanup(func() { slab.PageLock(nil) })
}

// median runs f once to warm up and then n times, and returns the median of how
// long it took, in ms.
func median(n int, f func()) float64 {
	var ms []float64
	for i := range n + 1 {
		start := time.Now()
		f()
		if i > 0 {
			ms = append(ms, float64(time.Since(start).Microseconds())/1000)
		}
	}
	slices.Sort(ms)
	return ms[len(ms)/2]
}

// kernels measures the kernels of a job over a resident selection, one at a time.
func (s *speed) kernels(t testing.TB, x *Executor, what cpuexec.Job) {
	workspace, err := x.Begin(t.Context(), &x.Large, &x.Large)
	require.NoError(t, err)
	defer workspace.Leave()
	var l *cpuexec.Leaf
	s.Open = median(3, func() { l, err = x.cpu.OpenLeaf(t.Context(), what); require.NoError(t, err) })
	j := newJob(x, workspace, task{l: l, stages: &pipeline.Stages{}})
	require.NoError(t, j.place())
	require.NoError(t, x.Dev.Do(j.Job.Begin))
	require.NoError(t, x.Dev.Do(func(c *cuda.Context) error {
		begin, err := c.NewEvent(true)
		require.NoError(t, err)
		end, err := c.NewEvent(true)
		require.NoError(t, err)
		slot := workspace.Slots[0]
		q := j.Queue(c, slot.Stream)
		ms := func(f func() error) float64 {
			took, err := probe.Timed(c, slot.Stream, begin, end, f)
			require.NoError(t, err)
			return took
		}
		for n := 0; ; n++ {
			b, err := j.Part(n)
			require.NoError(t, err)
			if b == nil {
				break
			}
			s.Batches++
			slot.Batch = j.OnDevice(b, cuda.Pointer(b.Resident.At.At), j.Rest)
			j.Arrange(slot)
			d, steps := slot.Batch, j.steps
			steps.PerThread = j.PerThread(b, steps.Count)
			s.Decode += ms(func() error { return j.Decode(q, d) })
			s.Window += ms(func() error { return j.window(q, d, steps) })
			s.Read += ms(func() error { return j.product.count(j, q, d) })
			s.Reduce += ms(func() error { return j.product.reduce(j, q, d) })
		}
		require.NoError(t, c.DestroyEvent(begin))
		return c.DestroyEvent(end)
	}))
}
