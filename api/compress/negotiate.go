package compress

import (
	"strconv"
	"strings"
)

// coding is a content coding of HTTP (RFC 9110, section 8.4.1), "" for none.
type coding string

const (
	identity  coding = ""
	gzipped   coding = "gzip"
	deflate   coding = "deflate"
	zstandard coding = "zstd"
)

// preferred is the coding that an Accept-Encoding header prefers. Of codings that a client
// likes alike gzip is best, which uses all cores, and deflate worst. As in Prometheus,
// codings are written in small letters, and a star stands for none.
func preferred(accept string) coding {
	best, most := identity, 0.0
	for _, c := range []coding{gzipped, zstandard, deflate} {
		if q := weight(accept, c); q > most {
			best, most = c, q
		}
	}
	if best != identity && weight(accept, "identity") > most {
		return identity
	}
	return best
}

// weight is the weight, from 0 to 1, that an Accept-Encoding header gives a coding: 0 for
// one that is not accepted.
func weight(accept string, c coding) float64 {
	for element := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(element, ";")
		if strings.TrimSpace(name) != string(c) {
			continue
		}
		key, value, _ := strings.Cut(strings.TrimSpace(params), "=")
		if q, err := strconv.ParseFloat(value, 64); strings.EqualFold(key, "q") && err == nil && q >= 0 && q <= 1 {
			return q
		}
		return 1
	}
	return 0
}
