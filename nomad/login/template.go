package login

import (
	"errors"
	"fmt"
	"strings"
)

var errUnclosed = errors.New("a ${ is not closed")

// part is text or a variable.
type part struct{ text, name string }

// template is text with ${variables}.
type template []part

// parseTemplate parses text with ${value.<name>} and the variables in also.
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

// fitName refuses unknown variables.
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
	return fmt.Errorf("${%s} is not one of %s", name, strings.Join(known, ", "))
}

// fill replaces the variables with claims and the values in also. It does not expand a ${
// inside a claim. missing is the first absent claim.
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
