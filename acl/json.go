package acl

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// jsonReader parses JSON by tokens, to detect duplicate keys and to record positions.
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
			r.found.add(at, "unexpected text after the policy")
		}
	}
	return v.items, r.found.err()
}

// at returns the position of the next token.
func (r *jsonReader) at() Pos { return r.lines.pos(r.start()) }

func (r *jsonReader) start() int {
	offset := int(r.dec.InputOffset())
	return offset + len(r.src[offset:]) - len(strings.TrimLeft(r.src[offset:], " \t\r\n,:"))
}

// token returns the next token, or nil after a fault. It returns null as a number: both
// are invalid in a policy.
func (r *jsonReader) token() json.Token {
	if len(r.found) > 0 {
		return nil
	}
	start := r.start()
	tok, err := r.dec.Token()
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		at := max(int(syntax.Offset)-1, start) // the decoder's offset is that of the previous token, or inside this one
		r.found.add(r.lines.pos(min(at, len(r.src))), "invalid JSON: %s", syntax)
	case err != nil:
		r.found.add(r.lines.pos(len(r.src)), "unexpected end of JSON")
	case tok == nil:
		return json.Number("null")
	}
	return tok
}

// value parses a value with its nested values.
func (r *jsonReader) value(depth int) value {
	v := value{at: r.at()}
	if depth > maxDepth {
		r.found.add(v.at, "the policy is nested too deep")
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
