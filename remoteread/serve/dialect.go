package serve

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/encoding"
	"github.com/promwarp/promwarp/selection/samples"
)

// reencode returns the samples of chunk c of one within the range of f as a chunk in encoding enc.
//
// A chunk of which something is cut off is what Prometheus's database makes of it. So its
// first histogram does not say that it is no counter reset: what is before it was cut off.
// A chunk that only changes its encoding says of resets what it said.
func (s *stream) reencode(f found, one series, c selection.Chunk, enc chunkenc.Encoding) (p prompb.Chunk, err error) {
	p.Type = prompb.Chunk_Encoding(enc)
	if enc == chunkenc.EncXOR {
		times, values, err := s.decoded.within(f, one, []selection.Chunk{c})
		if err == nil && len(times) > 0 {
			p.MinTimeMs, p.MaxTimeMs, p.Data = times[0], times[len(times)-1], encoding.AppendXOR(nil, times, values)
		}
		return p, err
	}
	s.decoder = one.sel.Decode(one.i, []selection.Chunk{c}, f.mint, f.maxt, s.decoder)
	p.Data, p.MinTimeMs, p.MaxTimeMs, err = samples.Encode(enc, s.decoder)
	if err == nil {
		if k := resetByte(c.Enc); k >= 0 && f.holds(c) && p.Data != nil {
			setReset(enc, p.Data, one.sel.Bytes(c)[k])
		}
		return p, nil
	}
	if s.decoder.Err() == nil {
		err = fmt.Errorf("encoding a chunk of series %s at %d ms again: %w", one.labels, s.decoder.AtT(), err)
	}
	return p, err
}

// setReset makes data, a chunk of histograms in encoding e, say of resets what the byte of another
// one says.
func setReset(e chunkenc.Encoding, data []byte, said byte) {
	at := &data[resetByte(e)]
	*at = *at&^chunkenc.CounterResetHeaderMask | said&chunkenc.CounterResetHeaderMask
}

// resetByte returns which byte of a chunk in encoding e says in its highest two bits
// whether its first histogram is after a counter reset; -1 if none does.
func resetByte(e chunkenc.Encoding) int {
	switch e {
	case chunkenc.EncHistogram, chunkenc.EncFloatHistogram:
		return 2
	case chunkenc.EncHistogramST, chunkenc.EncFloatHistogramST:
		return 0
	}
	return -1
}

// floats decodes chunks without histograms.
type floats struct{ decode.Buffer }

// within returns the samples of chunks of one within the range of f, valid until the next call.
func (b *floats) within(f found, one series, chunks []selection.Chunk) ([]int64, []float64, error) {
	b.Reset()
	if _, err := b.Read(one.sel, one.i, chunks, false); err != nil {
		one.sel.Discard()
		return nil, nil, err
	}
	lo, _ := slices.BinarySearch(b.Times, f.mint)
	hi, ok := slices.BinarySearch(b.Times, f.maxt)
	if ok {
		hi++
	}
	return b.Times[lo:max(lo, hi)], b.Values[lo:max(lo, hi)], nil
}

// dialect is what a reader understands beside XOR and the histogram encodings without
// start timestamps, which everybody does.
type dialect struct {
	xor2        bool
	histogramST bool
}

var everything = dialect{xor2: true, histogramST: true}

// The releases of Prometheus, 3.x, whose readers know an encoding. The encodings have not
// changed since.
const (
	minorXOR2        = 11
	minorHistogramST = 14
)

// dialectOf returns what whoever sent r understands: what its URL says, or else what its User-Agent is
// known to.
func dialectOf(r *http.Request) (dialect, error) {
	switch text := r.URL.Query().Get("chunks"); text {
	case "as-is":
		return everything, nil
	case "xor":
		return dialect{}, nil
	case "", "auto":
		return knownTo(r.UserAgent()), nil
	default:
		return dialect{}, refuse("parameter chunks: unknown chunk encodings %q; there are auto, xor and as-is", text)
	}
}

// knownTo returns what a reader with this User-Agent understands.
func knownTo(userAgent string) dialect {
	if name, _ := product(userAgent); name == "promwarp" {
		return everything
	}
	r := releaseOf(userAgent)
	since := func(m int) bool { return r.Major > 3 || r.Major == 3 && r.Minor >= m }
	return dialect{xor2: since(minorXOR2), histogramST: since(minorHistogramST)}
}

// product returns what a User-Agent says first.
func product(userAgent string) (name, version string) {
	first, _, _ := strings.Cut(userAgent, " ")
	name, version, _ = strings.Cut(first, "/")
	return name, version
}

// Release is a release of Prometheus, such as 3.15.
type Release struct{ Major, Minor int }

// releaseOf returns the release of the Prometheus with this User-Agent, whose version is such
// as 3.15.0 or 3.15.0+build. One before a release, such as 3.15.0-rc.0, counts as the release
// before. Whoever is no Prometheus, or does not say of which release, has the zero release.
func releaseOf(userAgent string) Release {
	name, version := product(userAgent)
	version, _, _ = strings.Cut(version, "+")
	version, _, before := strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	if name != "Prometheus" || len(parts) < 2 {
		return Release{}
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return Release{}
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil {
		return Release{}
	}
	if before {
		minor--
	}
	return Release{major, minor}
}

// encoding returns the encoding in which chunks in encoding e are sent.
func (d dialect) encoding(e chunkenc.Encoding) chunkenc.Encoding {
	switch {
	case e == chunkenc.EncXOR2 && !d.xor2:
		return chunkenc.EncXOR
	case e == chunkenc.EncHistogramST && !d.histogramST:
		return chunkenc.EncHistogram
	case e == chunkenc.EncFloatHistogramST && !d.histogramST:
		return chunkenc.EncFloatHistogram
	}
	return e
}
