package httpapi

import (
	"strings"
	"testing"
)

// A value whose kind or size does not fit is an error that names the field.
func TestConvertRefuses(t *testing.T) {
	type small struct{ N int8 }
	type large struct{ N int64 }
	type unsigned struct{ N uint16 }
	type text struct{ N string }
	errOf := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"too large":     errOf(convert[small](large{300})),
		"negative":      errOf(convert[unsigned](large{-1})),
		"too long":      errOf(convert[unsigned](large{1 << 16})),
		"another kind":  errOf(convert[small](text{"1"})),
		"not encodable": errOf(convert[small](struct{ N chan int }{})),
	} {
		if err == nil || name != "not encodable" && !strings.Contains(err.Error(), ".N of type") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := convert[small](large{-7}); err != nil || got.N != -7 {
		t.Errorf("-7 became %d: %v", got.N, err)
	}
}
