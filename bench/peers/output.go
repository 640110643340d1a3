package peers

import (
	"strings"
	"sync"
)

// output keeps the end of what a process prints.
type output struct {
	mu sync.Mutex
	b  []byte
}

// outputLimit is how many bytes of output are kept at least.
const outputLimit = 8 << 10

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b = append(o.b, p...)
	if len(o.b) > 2*outputLimit {
		o.b = append(o.b[:0], o.b[len(o.b)-outputLimit:]...)
	}
	return len(p), nil
}

// tail is the last lines of the output.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.SplitAfter(string(o.b), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "")
}
