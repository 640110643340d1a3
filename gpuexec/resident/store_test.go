package resident

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/promwarp/promwarp/selection"
)

// TestSpans takes and gives back at random: stretches never overlap or lie in two segments, and once all
// are back there is one a segment.
func TestSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 1000
		one, another := &segment{}, &segment{}
		free := spans{{7, size / 2, one}, {7 + size/2, size / 2, another}}
		whole := slices.Clone(free)
		var held []span
		used := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "give") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				free.give(held[i])
				used -= held[i].size
				held = append(held[:i], held[i+1:]...)
			} else if n := rapid.Uint64Range(1, 300).Draw(t, "n"); true {
				f, ok := free.take(n)
				if !ok {
					continue
				}
				require.Equal(t, n, f.size)
				for _, h := range held {
					require.True(t, f.at+n <= h.at || h.at+h.size <= f.at, "%v and %v overlap", h, f)
				}
				in := slices.IndexFunc(whole, func(w span) bool { return w.in == f.in })
				require.True(t, f.at >= whole[in].at && f.at+n <= whole[in].at+size/2, "%v is not in one segment", f)
				held = append(held, f)
				used += n
			}
			require.Equal(t, size-used, free.total())
		}
		for _, h := range held {
			free.give(h)
		}
		require.Equal(t, whole, free)
	})
}

// oneSlab is a selection of one slab of about n bytes.
func oneSlab(t testing.TB, n int) *selection.Selection {
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("a", "b"))
	data := make([]byte, n)
	data[1] = 1
	require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 0, data))
	sel, err := b.Finish()
	require.NoError(t, err)
	require.Equal(t, 1, sel.NumSlabs())
	return sel
}

// fixed is a store of one segment.
func fixed(t testing.TB, at, size uint64) *Store {
	s, err := NewStore(Memory{
		Segment: size, Limit: size,
		Alloc: func(uint64) (uint64, error) { return at, nil }, Free: func(uint64) error { return nil },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// TestStore: what was not used for longest makes room, what is used stays.
func TestStore(t *testing.T) {
	s := fixed(t, 1000, 100<<10)
	var sels []*selection.Selection
	add := func() *Block {
		sels = append(sels, oneSlab(t, 30_000))
		return s.AddSlab(sels[len(sels)-1].Slab(0))
	}
	there := func(want ...bool) {
		t.Helper()
		for i, w := range want {
			b := s.Find(sels[i].Slab(0))
			require.Equal(t, w, b != nil, "slab %d", i)
			if b != nil {
				b.pins-- // without having used it
				continue
			}
		}
	}
	a, b, c := add(), add(), add()
	require.Equal(t, uint64(3*30_208), held(s))
	require.Nil(t, s.AddSlab(oneSlab(t, 30_000).Slab(0)), "all are in use")
	s.Unpin([]*Block{a, b, c})
	require.Nil(t, s.AddSlab(oneSlab(t, 200_000).Slab(0)), "it never fits")
	there(true, true, true)

	require.True(t, s.PinAll([]*Block{a}))
	s.Unpin([]*Block{a}) // b is now that not used for longest, were it not for there
	_ = s.Find(sels[0].Slab(0))
	d := add()
	require.NotNil(t, d)
	require.True(t, a.elem != nil, "it is in use")
	require.False(t, s.PinAll([]*Block{a, b}), "one is gone")
	require.Equal(t, 1, a.pins)
	s.Unpin([]*Block{a, d})
	e := add()
	require.Nil(t, c.elem, "it was not used for longest")
	require.NotNil(t, a.elem)
	require.NotNil(t, d.elem)
	s.Discard([]*Block{e})
	require.Nil(t, s.Find(sels[4].Slab(0)))
	s.Drop(a)
	require.Nil(t, a.elem)
	s.Drop(a)
	s.Clear()
	require.Zero(t, held(s))
	require.Empty(t, s.slabs)
	require.Equal(t, spans{{1000, 100 << 10, s.segments[0]}}, s.free)
	runtime.KeepAlive(sels)
}

// TestKeeps: slabs stay of which a quarter is needed, if they and their packed tiles fit beside what jobs use
// or have used lately, or if they are there.
func TestKeeps(t *testing.T) {
	s := fixed(t, 0, 200<<10)
	sel, owner := oneSlab(t, 30_000), 0
	_, all := s.Share(sel)
	require.True(t, s.Keeps(sel, int64(all)))
	require.True(t, s.Keeps(sel, int64(all)/4+1))
	require.False(t, s.Keeps(sel, int64(all)/4-1))
	other := Add(s, &owner, 100_000)
	s.round += idleRounds + 1
	require.False(t, s.Keeps(sel, int64(all)), "a job uses it")
	s.Unpin([]*Block{other})
	require.True(t, s.Keeps(sel, int64(all)))
	other.used = s.round
	require.False(t, s.Keeps(sel, int64(all)), "it was just used")
	s.Unpin([]*Block{s.AddSlab(sel.Slab(0))})
	require.True(t, s.Keeps(sel, int64(all)), "it is there")
	require.NotNil(t, other.elem)
	runtime.KeepAlive(&owner)
}

// TestStoreOfTheDead: what the host has no more goes.
func TestStoreOfTheDead(t *testing.T) {
	s := fixed(t, 0, 100<<10)
	kept, dropped := oneSlab(t, 30_000), oneSlab(t, 30_000)
	s.Unpin([]*Block{s.AddSlab(kept.Slab(0)), s.AddSlab(dropped.Slab(0))})
	s.Sweep()
	require.Len(t, s.slabs, 2)
	runtime.KeepAlive(dropped)
	require.Eventually(t, func() bool {
		runtime.GC()
		s.Sweep()
		return held(s) == 30_208
	}, 10*time.Second, time.Millisecond)
	b := s.Find(kept.Slab(0))
	require.NotNil(t, b)
	runtime.KeepAlive(kept)
}

// TestLoads: transfers are cut into loads that are filled in one go, nothing is left
// out, and what is not near each other is not in one load.
func TestLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 40).Draw(t, "size")
		memory, want := make([]byte, 4000), make([]byte, 4000)
		var ts []Transfer
		at := uint64(0)
		for range rapid.IntRange(1, 20).Draw(t, "transfers") {
			at += uint64(rapid.SampledFrom([]int{0, 0, 3, 7, 8, 50}).Draw(t, "gap"))
			from := make([]byte, rapid.IntRange(1, 100).Draw(t, "n"))
			for i := range from {
				from[i] = byte(1 + (int(at)+i)%250)
			}
			ts = append(ts, Transfer{from, at})
			copy(want[at:], from)
			at += uint64(len(from))
		}
		for _, l := range loads(ts, size) {
			require.LessOrEqual(t, l.size(), size)
			buf := make([]byte, l.size())
			for i, p := range l {
				copy(buf[p.To-l[0].To:], p.From)
				if i > 0 {
					require.Less(t, p.To-l[i-1].To-uint64(len(l[i-1].From)), uint64(8))
				}
			}
			copy(memory[l[0].To:], buf)
		}
		require.Equal(t, want, memory)
	})
}

// held is the number of bytes in blocks.
func held(s *Store) uint64 {
	n, _ := s.Used()
	return n
}
