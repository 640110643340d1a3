package custom

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/promwarp/promwarp/resample/aggregate"
)

// Portable is a custom aggregate for executors that translate it: its code, and nothing of how cores
// go over that.
type Portable struct {
	Start  []float64 // values of the fields before the first sample; a truth value is 1 or 0
	Add    Code      // of the inputs from InputV on; an output for each field
	Merge  *Code     // of the fields of a, then those of b; an output for each field. Nil for none.
	Result Code      // of the inputs from ResultStart on; one output
}

// PortableOf returns the code of a definition that is custom, or why cores alone compute it. Of a
// built-in definition it returns neither.
func PortableOf(d *aggregate.Definition) (p *Portable, reason string) {
	switch own := d.Own.(type) {
	case *program:
		if library := own.library(); len(library) > 0 {
			return nil, otherBits(library)
		}
		return &Portable{Start: own.start, Add: own.add, Merge: own.merge, Result: own.result}, ""
	case held:
		return nil, "without merge, the samples of a group are put in the order of time, which the cores do"
	}
	return nil, ""
}

// otherBits says why functions run on cores alone.
func otherBits(library []string) string {
	return strings.Join(library, " and ") + " would have other bits on a GPU"
}

// Hash is another for another program.
func (p *Portable) Hash() [sha256.Size]byte {
	merge := Code{}
	if p.Merge != nil {
		merge = *p.Merge
	}
	return sha256.Sum256(fmt.Append(nil, p.Start, p.Add, merge, p.Merge == nil, p.Result))
}

// Work is the number of instructions that a sample takes.
func (p *Portable) Work() int { return p.Add.work() }
