package acl

import "strings"

// glob is a pattern in which "*" stands for any characters, none included.
type glob struct {
	text           string
	prefix, suffix string
	middle         []string
	literals       int // characters that are not left to "*"
	open           bool
}

func newGlob(text string) glob {
	parts := strings.Split(text, "*")
	if len(parts) == 1 {
		return glob{text: text, literals: len(text)}
	}
	g := glob{text: text, prefix: parts[0], suffix: parts[len(parts)-1], open: true}
	g.literals = len(text) - (len(parts) - 1)
	for _, part := range parts[1 : len(parts)-1] {
		if part != "" {
			g.middle = append(g.middle, part)
		}
	}
	return g
}

// rank compares patterns that match the same name: the closer one has the higher.
func (g *glob) rank() int {
	if g.open {
		return 2 * g.literals
	}
	return 2*g.literals + 1
}

// matches takes each part where it comes first, which is right because only "*" lies
// between them: no input makes it go back.
func (g *glob) matches(name string) bool {
	if !g.open {
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
