package login

import (
	"errors"
	"fmt"
	"strings"
)

var errUnclosed = errors.New("a ${ is not closed")

// part is text, or the name of what takes its place.
type part struct{ text, name string }

// template is text with ${names}.
type template []part

// parseTemplate reads text with ${value.<name>}; also names others that it may hold.
func parseTemplate(text string, also ...string) (template, error) {
	var out template
	for text != "" {
		before, rest, found := strings.Cut(text, "${")
		if before != "" {
			out = append(out, part{text: before})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return nil, errUnclosed
		}
		name = strings.TrimSpace(name)
		if err := fitName(name, also); err != nil {
			return nil, err
		}
		out = append(out, part{name: name})
		text = after
	}
	return out, nil
}

// fitName refuses what a template can't name.
func fitName(name string, also []string) error {
	for _, other := range also {
		if name == other {
			return nil
		}
	}
	if claim, ok := strings.CutPrefix(name, "value."); ok && claim != "" && !strings.ContainsAny(claim, "${ \t\r\n") {
		return nil
	}
	known := append([]string{"value.<name>"}, also...)
	return fmt.Errorf("${%s} is none of %s", name, strings.Join(known, ", "))
}

// fill puts claims, and what also has, into their places. What a claim says is text: a
// ${ in it stands for nothing. missing is the first claim that is absent.
func (t template) fill(c *Claims, also map[string]string) (text, missing string) {
	var b strings.Builder
	for _, p := range t {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		v, ok := also[p.name]
		if claim, is := strings.CutPrefix(p.name, "value."); !ok && is {
			v, ok = c.Values[claim]
		}
		if !ok {
			return "", p.name
		}
		b.WriteString(v)
	}
	return b.String(), ""
}
