package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// parseJSON parses a JSON file. Keys keep their order and places.
func parseJSON(src []byte, file string) (value, []fault) {
	src = blankTrailingCommas(src)
	r := &jsonReader{src: src, file: file, dec: json.NewDecoder(bytes.NewReader(src))}
	r.dec.UseNumber()
	v, err := r.value()
	if err == nil {
		if _, end := r.dec.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("unexpected data after the end")
		}
	}
	if err != nil {
		return value{}, []fault{{r.broken(err), err.Error()}}
	}
	if v.kind != object {
		return value{}, []fault{{Place{file, 1, 1}, "expected an object, got " + string(v.kind)}}
	}
	return v, nil
}

// blankTrailingCommas returns src with a space in place of each comma after the last element of a
// list or an object. Nomad accepts such commas. Offsets do not change.
func blankTrailingCommas(src []byte) []byte {
	out := slices.Clone(src)
	comma := -1 // the last comma, if only space follows it so far
	var last byte
	inString := false
	for i := 0; i < len(src); i++ {
		c := src[i]
		switch {
		case inString && c == '\\':
			i++
			continue
		case c == '"':
			inString = !inString
		case inString:
			continue
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			continue
		case c == ',' && last != 0 && !bytes.ContainsRune([]byte("[{,:"), rune(last)):
			comma = i
			last = c
			continue
		case (c == ']' || c == '}') && comma >= 0:
			out[comma] = ' '
		}
		comma, last = -1, c
	}
	return out
}

// maxDepth is the maximum nesting depth of a file.
const maxDepth = 64

type jsonReader struct {
	src   []byte
	file  string
	dec   *json.Decoder
	depth int
}

// place returns the place of an offset.
func (r *jsonReader) place(offset int64) Place {
	before := r.src[:min(max(offset, 0), int64(len(r.src)))]
	line := bytes.Count(before, []byte("\n")) + 1
	return Place{r.file, line, len(before) - bytes.LastIndexByte(before, '\n')}
}

// here returns the place of the next token.
func (r *jsonReader) here() Place {
	at := r.dec.InputOffset()
	for at < int64(len(r.src)) && slices.Contains([]byte(" \t\r\n,:"), r.src[at]) {
		at++
	}
	return r.place(at)
}

// broken returns the place of a decoding error.
func (r *jsonReader) broken(err error) Place {
	if at := (*json.SyntaxError)(nil); errors.As(err, &at) && at.Offset > 0 {
		return r.place(at.Offset - 1)
	}
	return r.here()
}

func (r *jsonReader) value() (value, error) {
	v := value{at: r.here(), kind: scalar}
	tok, err := r.token()
	if err != nil {
		return v, err
	}
	switch t := tok.(type) {
	case json.Delim:
		return r.composite(v.at, t)
	case string:
		v.text = t
	case json.Number:
		v.text, v.bare = t.String(), true
	case bool:
		v.text, v.bare = fmt.Sprint(t), true
	default:
		v.kind = null
	}
	return v, nil
}

// composite reads the elements of an array or an object.
func (r *jsonReader) composite(at Place, open json.Delim) (value, error) {
	v := value{at: at, kind: array}
	if open == '{' {
		v.kind = object
	}
	if r.depth++; r.depth > maxDepth {
		return v, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	for r.dec.More() {
		if v.kind == array {
			e, err := r.value()
			if err != nil {
				return v, err
			}
			v.list = append(v.list, e)
			continue
		}
		e := entry{at: r.here()}
		tok, err := r.token()
		if err != nil {
			return v, err
		}
		var ok bool
		if e.key, ok = tok.(string); !ok {
			return v, errors.New("expected a key in quotes")
		}
		if e.value, err = r.value(); err != nil {
			return v, err
		}
		v.entries = append(v.entries, e)
	}
	r.depth--
	_, err := r.token()
	return v, err
}

// token reads the next token. The end of the file is an error.
func (r *jsonReader) token() (json.Token, error) {
	tok, err := r.dec.Token()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("the file ends in the middle of a value")
	}
	return tok, err
}
