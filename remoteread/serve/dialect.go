package serve

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Chunks says which chunk encodings readers get.
type Chunks string

// The values of Chunks.
const (
	// Auto sends what the reader is known to understand, by its User-Agent: encodings
	// as they are stored to promwarp and to a Prometheus that has them, XOR and the
	// histogram encodings without start timestamps to all others.
	Auto Chunks = "auto"
	// XOR sends everybody those.
	XOR Chunks = "xor"
	// AsIs sends everybody encodings as they are stored.
	AsIs Chunks = "as-is"
)

// chunksParameter is the parameter in a URL by which a reader says what it understands.
const chunksParameter = "chunks"

// ParseChunks reads a Chunks.
func ParseChunks(text string) (Chunks, error) {
	switch c := Chunks(text); c {
	case Auto, XOR, AsIs:
		return c, nil
	}
	return "", fmt.Errorf("unknown chunk encodings %q; there are auto, xor and as-is", text)
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

// dialectOf returns what whoever sent r understands: what its URL says, or else what
// standard says.
func dialectOf(standard Chunks, r *http.Request) (dialect, error) {
	if text := r.URL.Query().Get(chunksParameter); text != "" {
		var err error
		if standard, err = ParseChunks(text); err != nil {
			return dialect{}, refuse("parameter %s: %w", chunksParameter, err)
		}
	}
	switch standard {
	case XOR:
		return dialect{}, nil
	case AsIs:
		return everything, nil
	}
	return knownTo(r.UserAgent()), nil
}

// knownTo returns what a reader with this User-Agent understands.
func knownTo(userAgent string) dialect {
	product, _, _ := strings.Cut(userAgent, " ")
	name, version, _ := strings.Cut(product, "/")
	switch name {
	case "promwarp":
		return everything
	case "Prometheus":
		major, minor, ok := release(version)
		if !ok {
			return dialect{}
		}
		since := func(m int) bool { return major > 3 || major == 3 && minor >= m }
		return dialect{xor2: since(minorXOR2), histogramST: since(minorHistogramST)}
	}
	return dialect{}
}

// release reads a version such as 3.15.0 or 3.15.0+build. One before a release, such as
// 3.15.0-rc.0, counts as the release before.
func release(version string) (major, minor int, ok bool) {
	version, _, _ = strings.Cut(version, "+")
	version, _, before := strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, 0, false
	}
	if minor, err = strconv.Atoi(parts[1]); err != nil {
		return 0, 0, false
	}
	if before {
		minor--
	}
	return major, minor, true
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
