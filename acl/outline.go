package acl

import (
	"maps"
	"slices"
)

// Outline is what a block of a policy says, for those who show policies.
type Outline struct {
	Kind Kind
	// Space is the namespace of variables.
	Space string
	Name  string
	// Policy is the word of the policy key, "" without one.
	Policy string
	// Capabilities is every right that the block grants, those first that it names; with
	// deny when it denies by name. Nil for kinds that have no capabilities.
	Capabilities []string
}

// Outline returns the blocks in the order of the text; the paths of variables come
// before the namespace that they are in.
func (p *Policy) Outline() []Outline {
	out := make([]Outline, 0, len(p.blocks))
	for _, b := range p.blocks {
		out = append(out, b.outline())
	}
	return out
}

func (b block) outline() Outline {
	words := vocabularies[b.kind]
	out := Outline{Kind: b.kind, Space: b.space, Name: b.name}
	var all rights
	for _, g := range b.grants {
		all |= g.rights
		if g.short {
			out.Policy = g.word
		} else if !slices.Contains(out.Capabilities, g.word) {
			out.Capabilities = append(out.Capabilities, g.word)
		}
	}
	if words.capabilities == nil {
		return out
	}
	for _, word := range slices.Sorted(maps.Keys(words.bit)) {
		known := slices.Contains(words.capabilities, word)
		if known && words.bit[word]&all != 0 && !slices.Contains(out.Capabilities, word) {
			out.Capabilities = append(out.Capabilities, word)
		}
	}
	return out
}
