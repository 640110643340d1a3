package cpuexec

import "github.com/promwarp/promwarp/plan"

// latest are the frames of the window evaluated last. Where that was the same function
// with the same range and offset, as in a ratio of two rates, of targets that expose
// both, they are those of the next one.
type latest struct {
	of     frameKey
	frames *frames
}

// frameKey is what frames depend on besides the times of samples.
type frameKey struct {
	span   span
	fixed  int64 // that of the scan, which span points to
	at     bool  // whether there is one
	offset int64 // of the scan
	f      *plan.WindowFunc
}

// take returns the frames of f on s. They are released with l.
func (l *latest) take(f *plan.WindowFunc, s span) *frames {
	key := frameKey{span: s, f: f}
	if key.span.scan = nil; s.scan.Fixed != nil {
		key.fixed, key.at = *s.scan.Fixed, true
	}
	key.offset = s.scan.Offset
	if l.frames == nil || l.of != key {
		l.release()
		l.of, l.frames = key, newFrames(s)
	}
	return l.frames
}

// release gives the frames back, if there are some.
func (l *latest) release() {
	if l.frames != nil {
		l.frames.release()
		l.frames = nil
	}
}
