package decode

import (
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection"
)

// This file has several chunks of a series decoded at once. Each position in a chunk waits for the
// one before, and branches on a sample's bits are often guessed wrong; with a chunk in each lane
// of a vector there are no such branches, and eight positions are waited for at once.

const (
	lanes = 8 // of a vector
	// mostAtOnce is the number of chunks that are decoded at once, at most: lanes of two vectors.
	mostAtOnce = 2 * lanes
	// fewest is the number of chunks of one length from which on decoding them at once is faster.
	fewest = 4
)

// several is how many of the first chunks to decode at once. The time is that of the longest, so
// they must be long enough together. Of a chunk with less than four bits a sample most samples
// repeat the one before, and decodeXOR decodes a run of these at once.
func (c *Buffer) several(cs []selection.Chunk) int {
	n, longest, samples := 0, 0, 0
	if hasEight && !c.WantStarts {
		for _, ch := range cs[:min(mostAtOnce, len(cs))] {
			if ch.Enc != chunkenc.EncXOR || ch.Len < uint32(ch.Samples)/2 {
				break
			}
			longest, samples = max(longest, int(ch.Samples)), samples+int(ch.Samples)
			n++
		}
	}
	if samples < fewest*longest {
		return 1
	}
	return max(n, 1)
}

// outcome is what decoding a chunk came to.
type outcome struct {
	stale bool // a stale marker is among its values
	err   error
}

// decodeAtOnce decodes XOR chunks of s, at most mostAtOnce, one behind the other into ts and vs.
func decodeAtOnce(s *selection.Selection, cs []selection.Chunk, ts []int64, vs []float64) (out [mostAtOnce]outcome) {
	done, stale := decodeLanes(s, cs, ts, vs)
	at := 0
	for i, ch := range cs {
		n := int(ch.Samples)
		if out[i].stale = stale>>i&1 != 0; done>>i&1 == 0 {
			out[i].stale, out[i].err = decodeXOR(s.Bytes(ch), ts[at:at+n], vs[at:at+n])
		}
		at += n
	}
	return out
}
