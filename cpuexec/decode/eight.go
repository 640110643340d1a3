package decode

import (
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection"
)

// This file has several chunks decoded at once. Each position in a chunk waits for the one before,
// and branches on a sample's bits are often guessed wrong; with a chunk in each lane of a vector
// there are no such branches, and eight positions are waited for at once.

const (
	lanes = 8 // of a vector
	// AtOnce is the number of chunks that are decoded at once, at most: lanes of two vectors.
	AtOnce = 2 * lanes
	// fewest is the number of chunks of one length from which on decoding them at once is faster.
	fewest = 5
)

// placed is a chunk that is decoded to where its samples belong: the buffer's samples from at on.
type placed struct {
	selection.Chunk
	at    int
	last  int64 // time of the last sample
	stale bool  // a stale marker is among its values
	err   error
}

// samples is the memory of the chunk's samples.
func (p *placed) samples(c *Buffer) ([]int64, []float64) {
	end := p.at + int(p.Samples)
	return c.Times[p.at:end:end], c.Values[p.at:end:end]
}

// decodePlaced decodes all of c.placed: as many as can be at once, and the others one by one. Of
// a chunk with less than four bits a sample most samples repeat the one before, and decodeXOR
// decodes a run of these at once.
func (c *Buffer) decodePlaced(s *selection.Selection) {
	c.lanes = c.lanes[:0]
	prefetchAll(s, c.placed[:min(AtOnce, len(c.placed))])
	for i := range c.placed {
		p := &c.placed[i]
		if hasEight && p.Enc == chunkenc.EncXOR && p.Len >= uint32(p.Samples)/2 {
			c.lanes = append(c.lanes, i)
			if len(c.lanes) == AtOnce {
				next := c.placed[i+1:]
				prefetchAll(s, next[:min(AtOnce, len(next))])
				c.decodeAtOnce(s)
			}
			continue
		}
		c.decodeOne(s, p, nil)
	}
	c.decodeAtOnce(s)
}

// decodeAtOnce decodes the chunks of c.lanes, at most AtOnce, and empties it. The time is that
// of the longest, so they must be long enough together.
func (c *Buffer) decodeAtOnce(s *selection.Selection) {
	longest, samples := 0, 0
	for _, i := range c.lanes {
		n := int(c.placed[i].Samples)
		longest, samples = max(longest, n), samples+n
	}
	done := uint16(0)
	if len(c.lanes) > 1 && samples >= fewest*longest {
		done = c.decodeLanes(s)
	}
	for k, i := range c.lanes {
		if done>>k&1 == 0 {
			c.decodeOne(s, &c.placed[i], nil)
		}
	}
	c.lanes = c.lanes[:0]
}
