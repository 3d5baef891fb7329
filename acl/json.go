package acl

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// jsonReader reads JSON word by word, so that a key that comes twice is seen and every
// word has its place.
type jsonReader struct {
	dec   *json.Decoder
	src   string
	lines lines
	found faults
}

func readJSON(src string, lines lines) ([]item, error) {
	r := &jsonReader{dec: json.NewDecoder(strings.NewReader(src)), src: src, lines: lines}
	r.dec.UseNumber()
	v := r.value(0)
	if len(r.found) == 0 {
		at := r.at()
		if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
			r.found.add(at, "the policy ends before this")
		}
	}
	return v.items, r.found.err()
}

// at is the place of the next word.
func (r *jsonReader) at() Pos { return r.lines.pos(r.start()) }

func (r *jsonReader) start() int {
	offset := int(r.dec.InputOffset())
	return offset + len(r.src[offset:]) - len(strings.TrimLeft(r.src[offset:], " \t\r\n,:"))
}

// token returns the next word, nil past a fault. Null is a number to it: policies
// hold neither.
func (r *jsonReader) token() json.Token {
	if len(r.found) > 0 {
		return nil
	}
	start := r.start()
	tok, err := r.dec.Token()
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		at := max(int(syntax.Offset)-1, start) // the decoder counts from the word before, or within this one
		r.found.add(r.lines.pos(min(at, len(r.src))), "this is not JSON: %s", syntax)
	case err != nil:
		r.found.add(r.lines.pos(len(r.src)), "the JSON ends before it is complete")
	case tok == nil:
		return json.Number("null")
	}
	return tok
}

// value reads a value with all that it holds.
func (r *jsonReader) value(depth int) value {
	v := value{at: r.at()}
	if depth > maxDepth {
		r.found.add(v.at, "nested too deep for a policy")
	}
	switch tok := r.token().(type) {
	case string:
		v.shape, v.text = text, tok
	case json.Delim:
		if tok == '{' {
			v.shape = object
			r.object(&v, depth)
			break
		}
		v.shape = list
		for len(r.found) == 0 && r.dec.More() {
			v.list = append(v.list, r.value(depth+1))
		}
		r.token()
	default:
		v.shape = other
	}
	return v
}

func (r *jsonReader) object(v *value, depth int) {
	for len(r.found) == 0 && r.dec.More() {
		it := item{at: r.at()}
		it.key, _ = r.token().(string)
		it.value = r.value(depth + 1)
		v.items = append(v.items, it)
	}
	r.token()
}
