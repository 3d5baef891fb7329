package nomad

import (
	"sync"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// NewJSONHandle returns the codec of the HTTP API: the values of this package by their
// wire names, keys sorted, zero values shown, HTML left as it is.
func NewJSONHandle(indent int8) *codec.JsonHandle {
	h := &codec.JsonHandle{HTMLCharsAsIs: true, Indent: indent}
	h.Canonical = true
	h.TypeInfos = codec.NewTypeInfos([]string{"codec"})
	return h
}

var jsonEncoders = sync.Pool{New: func() any { return codec.NewEncoder(nil, jsonHandle) }}

var jsonHandle = NewJSONHandle(0)

// EncodeJSON returns v as the HTTP API shows it.
func EncodeJSON(v any) ([]byte, error) {
	var out []byte
	enc := jsonEncoders.Get().(*codec.Encoder)
	defer jsonEncoders.Put(enc)
	enc.ResetBytes(&out)
	err := enc.Encode(v)
	return out, err
}
