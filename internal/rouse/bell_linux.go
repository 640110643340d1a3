package rouse

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// bell is an eventfd that sleepers wait for, each with a descriptor of its own.
type bell struct {
	file     *os.File
	sleepers int
	running  sync.WaitGroup // sleepers
	deaf     atomic.Int32   // sleepers that have not heard the last ring yet
	over     atomic.Bool
}

// hang makes a bell, and goroutines that wait for it.
func hang(sleepers int) (*bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	b := &bell{file: os.NewFile(uintptr(fd), "bell")}
	// A ring before a sleeper waits would be lost to it.
	b.deaf.Store(1)
	for range sleepers {
		if err := b.sleep(fd); err != nil {
			b.end()
			return nil, err
		}
	}
	b.deaf.Add(-1)
	return b, nil
}

// sleep starts a goroutine that hears each ring.
func (b *bell) sleep(fd int) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("another descriptor of an eventfd: %w", err)
	}
	f := os.NewFile(uintptr(own), "bell")
	c, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return err
	}
	b.sleepers++
	b.deaf.Add(1)
	b.running.Go(func() {
		defer f.Close()
		// Nobody reads what rings have added: each is an event for those who wait.
		_ = c.Read(func(uintptr) bool {
			b.deaf.Add(-1)
			return b.over.Load()
		})
	})
	return nil
}

// one is what a ring adds to the eventfd.
var one = binary.NativeEndian.AppendUint64(nil, 1)

// ring wakes the sleepers, if all have heard the last ring: where all cores are at work, those that
// have not are behind other goroutines.
func (b *bell) ring() {
	if b.asleep() && b.deaf.CompareAndSwap(0, int32(b.sleepers)) {
		_, _ = b.file.Write(one)
	}
}

// asleep reports whether all have heard the last ring.
func (b *bell) asleep() bool { return b.deaf.Load() == 0 }

// end ends the goroutines that wait.
func (b *bell) end() {
	b.over.Store(true)
	_, _ = b.file.Write(one)
	b.running.Wait()
	b.file.Close()
}
