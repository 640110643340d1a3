package gpuexec

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/selection"
)

// inSegments are options of a machine with memory in many segments, each a little larger than a slab.
var inSegments = Options{Memory: 24 << 20, Segment: 1 << 20, Staging: 200 << 10}

// memory is how many bytes of the device's memory a machine has.
func memory(x *Executor) uint64 {
	_, size := x.Store.Used()
	return x.Memory + size
}

// seen are the selections and jobs of a few queries, which need some segments each.
func seen(t testing.TB) (jobs []cpuexec.Job, sels []*selection.Selection) {
	for k := range 4 {
		sels = append(sels, stretchOf(t, 300, 10*k, 10))
		jobs = append(jobs, jobOver(aggregation("sum", "rate", 3_600_000, 0, nil, []string{"job"}, false), overAll(10*k, 10), sels[k]))
	}
	return jobs, sels
}

// TestOtherProcess: memory that another process has is not there for chunks, of which the newest stay; once it
// is back it is used again. What was not used goes back to the device.
func TestOtherProcess(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("memory=32000000")
	x := executor(t, inSegments)
	jobs, sels := seen(t)
	other := cudatest.Device(t)
	least := memory(x)
	require.Equal(t, x.Memory+1<<20, least, "one segment")
	var all cuda.Pointer
	require.NoError(t, other.Do(func(c *cuda.Context) error {
		free, _, err := c.MemoryInfo()
		require.NoError(t, err)
		all, err = c.Alloc(free - 2<<20)
		return err
	}))
	for range 3 {
		for k, job := range jobs {
			check(t, x, job, fmt.Sprint("another process has the memory: ", k))
		}
	}
	held := memory(x)
	require.LessOrEqual(t, held, least+2<<20)
	share, _ := x.Store.Share(sels[0])
	require.Less(t, share, 1.0)

	require.NoError(t, other.Do(func(c *cuda.Context) error { return c.Free(all) }))
	x.Store.Trim()
	for range 2 {
		for k, job := range jobs {
			check(t, x, job, fmt.Sprint("it gave it back: ", k))
		}
	}
	for _, sel := range sels {
		share, _ := x.Store.Share(sel)
		require.Equal(t, 1.0, share)
	}
	require.Greater(t, memory(x), held)
	for range 20 {
		x.Store.Trim()
	}
	require.Equal(t, least, memory(x))
	for k, job := range jobs {
		check(t, x, job, fmt.Sprint("after all was given back: ", k))
	}
}

// TestEverySegmentFault lets each call that segments are allocated or given back with fail in turn: no job
// fails, each answer is right, and closing gives everything back.
func TestEverySegmentFault(t *testing.T) {
	h := cudatest.Control(t)
	jobs, _ := seen(t)
	whole := func(fault string) error {
		dev, err := cudatest.Open(t).Device(0)
		require.NoError(t, err)
		x, err := New(dev, cpuexec.New(cpuexec.Options{}), inSegments)
		require.NoError(t, err)
		h.Configure(fault)
		for _, job := range jobs[:2] {
			check(t, x, job, fault)
		}
		for range 20 {
			x.Store.Trim()
		}
		check(t, x, jobs[2], fault)
		require.Eventually(t, func() bool { return x.Store.Check() == nil }, time.Second, time.Millisecond)
		return errors.Join(x.Close(), dev.Close())
	}
	for _, name := range []string{"cuMemAlloc_v2", "cuMemFree_v2"} {
		h.Reset()
		require.NoError(t, whole("memory=64000000"))
		calls := h.Calls(name)
		require.Greater(t, calls, 3, name)
		for nth := 1; nth <= calls; nth++ {
			h.Reset()
			err := whole(fmt.Sprintf("%s:%d=999", name, nth))
			require.True(t, err == nil || name == "cuMemFree_v2", err)
			require.Zero(t, h.Held(), "%s call %d", name, nth)
		}
	}
}

// TestHostMemory: of a process that may have little memory a machine page-locks a share.
func TestHostMemory(t *testing.T) {
	const host = 200 << 20
	cudatest.Control(t)
	before := cuda.HostBytes.Load()
	x := executor(t, Options{Memory: 64 << 20, Host: host})
	require.Less(t, cuda.HostBytes.Load()-before, int64(host/8+4<<20), "buffers of tables and chunks")
	_, left, _ := x.Lender.Counts()
	require.Equal(t, host/8/(8*pinned.BufferValues), left, "buffers of rows")
	jobs, _ := seen(t)
	check(t, x, jobs[0], "with little memory")
}
