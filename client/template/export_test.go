package template

import "strings"

// Write writes the file of a template of the current start, as a frame of the program does.
func (t *Templates) Write(i int, text string) (bool, error) {
	r := t.current()
	return r.write(r.list()[i], strings.NewReader(text), len(text))
}
