package httpapi

import (
	"encoding/json"
	"fmt"
)

// convert encodes v as JSON and decodes the result into a type with the same JSON names.
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
