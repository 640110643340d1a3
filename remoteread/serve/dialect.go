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
