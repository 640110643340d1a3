package resident

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/selection"
)

// device is memory of which another process may have a part.
type device struct {
	sync.Mutex
	free    uint64
	next    uint64
	sizes   map[uint64]uint64 // of what is allocated, by address
	took    time.Duration     // that allocating takes
	refused int
	err     error // of giving back
}

func (d *device) memory(segment, limit uint64) Memory {
	return Memory{Segment: segment, Limit: limit, Alloc: func(n uint64) (uint64, error) {
		time.Sleep(d.took)
		d.Lock()
		defer d.Unlock()
		if n > d.free {
			d.refused++
			return 0, cuda.OutOfMemory
		}
		d.free -= n
		d.next += n // right behind the last
		d.sizes[d.next] = n
		return d.next, nil
	}, Free: func(at uint64) error {
		d.Lock()
		defer d.Unlock()
		if d.err != nil {
			return d.err
		}
		d.free += d.sizes[at]
		delete(d.sizes, at)
		return nil
	}}
}

// slabs adds blocks of slabs of about n bytes to a store.
type slabs struct {
	t    testing.TB
	s    *Store
	sels []*selection.Selection
}

func (x *slabs) add(n int) *Block {
	x.sels = append(x.sels, oneSlab(x.t, n))
	b := x.s.AddSlab(x.sels[len(x.sels)-1].Slab(0))
	if b != nil {
		x.s.Unpin([]*Block{b})
	}
	return b
}

func sizeOf(s *Store) uint64 {
	_, size := s.Used()
	return size
}

// TestGrows: another segment is there before the last is full, and no block lies in two. Where there is no
// memory older blocks make room, and it is asked for again in the next round.
func TestGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const segment = 100 << 10
		d := &device{free: 3 * segment, sizes: map[uint64]uint64{}, took: time.Second}
		s, err := NewStore(d.memory(segment, 5*segment))
		require.NoError(t, err)
		x := &slabs{t: t, s: s}
		start := time.Now()
		for i := range 9 {
			b := x.add(30_000)
			require.NotNil(t, b)
			require.True(t, b.At >= b.in.at && b.At+b.size <= b.in.at+segment, "block %d", i)
			time.Sleep(2 * time.Second)
		}
		require.Equal(t, 18*time.Second, time.Since(start), "none waited")
		require.Equal(t, 9, s.blocks.Len())
		require.EqualValues(t, 3*segment, sizeOf(s))
		synctest.Wait()
		require.Equal(t, 1, d.refused, "another process has the rest")
		require.NotNil(t, x.add(30_000), "the first made room")
		require.Nil(t, s.Find(x.sels[0].Slab(0)))
		synctest.Wait()
		require.Equal(t, 1, d.refused)

		d.free = 10 * segment // it ended
		s.Trim()
		require.NotNil(t, x.add(90_000), "it is waited for where nothing is free")
		require.EqualValues(t, 4*segment, sizeOf(s))
		require.NotNil(t, x.add(90_000))
		time.Sleep(time.Second)
		require.EqualValues(t, 5*segment, sizeOf(s), "the limit")
		require.NotNil(t, x.add(90_000))
		time.Sleep(time.Second)
		require.EqualValues(t, 5*segment, sizeOf(s))
		require.NoError(t, s.Check())
		require.NoError(t, s.Close())
		require.EqualValues(t, 13*segment, d.free, "all is back")
		runtime.KeepAlive(x.sels)
	})
}

// TestGivenBack: what no job used for some rounds goes back to the device, but for one segment and what
// is in use. Where the device does not take it back, it is used on.
func TestGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const segment = 100 << 10
		d := &device{free: 10 * segment, sizes: map[uint64]uint64{}}
		s, err := NewStore(d.memory(segment, 4*segment))
		require.NoError(t, err)
		x := &slabs{t: t, s: s}
		rounds := func(n int) {
			for range n {
				s.Trim()
			}
			require.NoError(t, s.Check())
		}
		for range 4 {
			require.NotNil(t, x.add(90_000))
			synctest.Wait()
		}
		require.EqualValues(t, 4*segment, sizeOf(s))
		rounds(idleRounds)
		require.EqualValues(t, 4*segment, sizeOf(s))
		require.NotNil(t, s.Find(x.sels[2].Slab(0)))
		s.blocks.Back().Value.(*Block).pins--
		d.err = cuda.OutOfMemory
		rounds(1)
		require.EqualValues(t, 4*segment, sizeOf(s))
		d.err = nil
		rounds(1)
		require.EqualValues(t, segment, sizeOf(s), "one was used")
		require.EqualValues(t, 9*segment, d.free)
		require.NotNil(t, s.Find(x.sels[2].Slab(0)))
		require.Nil(t, s.Find(x.sels[3].Slab(0)))
		for range 2 * idleRounds {
			s.Trim()
		}
		require.EqualValues(t, segment, sizeOf(s), "it is in use")
		s.Unpin([]*Block{s.blocks.Back().Value.(*Block)})
		require.NoError(t, s.Close())
		require.EqualValues(t, 10*segment, d.free)
		runtime.KeepAlive(x.sels)
	})
}
