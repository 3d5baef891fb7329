package acl

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// rule contains the grants of all policies for one pattern of a name, or for variables of a
// namespace and a path.
type rule struct {
	space, name glob
	rights      rights
	deny        bool
	from        []source
}

// source is a grant of a rule with its policy and its block.
type source struct {
	policy string
	grant
	block Pos
}

func (r *rule) literals() int { return r.space.literals + r.name.literals }

// key is the text of a pattern.
type key struct{ space, name string }

// rules contains the rules of one kind. Slices are sorted by descending number of literal
// characters, so the closest match of a name is first. Most globs are a prefix and a "*".
// These are in a map, so that the cost does not grow with their number.
type rules struct {
	exact      map[key]*rule      // without a "*"
	prefixes   map[key]*rule      // names with a prefix and a "*" at the end, in a space without "*"
	sizes      []int              // the lengths of the prefixes, descending
	patterns   map[string][]*rule // other names with a "*", in a space without "*"
	inAnySpace []*rule            // rules in a space with a "*"
	lists      map[string]bool    // the spaces without a "*" that have a rule with the right list
	union      rights             // of all rules
}

func newRules() *rules {
	return &rules{exact: map[key]*rule{}, prefixes: map[key]*rule{}, patterns: map[string][]*rule{}, lists: map[string]bool{}}
}

// build returns the rules of the policies by kind.
func build(policies []*Policy) map[Kind]*rules {
	byKind := map[Kind]map[key]*rule{}
	for kind := range vocabularies {
		byKind[kind] = map[key]*rule{}
	}
	for _, p := range policies {
		if p == nil {
			continue
		}
		for _, b := range p.blocks {
			k := key{b.space, b.name}
			r := byKind[b.kind][k]
			if r == nil {
				r = &rule{space: newGlob(b.space), name: newGlob(b.name)}
				byKind[b.kind][k] = r
			}
			r.add(p.Name, b)
		}
	}
	all := map[Kind]*rules{}
	for kind, found := range byKind {
		all[kind] = sorted(found)
	}
	maps.DeleteFunc(byKind[Namespaces], func(_ key, r *rule) bool { return !r.deny && r.rights == 0 })
	all[withRights] = sorted(byKind[Namespaces])
	return all
}

// withRights is the kind of the namespace rules, except those of blocks with only variables. Such
// a block hides farther blocks from questions about the namespace. It does not hide their
// deny from its variables.
const withRights Kind = "namespace with rights"

// add adds the grants of a block to the rule. A deny overrides all grants.
func (r *rule) add(policy string, b block) {
	for _, g := range b.grants {
		r.rights |= g.rights
		r.deny = r.deny || g.deny
		r.from = append(r.from, source{policy: policy, grant: g, block: b.at})
	}
	if len(b.grants) == 0 {
		r.from = append(r.from, source{policy: policy, grant: grant{at: b.at}, block: b.at})
	}
}

// sorted builds the lookup structures for the rules of one kind.
func sorted(found map[key]*rule) *rules {
	rs := newRules()
	for k, r := range found {
		if r.deny {
			r.rights = 0
		}
		rs.union |= r.rights
		switch {
		case r.space.wildcard:
			rs.inAnySpace = append(rs.inAnySpace, r)
			continue
		case r.name.wildcard && len(r.name.prefix) == len(k.name)-1:
			rs.prefixes[key{k.space, r.name.prefix}] = r
			rs.sizes = append(rs.sizes, len(r.name.prefix))
		case r.name.wildcard:
			rs.patterns[k.space] = append(rs.patterns[k.space], r)
		default:
			rs.exact[k] = r
		}
		if r.rights&variableWords.bit["list"] != 0 {
			rs.lists[k.space] = true
		}
	}
	slices.Sort(rs.sizes)
	rs.sizes = slices.Compact(rs.sizes)
	slices.Reverse(rs.sizes)
	slices.SortFunc(rs.inAnySpace, closer)
	for _, patterns := range rs.patterns {
		slices.SortFunc(patterns, closer)
	}
	return rs
}

func closer(a, b *rule) int {
	return cmp.Or(b.literals()-a.literals(), strings.Compare(a.space.text, b.space.text), strings.Compare(a.name.text, b.name.text))
}

// match holds the rules that decide on one name.
type match struct {
	found    bool
	literals int
	rights   rights
	deny     bool
	rank     int  // the rank of the name's pattern
	space    int  // the lowest rank of the rules' space patterns
	keep     bool // whether to collect the rules, for Explain
	rules    []*rule
}

// find finds the rule with exactly this name, or else the closest rules.
func (rs *rules) find(space, name string, m *match) {
	if !rs.findExact(space, name, m) {
		rs.closest(space, name, m)
	}
}

func (rs *rules) findExact(space, name string, m *match) bool {
	r := rs.exact[key{space, name}]
	if r != nil {
		m.take(r)
	}
	return r != nil
}

// closest finds the rules that are closest to the name.
func (rs *rules) closest(space, name string, m *match) {
	for _, size := range rs.sizes {
		if size > len(name) {
			continue
		}
		if r := rs.prefixes[key{space, name[:size]}]; r != nil {
			m.take(r)
			break
		}
	}
	rs.scan(rs.patterns[space], space, name, m)
	rs.scan(rs.inAnySpace, space, name, m)
}

func (rs *rules) scan(sorted []*rule, space, name string, m *match) {
	for _, r := range sorted {
		if m.found && r.literals() < m.literals {
			return
		}
		if r.name.matches(name) && r.space.matches(space) {
			m.take(r)
		}
	}
}

// take adds a rule. A rule that is as close as the earlier ones is combined with them: all
// must allow. A closer rule replaces them.
func (m *match) take(r *rule) {
	if m.found && r.literals() == m.literals {
		m.rights &= r.rights
		m.deny = m.deny || r.deny
		m.space = min(m.space, r.space.rank())
	} else {
		m.found, m.literals, m.rights, m.deny = true, r.literals(), r.rights, r.deny
		m.rank, m.space = r.name.rank(), r.space.rank()
		m.rules = m.rules[:0]
	}
	if m.keep {
		m.rules = append(m.rules, r)
	}
}

// reason returns the decision of the rules on the rights.
func (m *match) reason(want rights) Reason {
	switch {
	case !m.found:
		return ReasonNoRule
	case m.deny:
		return ReasonDenied
	case m.rights&want == 0:
		return ReasonNotGranted
	}
	return ReasonGranted
}

// ownDenied returns a rule for exactly this path in a namespace glob that denies, or nil.
func (rs *rules) ownDenied(space, path string) *rule {
	for _, r := range rs.inAnySpace {
		if r.deny && !r.name.wildcard && r.name.text == path && r.space.matches(space) {
			return r
		}
	}
	return nil
}

// grantAny reports whether a rule grants one of the rights.
func (rs *rules) grantAny(want rights) bool { return rs.union&want != 0 }

// mayList reports whether a rule grants list in the space, and the space pattern of the
// rule has a rank greater than above.
func (rs *rules) mayList(space string, above int) bool {
	if rs.lists[space] && 2*len(space)+1 > above {
		return true
	}
	for _, r := range rs.inAnySpace {
		if r.rights&variableWords.bit["list"] != 0 && r.space.rank() > above && r.space.matches(space) {
			return true
		}
	}
	return false
}
