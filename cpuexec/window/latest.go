package window

import "github.com/promwarp/promwarp/plan"

// Latest are the frames of the window evaluated last. Where that was the same function
// with the same range and offset, as in a ratio of two rates, of targets that expose
// both, they are those of the next one.
type Latest struct {
	of     frameKey
	frames *Frames
}

// frameKey is what frames depend on besides the times of samples.
type frameKey struct {
	span   Span
	fixed  int64 // that of the scan, which span points to
	at     bool  // whether there is one
	offset int64 // of the scan
	f      *plan.WindowFunc
}

// Frames returns the frames of f on s. They are released with l.
func (l *Latest) Frames(f *plan.WindowFunc, s Span) *Frames {
	key := frameKey{span: s, f: f}
	if key.span.Scan = nil; s.Scan.Fixed != nil {
		key.fixed, key.at = *s.Scan.Fixed, true
	}
	key.offset = s.Scan.Offset
	if l.frames == nil || l.of != key {
		l.Release()
		l.of, l.frames = key, NewFrames(s)
	}
	return l.frames
}

// Release gives the frames back, if there are some.
func (l *Latest) Release() {
	if l.frames != nil {
		l.frames.Release()
		l.frames = nil
	}
}
