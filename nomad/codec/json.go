package codec

import (
	"bytes"
	"reflect"
	"sync"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/nomad"
)

// NewJSONHandle returns the codec of the HTTP API. It uses the wire names of package nomad, sorts keys, includes zero
// values and does not escape HTML. A field with the tag http:"-" is not in the API, but in the RPC wire format and
// in state.
func NewJSONHandle(indent int8) *codec.JsonHandle {
	h := &codec.JsonHandle{HTMLCharsAsIs: true, Indent: indent}
	h.Canonical = true
	h.TypeInfos = codec.NewTypeInfos([]string{"http", "codec"})
	if err := h.SetInterfaceExt(reflect.TypeFor[nomad.Topology](), topologyTag, topologyList{}); err != nil {
		panic(err) // the type does not support extensions
	}
	return h
}

// topologyTag is the extension number of Topology. It does not appear in JSON.
const topologyTag = 1

// topologyList encodes the NUMA nodes of a Topology as a list of numbers in JSON, where the codec would use base64.
// The RPC wire format uses bytes.
type topologyList struct{}

// ConvertExt implements codec.InterfaceExt.
func (topologyList) ConvertExt(v any) any {
	t := v.(*nomad.Topology)
	out := listedTopology{Topology: *t, Nodes: make([]int, len(t.Nodes))}
	for i, id := range t.Nodes {
		out.Nodes[i] = int(id)
	}
	return out
}

// UpdateExt implements codec.InterfaceExt. The handle only encodes.
func (topologyList) UpdateExt(any, any) { panic("cannot decode a topology from JSON") }

// listedTopology is a Topology with Nodes as a list of integers.
type listedTopology struct {
	nomad.Topology
	Nodes []int
}

// jsonEncoder is an encoder and its buffer. The buffer is reused: while it grows, it copies a large value several
// times.
type jsonEncoder struct {
	*codec.Encoder
	text []byte
}

// maxKeptText bounds the buffers that are kept for later values.
const maxKeptText = 1 << 20

var jsonEncoders = sync.Pool{New: func() any { return &jsonEncoder{Encoder: codec.NewEncoder(nil, jsonHandle)} }}

var jsonHandle = NewJSONHandle(0)

// WithJSON passes v in the JSON form of the HTTP API to use. The text is valid until use returns.
func WithJSON(v any, use func(text []byte)) error {
	enc := jsonEncoders.Get().(*jsonEncoder)
	defer jsonEncoders.Put(enc)
	enc.ResetBytes(&enc.text)
	if err := enc.Encode(v); err != nil {
		return err
	}
	use(enc.text)
	if cap(enc.text) > maxKeptText {
		enc.text = nil
		enc.ResetBytes(&enc.text) // the encoder refers to the buffer too
	}
	return nil
}

// EncodeJSON returns v in the JSON form of the HTTP API.
func EncodeJSON(v any) (out []byte, err error) {
	err = WithJSON(v, func(text []byte) { out = bytes.Clone(text) })
	return out, err
}
