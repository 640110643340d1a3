package frame

import "github.com/promwarp/promwarp/cpuexec/exact"

// Block are some windows whose samples are added up side by side: each addition waits for the one
// before it in the same window, and a processor does those of others meanwhile, several an
// instruction.
type Block struct {
	Steps, Lo, Hi []int32 // of each window
	Common        int     // samples that each has at least; 0 where windows are too few
	// Every is how many samples behind the first one of each window that of the next is, where windows
	// overlap and all are alike in that, and else 0.
	Every int
}

// MostAbreast is the number of windows in a block.
const MostAbreast = 64

// Blocks returns the windows that have so many samples or more; a frame is only ever used for one
// function.
func (f *Frame) Blocks(least int32) []Block {
	f.extraMade.Do(func() { f.blocks = f.makeBlocks(least) })
	return f.blocks
}

// makeBlocks makes the blocks of b, each of windows of about as many samples.
func (b *Bounds) makeBlocks(least int32) (blocks []Block) {
	var all Block
	for k, lo := range b.Lo {
		if hi := b.Hi[k]; hi-lo >= least {
			all.Steps, all.Lo, all.Hi = append(all.Steps, int32(k)), append(all.Lo, lo), append(all.Hi, hi)
		}
	}
	for len(all.Steps) > 0 {
		block := all.first()
		n := len(block.Steps)
		all = Block{Steps: all.Steps[n:], Lo: all.Lo[n:], Hi: all.Hi[n:]}
		blocks = append(blocks, block)
	}
	return blocks
}

// first is the first block of all windows.
func (b *Block) first() Block {
	n, every, even := 1, 0, true
	low := int(b.Hi[0] - b.Lo[0])
	for high := low; n < min(len(b.Steps), MostAbreast); n++ {
		size := int(b.Hi[n] - b.Lo[n])
		least, most := min(low, size), max(high, size)
		if most-least > 1+least/8 {
			break
		}
		if low, high = least, most; n == 1 {
			every = int(b.Lo[1] - b.Lo[0])
		}
		even = even && int(b.Lo[n]-b.Lo[0]) == n*every
	}
	block := Block{Steps: b.Steps[:n], Lo: b.Lo[:n], Hi: b.Hi[:n]}
	if n < exact.Lanes {
		return block
	}
	if block.Common = low; even && 2*every <= low {
		block.Every = every
	}
	return block
}
