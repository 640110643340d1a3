package compress

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/encode"
	"github.com/promwarp/promwarp/internal/memory"
)

// TestChecksum: blocks behind each other have the checksum of the whole, wherever it is cut.
func TestChecksum(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	whole := pointsJSON(300_000)
	for range 100 {
		var c checksum
		for b := whole; len(b) > 0; {
			k := min(len(b), 1<<r.IntN(19))
			c.add(crc32.ChecksumIEEE(b[:k]), k)
			b = b[k:]
		}
		require.Equal(t, crc32.ChecksumIEEE(whole), c.sum)
		require.Equal(t, uint64(len(whole)), c.size)
	}
	var c checksum
	c.add(crc32.ChecksumIEEE(nil), 0)
	require.Equal(t, make([]byte, 8), c.trailer())
}

// TestPack: what several goroutines pack, in any order, comes in the order in which it is
// written, among what is written otherwise.
func TestPack(t *testing.T) {
	for _, cores := range []int{2, 5} {
		var to bytes.Buffer
		s := newBlocked(&to, cores)
		pieces := make([][]byte, 40)
		writes := make([]func() error, len(pieces))
		var wg sync.WaitGroup
		for i := range pieces {
			pieces[i] = []byte("piece " + strconv.Itoa(i) + string(pointsJSON(i*3000)))
			wg.Go(func() {
				own := slices.Clone(pieces[i])
				writes[i] = s.Pack(own)
				clear(own)
			})
		}
		wg.Wait()
		var want []byte
		for i := range pieces {
			between := pointsJSON(i * 20)
			_, err := s.Write(between)
			require.NoError(t, err)
			if i%7 == 0 {
				require.NoError(t, s.Flush())
				require.True(t, bytes.HasSuffix(to.Bytes(), []byte{0, 0, 0xff, 0xff}), "what is flushed can be read")
			}
			require.NoError(t, writes[i]())
			want = append(append(want, between...), pieces[i]...)
		}
		require.NoError(t, s.Close())
		require.True(t, bytes.Equal(want, read(t, "gzip", bytes.NewReader(to.Bytes()))))
		// One member, since not every client reads several.
		z, err := gzip.NewReader(&to)
		require.NoError(t, err)
		z.Multistream(false)
		n, err := io.Copy(io.Discard, z)
		require.NoError(t, err)
		require.Equal(t, int64(len(want)), n)
	}
}

// TestPackGone: who packs for a client that has gone is told so.
func TestPackGone(t *testing.T) {
	s := newBlocked(failing{httptest.NewRecorder()}, 2)
	require.Eventually(t, func() bool { return s.Pack(pointsJSON(block))() != nil }, time.Minute, time.Millisecond)
	require.ErrorIs(t, s.Flush(), errGone)
	require.ErrorIs(t, s.Close(), errGone)
}

// panics is a client whose connection panics.
type panics struct{ http.ResponseWriter }

func (panics) Write([]byte) (int, error) { panic("a connection's") }

// TestPackPanics: what a connection panics with is an error of the answer.
func TestPackPanics(t *testing.T) {
	s := newBlocked(panics{httptest.NewRecorder()}, 2)
	require.ErrorContains(t, s.Flush(), "a connection's")
	require.ErrorContains(t, s.Close(), "a connection's")
}

// TestPacker: only gzip on several cores packs.
func TestPacker(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for _, c := range []struct {
		accept string
		pool   *memory.Pool
		packs  bool
	}{
		{"gzip", nil, true},
		{"gzip", memory.New(memory.Options{Limit: 1 << 30}), true},
		{"gzip", memory.New(memory.Options{Limit: 1 << 20}), false},
		{"zstd", nil, false},
	} {
		h := Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "head")
			p := w.(encode.Packs).Packer()
			require.Equal(t, c.packs, p != nil, c.accept)
			if p != nil {
				require.NoError(t, p.Pack([]byte(", piece"))())
			}
			_, _ = io.WriteString(w, ", tail")
		}), c.pool)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", c.accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, c.accept, w.Header().Get("Content-Encoding"))
		want := "head, tail"
		if c.packs {
			want = "head, piece, tail"
		}
		require.Equal(t, want, string(read(t, c.accept, w.Body)))
	}
}
