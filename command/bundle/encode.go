package bundle

import (
	"bytes"
	"encoding/json"
)

// jsonOf returns v as indented JSON with a line end.
func jsonOf(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return out.Bytes(), err
}

// compact returns JSON on one line.
func compact(text []byte) string {
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return "{}"
	}
	return out.String()
}
