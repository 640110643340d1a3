// Package definitions holds tables of functions, each of which is defined once, in the file of its
// family. Definitions go in while packages are initialised, and are only looked up afterwards.
//
// Start with Table.
package definitions

import (
	"fmt"
	"maps"
	"slices"
)

// Table holds definitions of type F, each with the part P of it that plans refer to. The zero
// value is empty.
type Table[P, F any] struct {
	all    []*F
	byPart map[*P]*F
	byName map[string]*P
}

// Add adds a definition and returns its part. Two definitions of one name panic.
func (t *Table[P, F]) Add(name string, part *P, f *F) *P {
	if t.byName[name] != nil {
		panic(fmt.Sprintf("%s has two definitions", name))
	}
	if t.byName == nil {
		t.byName = map[string]*P{}
	}
	t.byName[name] = part
	return t.AddUnnamed(part, f)
}

// AddUnnamed adds a definition that nobody looks up by a name.
func (t *Table[P, F]) AddUnnamed(part *P, f *F) *P {
	if t.byPart == nil {
		t.byPart = map[*P]*F{}
	}
	t.all = append(t.all, f)
	t.byPart[part] = f
	return part
}

// Named returns the part of the definition with a name, or nil.
func (t *Table[P, F]) Named(name string) *P { return t.byName[name] }

// Of returns the definition that a part is of, or nil.
func (t *Table[P, F]) Of(part *P) *F { return t.byPart[part] }

// All lists all definitions, by file and in the order of each.
func (t *Table[P, F]) All() []*F { return slices.Clone(t.all) }

// Names lists the names in alphabetical order.
func (t *Table[P, F]) Names() []string { return slices.Sorted(maps.Keys(t.byName)) }
