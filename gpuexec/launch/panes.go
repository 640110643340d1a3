package launch

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/kernels/abi"
)

// Panes are the stretches of time between neighbouring edges of windows, of which
// sums and extremes are made once for all windows that share them.
type Panes struct {
	Head  int64  // ms; where a step has two panes, the first is so long
	Per   uint32 // panes a step: window k begins with pane k*Per
	Count uint32 // of all
	Block uint32 // neighbouring panes that are summed up together
	Span  uint32 // panes of a window, more than a block
}

// minPanes is the least number of steps, and of steps that a sample is in the
// windows of, for which panes are worth their memory; maxPanes is the largest number
// of panes a step.
const minPanes, maxPanes = 8, 256

// maxBlock is the largest number of panes in a block: a thread goes through one.
const maxBlock = 128

// PanesOf cuts the windows of s into panes. It reports false where that is not
// worth it. It must depend on nothing but s: a mean's last bits do on how it is made.
func PanesOf(s Steps) (p Panes, ok bool) {
	if s.Interval <= 0 || s.Count < minPanes || s.Width/s.Interval < minPanes || s.Width/s.Interval > maxPanes*int64(s.Count) {
		return p, false
	}
	p = Panes{Head: s.Width % s.Interval, Per: 1, Span: uint32(s.Width / s.Interval)}
	if p.Head > 0 {
		p.Per, p.Span = 2, 2*p.Span+1
	}
	p.Count = p.Per*(s.Count-1) + p.Span
	p.Block = min(p.Span/2, maxBlock)
	return p, p.Count/p.Block < MaxGridY
}

// Bytes is the memory that the panes of a tile of series take, for each of the
// suffixes and the prefixes.
func (p *Panes) Bytes(op abi.Operator) int {
	if op == abi.OperatorMin || op == abi.OperatorMax {
		return int(p.Count) * abi.TileChunks * abi.ExtremeBytes
	}
	return int(p.Count) * abi.TileChunks * abi.TotalBytes
}

// WindowPanes puts a function of windows that are cut into panes on the queue.
// suffix and prefix have p.Bytes for each tile.
func (q Queue) WindowPanes(b *Batch, steps Steps, p *Panes, op abi.Operator, suffix, prefix cuda.Pointer, out Output) error {
	grid := Blocks(b.Tiles*abi.TileChunks, abi.WindowBlock)
	grid.Y = (p.Count + p.Block - 1) / p.Block
	panes := WindowPanes{
		First: b.First, Tiles: b.Tiles, Rows: b.Rows, Chunks: b.Decoded, Times: b.Times, Values: b.Values,
		Base: steps.Start - steps.Width, Interval: steps.Interval, Head: p.Head, Per: p.Per, Count: p.Count, Block: p.Block,
		Op: op, Suffix: suffix, Prefix: prefix,
	}
	if err := panes.Launch(q, grid, cuda.Size{X: abi.WindowBlock}); err != nil {
		return err
	}
	join := WindowJoin{
		WindowParameters: WindowParametersOf(b, steps, out), Head: p.Head, Per: p.Per, Count: p.Count, Block: p.Block, Span: p.Span,
		Op: op, Suffix: suffix, Prefix: prefix,
	}
	return q.Window(&join, b, steps, abi.WindowBlock)
}
