package acl

import (
	"maps"
	"slices"
)

// Outline is the content of a block, for displaying a policy.
type Outline struct {
	Kind Kind
	// Space is the namespace of a block of variables.
	Space string
	Name  string
	// Policy is the value of the policy key, or "".
	Policy string
	// Capabilities are all rights of the block. Explicit capabilities are first, including
	// deny. It is nil for kinds without capabilities.
	Capabilities []string
}

// Outline returns the blocks in the order of the text. The paths of variables are before
// their namespace.
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
