package gpuexec

import (
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/promwarp/promwarp/selection"
)

// TestSpans takes and gives back at random: stretches never overlap, and once all
// are back there is one.
func TestSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 1000
		free := spans{{7, size}}
		var held []span
		used := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "give") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				free.give(held[i].at, held[i].size)
				used -= held[i].size
				held = append(held[:i], held[i+1:]...)
			} else if n := rapid.Uint64Range(1, 300).Draw(t, "n"); true {
				at, ok := free.take(n)
				if !ok {
					continue
				}
				for _, h := range held {
					require.True(t, at+n <= h.at || h.at+h.size <= at, "%v and %d+%d overlap", h, at, n)
				}
				require.True(t, at >= 7 && at+n <= 7+size)
				held = append(held, span{at, n})
				used += n
			}
			require.Equal(t, size-used, free.total())
		}
		for _, h := range held {
			free.give(h.at, h.size)
		}
		require.Equal(t, spans{{7, size}}, free)
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

// TestStore: what was not used for longest makes room, what is used stays, what is
// passing goes before others.
func TestStore(t *testing.T) {
	s := newStore(1000, 100<<10)
	var sels []*selection.Selection
	add := func(passing bool) *block {
		sels = append(sels, oneSlab(t, 30_000))
		return s.addSlab(sels[len(sels)-1].Slab(0), passing)
	}
	there := func(want ...bool) {
		t.Helper()
		for i, w := range want {
			b := s.find(sels[i].Slab(0))
			require.Equal(t, w, b != nil, "slab %d", i)
			if b != nil {
				b.pins-- // without having used it
				continue
			}
		}
	}
	a, b, c := add(false), add(false), add(false)
	require.Equal(t, uint64(3*30_208), s.held())
	require.Nil(t, s.addSlab(oneSlab(t, 30_000).Slab(0), false), "all are in use")
	s.unpin([]*block{a, b, c})
	require.Nil(t, s.addSlab(oneSlab(t, 200_000).Slab(0), false), "it never fits")
	there(true, true, true)

	require.True(t, s.pinAll([]*block{a}))
	s.unpin([]*block{a}) // b is now that not used for longest, were it not for there
	_ = s.find(sels[0].Slab(0))
	d := add(true)
	require.NotNil(t, d)
	require.True(t, a.elem != nil, "it is in use")
	require.False(t, s.pinAll([]*block{a, b}), "one is gone")
	require.Equal(t, 1, a.pins)
	s.unpin([]*block{a, d})
	e := add(false)
	require.Nil(t, d.elem, "it was passing")
	require.NotNil(t, a.elem)
	s.discard([]*block{e})
	require.Nil(t, s.find(sels[4].Slab(0)))
	s.drop(a)
	require.Nil(t, a.elem)
	s.drop(a)
	s.removeIf(func(*block) bool { return true })
	require.Zero(t, s.held())
	require.Empty(t, s.slabs)
	require.Equal(t, spans{{1000, 100 << 10}}, s.free)
	runtime.KeepAlive(sels)
}

// TestStoreOfTheDead: what nobody on the host has any more goes.
func TestStoreOfTheDead(t *testing.T) {
	s := newStore(0, 100<<10)
	kept, dropped := oneSlab(t, 30_000), oneSlab(t, 30_000)
	s.unpin([]*block{s.addSlab(kept.Slab(0), false), s.addSlab(dropped.Slab(0), false)})
	s.sweep()
	require.Len(t, s.slabs, 2)
	runtime.KeepAlive(dropped)
	require.Eventually(t, func() bool {
		runtime.GC()
		s.sweep()
		return s.held() == 30_208
	}, 10*time.Second, time.Millisecond)
	b := s.find(kept.Slab(0))
	require.NotNil(t, b)
	runtime.KeepAlive(kept)
}

// TestLoads: transfers are cut into loads that are filled in one go, nothing is left
// out, and what is not near each other is not in one load.
func TestLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 40).Draw(t, "size")
		memory, want := make([]byte, 4000), make([]byte, 4000)
		var ts []transfer
		at := uint64(0)
		for range rapid.IntRange(1, 20).Draw(t, "transfers") {
			at += uint64(rapid.SampledFrom([]int{0, 0, 3, 7, 8, 50}).Draw(t, "gap"))
			from := make([]byte, rapid.IntRange(1, 100).Draw(t, "n"))
			for i := range from {
				from[i] = byte(1 + (int(at)+i)%250)
			}
			ts = append(ts, transfer{from, at})
			copy(want[at:], from)
			at += uint64(len(from))
		}
		for _, l := range loads(ts, size) {
			require.LessOrEqual(t, l.size(), size)
			buf := make([]byte, l.size())
			for i, p := range l {
				copy(buf[p.to-l[0].to:], p.from)
				if i > 0 {
					require.Less(t, p.to-l[i-1].to-uint64(len(l[i-1].from)), uint64(8))
				}
			}
			copy(memory[l[0].to:], buf)
		}
		require.Equal(t, want, memory)
	})
}

func TestTiming(t *testing.T) {
	a := union([]interval{{5, 6}, {0, 2}, {1, 3}, {3, 4}})
	require.Equal(t, []interval{{0, 4}, {5, 6}}, a)
	require.Equal(t, []interval{{1, 2}, {3, 4}, {5, 5.5}}, common(a, []interval{{1, 2}, {3, 5.5}}))
	require.InDelta(t, 5, length(a), 0)
	s := Stages{Link: 2000, CopiedBytes: 1000}
	require.Zero(t, s.CopyRate())
	require.Zero(t, s.Overlap())
	timing := timing{copies: []interval{{0, 1000}}, kernels: []interval{{500, 900}, {1000, 1500}}}
	timing.finish(&s)
	require.Equal(t, 1500*time.Millisecond, s.Device)
	require.InDelta(t, 1000, s.CopyRate(), 1e-9)
	require.InDelta(t, 0.5, s.LinkShare(), 1e-9)
	require.InDelta(t, 4.0/9, s.Overlap(), 1e-9)
	require.Zero(t, (&Stages{}).LinkShare())
}
