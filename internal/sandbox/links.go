package sandbox

import (
	"maps"
	"path/filepath"
	"slices"
)

// Link is a symbolic link that the stage follows, to Target and not to what the link names by then.
type Link struct{ Name, Target string }

// KeepLinks puts the links of root on the way to p's paths into p.Links. A policy with OwnUsers
// needs it, from a caller outside of that user namespace: its stage cannot distinguish root's files
// from those of other ordinary users. It reports no error: the stage does, for a path that it
// cannot open with these links.
func (p *Policy) KeepLinks() {
	lookup := &lookup{followed: map[string]string{}}
	for _, name := range p.lookedUp() {
		if f, err := lookup.open(name); err == nil {
			f.Close()
		}
	}
	p.Links = nil
	for _, name := range slices.Sorted(maps.Keys(lookup.followed)) {
		p.Links = append(p.Links, Link{name, lookup.followed[name]})
	}
}

// links returns p.Links by name.
func (p *Policy) links() map[string]string {
	out := make(map[string]string, len(p.Links))
	for _, l := range p.Links {
		out[l.Name] = l.Target
	}
	return out
}

// lookedUp lists the paths that the stage resolves by a lookup.
func (p *Policy) lookedUp() []string {
	out := append([]string{p.Dir}, p.Foreign...)
	add := func(q Path) {
		if q.Beneath != "" {
			out = append(out, q.Beneath)
		} else {
			out = append(out, q.Name)
		}
	}
	if p.Files != nil {
		for _, q := range p.Files.Paths {
			add(q)
		}
	}
	m := p.Mounts
	if m == nil {
		return out
	}
	out = append(out, m.Hide...)
	if m.View != (View{}) {
		out = append(out, m.View.Dir)
	}
	for _, b := range m.Binds {
		if b.Source.Beneath != "" { // paths with Beneath follow no links
			add(b.Source)
		}
		out = append(out, b.Beneath, filepath.Dir(b.Target))
	}
	if m.Tmp != (Path{}) {
		add(m.Tmp)
	}
	return slices.DeleteFunc(out, func(name string) bool { return !filepath.IsAbs(name) })
}
