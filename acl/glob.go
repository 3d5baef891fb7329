package acl

import "strings"

// glob is a pattern in which "*" matches any sequence of characters, even an empty one.
type glob struct {
	text           string
	prefix, suffix string
	middle         []string
	literals       int // the number of characters other than "*"
	wildcard       bool
}

func newGlob(text string) glob {
	parts := strings.Split(text, "*")
	if len(parts) == 1 {
		return glob{text: text, literals: len(text)}
	}
	g := glob{text: text, prefix: parts[0], suffix: parts[len(parts)-1], wildcard: true}
	g.literals = len(text) - (len(parts) - 1)
	for _, part := range parts[1 : len(parts)-1] {
		if part != "" {
			g.middle = append(g.middle, part)
		}
	}
	return g
}

// rank orders patterns that match the same name. A closer pattern has a higher rank.
func (g *glob) rank() int {
	if g.wildcard {
		return 2 * g.literals
	}
	return 2*g.literals + 1
}

// matches reports whether the glob matches name. It matches each part at its first
// occurrence. This is correct without backtracking, because only "*" is between parts.
func (g *glob) matches(name string) bool {
	if !g.wildcard {
		return name == g.text
	}
	if len(name) < len(g.prefix)+len(g.suffix) || !strings.HasPrefix(name, g.prefix) || !strings.HasSuffix(name, g.suffix) {
		return false
	}
	name = name[len(g.prefix) : len(name)-len(g.suffix)]
	for _, part := range g.middle {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return true
}
