package plan

// Modifier is what a range selector says about the ends of its windows.
type Modifier int

const (
	// Unmodified windows are made of the samples in them.
	Unmodified Modifier = iota
	// Anchored windows begin with the newest sample at or before their start.
	Anchored
	// Smoothed windows begin and end with values on the lines between the samples
	// around their ends.
	Smoothed
)

// Extension says which samples beside its window a step reads. A window of
// (t-Width, t] is extended to (t-Width-Before, t+After].
type Extension struct {
	Modifier      Modifier
	Before, After int64 // ms
}

// NewExtension is the extension of windows with a modifier.
func NewExtension(m Modifier, lookback int64) Extension {
	switch m {
	case Anchored:
		return Extension{Modifier: m, Before: lookback}
	case Smoothed:
		return Extension{Modifier: m, Before: lookback, After: lookback}
	default:
		return Extension{}
	}
}

// Reach says what a step at t reads: the samples of (t-offset-width, t-offset], in ms.
// Of a selector with @ the offset means nothing.
func (w *Window) Reach() (width, offset int64) {
	e := w.Extension
	return w.Width + e.Before + e.After, w.Scan.Offset - e.After
}

// ReadsStarts reports whether start timestamps matter to the window where the engine
// uses them. Rates of windows that are extended do without.
func (w *Window) ReadsStarts() bool {
	return w.Func.StartTime && (w.Extension.Modifier == Unmodified || !w.Func.Counter)
}
