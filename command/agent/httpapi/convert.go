package httpapi

import (
	"encoding/json"
	"fmt"
)

// convert returns v as another type with the same names in JSON: it encodes v and decodes
// the result.
func convert[T any](v any) (T, error) {
	var out T
	raw, err := json.Marshal(v)
	if err != nil {
		return out, fmt.Errorf("encode a %T: %w", v, err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("decode a %T: %w", out, err)
	}
	return out, nil
}
