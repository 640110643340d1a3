package cuda_test

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/kernels/ptx"
)

// useAll makes every call of the binding once and checks what comes of it.
// Where a call fails it gives back what it can and returns the error.
func useAll(library string) (err error) {
	d, err := cuda.Open(library)
	if err != nil {
		return err
	}
	if _, err := d.Devices(); err != nil {
		return err
	}
	dev, err := d.Device(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	return dev.Do(func(c *cuda.Context) (err error) {
		var undo []func() error
		defer func() {
			for i := range undo {
				err = errors.Join(err, undo[len(undo)-1-i]())
			}
		}()
		later := func(f func() error) { undo = append(undo, f) }
		return use(c, later)
	})
}

// check is the kernel that use launches, and numbers what it adds.
const (
	check   = "check"
	numbers = 1000
)

// use sums numbers on the device with the kernel check.
func use(c *cuda.Context, later func(func() error)) error {
	free, total, err := c.MemoryInfo()
	if err != nil {
		return err
	}
	if free == 0 || free > total {
		return fmt.Errorf("%d of %d bytes are free", free, total)
	}
	m, err := c.Load(ptx.Of(check))
	if err != nil {
		return err
	}
	later(func() error { return c.Unload(m) })
	f, err := c.Function(m, check)
	if err != nil {
		return err
	}
	var streams [2]cuda.Stream
	for i := range streams {
		if streams[i], err = c.NewStream(); err != nil {
			return err
		}
		later(func() error { return c.DestroyStream(streams[i]) })
	}
	var events [3]cuda.Event
	for i := range events {
		if events[i], err = c.NewEvent(true); err != nil {
			return err
		}
		later(func() error { return c.DestroyEvent(events[i]) })
	}
	before := cuda.HostBytes()
	in, err := c.AllocHost(4 * numbers)
	if err != nil {
		return err
	}
	later(func() error {
		if got := cuda.HostBytes() - before; got != 4*numbers {
			return fmt.Errorf("%d bytes are page-locked, want %d", got, 4*numbers)
		}
		err := c.FreeHost(in[:1])
		if got := cuda.HostBytes() - before; got != 0 {
			return fmt.Errorf("%d bytes are page-locked after all were given back", got)
		}
		return err
	})
	blocks := (numbers + abi.CheckBlock - 1) / abi.CheckBlock
	out := make([]byte, 4*blocks)
	if err := c.RegisterHost(out); err != nil {
		return err
	}
	later(func() error { return c.UnregisterHost(out) })
	devIn, err := c.Alloc(uint64(len(in)))
	if err != nil {
		return err
	}
	later(func() error { return c.Free(devIn) })
	devOut, err := c.Alloc(uint64(len(out)))
	if err != nil {
		return err
	}
	later(func() error { return c.Free(devOut) })
	return sum(c, f, streams, events, in, out, devIn, devOut, blocks)
}

func sum(c *cuda.Context, f cuda.Function, streams [2]cuda.Stream, events [3]cuda.Event, in, out []byte, devIn, devOut cuda.Pointer, blocks int) error {
	want := make([]uint32, blocks)
	for i := range numbers {
		v := uint32(i * 2654435761)
		binary.LittleEndian.PutUint32(in[4*i:], v)
		want[i/abi.CheckBlock] += v
	}
	for i := range out {
		out[i] = 0xEE
	}
	reached := false
	steps := []func() error{
		func() error { return c.Set(devOut, 0x77, uint64(len(out)), streams[0]) },
		func() error { return c.Record(events[0], streams[0]) },
		func() error { return c.CopyIn(devIn, in, streams[0]) },
		func() error { return c.Record(events[1], streams[0]) },
		// The rest is on the other stream, behind the copy.
		func() error { return c.WaitEvent(streams[1], events[1]) },
		func() error {
			return c.Launch(f, cuda.Size{X: uint32(blocks)}, cuda.Size{X: abi.CheckBlock}, streams[1], uint64(devIn), numbers, uint64(devOut))
		},
		func() error { return c.CopyOut(out, devOut, streams[1]) },
		func() error { return c.Record(events[2], streams[1]) },
		func() (err error) { reached, err = c.Reached(events[2]); return err },
		func() error { return c.WaitReached(events[2]) },
		func() (err error) {
			if reached, err = c.Reached(events[2]); err == nil && !reached {
				err = errors.New("an event that was waited for is not reached")
			}
			return err
		},
		func() error { return c.Wait(streams[1]) },
		func() error {
			ms, err := c.Elapsed(events[0], events[2])
			if err == nil && (ms < 0 || ms > 60_000) {
				err = fmt.Errorf("%g ms elapsed", ms)
			}
			return err
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	for i, w := range want {
		if got := binary.LittleEndian.Uint32(out[4*i:]); got != w {
			return fmt.Errorf("block %d sums to %d, not %d", i, got, w)
		}
	}
	return nil
}
