package points

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	klauspost "github.com/klauspost/compress/flate"
	"github.com/stretchr/testify/require"
)

func Example() {
	text := []byte(`[[1795343880,"9.09"],[1795343940,"14.3"],[1795344000,"14.3"],[1795344060,"0"]]`)
	var e Encoder
	stream := e.Append(nil, text)
	stream = append(stream, 1, 0, 0, 0xff, 0xff) // the last block
	got, err := io.ReadAll(flate.NewReader(bytes.NewReader(stream)))
	fmt.Println(string(got), err)
	// Output: [[1795343880,"9.09"],[1795343940,"14.3"],[1795344000,"14.3"],[1795344060,"0"]] <nil>
}

// series appends a series' JSON, with values made by value and times made by at.
func series(b []byte, n int, at func(i int) float64, value func(i int) float64) []byte {
	b = append(b, `{"metric":{"__name__":"http_requests_total","instance":"host-`...)
	b = strconv.AppendInt(b, int64(len(b)), 10)
	b = append(b, `:8080"},"values":[`...)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendFloat(b, at(i), 'f', -1, 64)
		b = append(b, `,"`...)
		b = strconv.AppendFloat(b, value(i), 'f', -1, 64)
		b = append(b, `"]`...)
	}
	return append(b, `]},`...)
}

func minutes(i int) float64 { return float64(1_795_000_000 + i*60) }

// texts are answers of kinds that differ in what the finder sees.
func texts() map[string][]byte {
	r := rand.New(rand.NewPCG(5, 6))
	made := func(at, value func(i int) float64) []byte {
		var b []byte
		for len(b) < 300_000 {
			b = series(b, 1+r.IntN(3000), at, value)
		}
		return b
	}
	noise := make([]byte, 200_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	few := func() []byte {
		var b []byte
		for range 3000 {
			b = series(b, 1, minutes, func(int) float64 { return r.Float64() })
		}
		return b
	}
	return map[string][]byte{
		"nothing":          {},
		"a byte":           {7},
		"rates":            made(minutes, func(int) float64 { return float64(r.IntN(30_000)) / 285 }),
		"random":           made(minutes, func(int) float64 { return r.NormFloat64() }),
		"negative bytes":   made(minutes, func(int) float64 { return -float64(r.IntN(1<<30) &^ 0xfff) }),
		"constant":         made(minutes, func(int) float64 { return 1 }),
		"no numbers":       made(minutes, func(i int) float64 { return []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0}[i%4] }),
		"large":            made(minutes, func(int) float64 { return r.ExpFloat64() * math.Pow(10, float64(r.IntN(300))) }),
		"milliseconds":     made(func(i int) float64 { return minutes(i) + float64(r.IntN(1000))/1000 }, func(i int) float64 { return float64(i / 7) }),
		"early times":      made(func(i int) float64 { return float64(i-1000) / 8 }, func(int) float64 { return r.Float64() }),
		"one point each":   few(),
		"noise":            noise,
		"separators":       bytes.Repeat(separator, 50_000),
		"separators apart": bytes.Repeat([]byte(`"],[`+strings.Repeat("x", 300)), 1000),
		"quotes":           bytes.Repeat([]byte(`"],["`), 50_000),
		"long times":       bytes.Repeat([]byte(`"],[`+strings.Repeat("1", 37)+`,"2`), 5000),
		"zero bytes":       make([]byte, 100_000),
	}
}

// check requires that texts, each compressed by itself, read back in one stream.
func check(t testing.TB, e *Encoder, texts ...[]byte) []byte {
	t.Helper()
	prefix := "what was there"
	stream := []byte(prefix)
	for _, text := range texts {
		stream = e.Append(stream, text)
		require.True(t, bytes.HasSuffix(stream, []byte{0, 0, 0xff, 0xff}))
	}
	require.True(t, bytes.HasPrefix(stream, []byte(prefix)))
	stream = stream[len(prefix):]
	got, err := io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(stream), bytes.NewReader([]byte{1, 0, 0, 0xff, 0xff}))))
	require.NoError(t, err)
	require.True(t, bytes.Equal(bytes.Join(texts, nil), got))
	return stream
}

// TestTexts: everything reads back, whole, cut anywhere, and one text after the other with the
// same encoder.
func TestTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var e Encoder
	all := texts()
	for name, text := range all {
		t.Run(name, func(t *testing.T) {
			check(t, &e, text)
			for range 8 {
				from := r.IntN(len(text) + 1)
				to := from + r.IntN(len(text)-from+1)
				middle := from + r.IntN(to-from+1)
				check(t, &e, text[from:middle], text[middle:to])
			}
		})
	}
	for range 300 {
		check(t, &e, all["rates"][:r.IntN(400)])
	}
}

// TestSmaller: points become smaller than with the fastest level of the standard library.
func TestSmaller(t *testing.T) {
	all := texts()
	for _, name := range []string{"rates", "random", "negative bytes", "constant", "early times"} {
		var e Encoder
		var other bytes.Buffer
		z, err := flate.NewWriter(&other, 1)
		require.NoError(t, err)
		_, err = z.Write(all[name])
		require.NoError(t, err)
		require.NoError(t, z.Close())
		require.Less(t, len(e.Append(nil, all[name])), other.Len(), name)
	}
}

func TestSuits(t *testing.T) {
	all := texts()
	for name, want := range map[string]bool{
		"rates": true, "random": true, "constant": true, "milliseconds": true, "large": false,
		"one point each": false, "noise": false, "nothing": false, "separators apart": false,
	} {
		require.Equal(t, want, Suits(all[name]), name)
	}
	require.False(t, Suits(all["rates"][:1000]))
	require.False(t, Suits(bytes.Repeat(all["rates"], MaxText/300_000+1)))
	require.Panics(t, func() { new(Encoder).Append(nil, make([]byte, MaxText+1)) })
}

// TestLongest: a text of the greatest size, all of it literals.
func TestLongest(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	noise := make([]byte, MaxText)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	var e Encoder
	check(t, &e, noise)
	check(t, &e, bytes.Repeat([]byte{'0'}, MaxText))
}

// TestLengths: codes are complete and no longer than they may be, whatever the counts are.
func TestLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var b builder
	for round := range 2000 {
		counts := make([]uint32, 2+r.IntN(symbols-1))
		x, y := uint32(1), uint32(1)
		for i := range counts {
			switch round % 4 {
			case 0: // a tree as deep as there are symbols
				counts[i] = x
				if x, y = y, x+y; y > 1<<21 {
					x, y = 1, 1
				}
			case 1:
				counts[i] = r.Uint32N(3)
			case 2:
				counts[i] = 1 << r.IntN(22)
			case 3:
				counts[i] = 1
			}
		}
		counts[0], counts[1] = max(counts[0], 1), max(counts[1], 1)
		for _, most := range []int{maxBits, 15} {
			length := make([]uint8, len(counts))
			b.lengths(counts, length, most)
			room := 1 << most
			for s, n := range length {
				require.Equal(t, counts[s] == 0, n == 0)
				require.LessOrEqual(t, int(n), most)
				if n > 0 {
					room -= 1 << (most - int(n))
				}
			}
			require.Zero(t, room, "round %d: codes are not complete", round)
		}
	}
}

func FuzzAppend(f *testing.F) {
	for _, text := range texts() {
		f.Add(text[:min(len(text), 3000)], uint16(1000), uint8(3))
	}
	var e Encoder
	f.Fuzz(func(t *testing.T, text []byte, cut uint16, times uint8) {
		// Short texts are looked at only when there are more of them.
		text = bytes.Repeat(text, 1+int(times)%8)
		k := min(int(cut), len(text))
		check(t, &e, text[:k], text[k:])
	})
}

// BenchmarkAppend compares with what compresses any text, at the level that answers have otherwise.
func BenchmarkAppend(b *testing.B) {
	all := texts()
	for _, name := range []string{"rates", "random", "negative bytes", "constant"} {
		text := all[name][:150_000]
		var e Encoder
		z, err := klauspost.NewWriter(nil, 3)
		require.NoError(b, err)
		var out bytes.Buffer
		for by, f := range map[string]func(){
			"points": func() { out.Write(e.Append(out.AvailableBuffer(), text)) },
			"level 3": func() {
				z.Reset(&out)
				_, _ = z.Write(text)
				_ = z.Flush()
			},
		} {
			b.Run(name+"/"+by, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					out.Reset()
					f()
				}
				b.ReportMetric(float64(len(text))/float64(out.Len()), "times-smaller")
			})
		}
	}
}
