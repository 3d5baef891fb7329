package nomad

import (
	"reflect"
	"sync"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// NewJSONHandle returns the codec of the HTTP API: the values of this package by their
// wire names, keys sorted, zero values shown, HTML left as it is.
func NewJSONHandle(indent int8) *codec.JsonHandle {
	h := &codec.JsonHandle{HTMLCharsAsIs: true, Indent: indent}
	h.Canonical = true
	h.TypeInfos = codec.NewTypeInfos([]string{"codec"})
	if err := h.SetInterfaceExt(reflect.TypeFor[Topology](), topologyTag, topologyList{}); err != nil {
		panic(err) // the type cannot have an extension
	}
	return h
}

// topologyTag numbers the extension of Topology. JSON does not show it.
const topologyTag = 1

// topologyList shows the memory nodes of a Topology as a list of numbers: the codec would
// show bytes as base64. On the RPC wire they stay bytes.
type topologyList struct{}

// ConvertExt implements codec.InterfaceExt.
func (topologyList) ConvertExt(v any) any {
	t := v.(*Topology)
	out := listedTopology{Topology: *t, Nodes: make([]int, len(t.Nodes))}
	for i, id := range t.Nodes {
		out.Nodes[i] = int(id)
	}
	return out
}

// UpdateExt implements codec.InterfaceExt. The handle only encodes.
func (topologyList) UpdateExt(any, any) { panic("a topology is not decoded from JSON") }

// listedTopology is a Topology of which Nodes is a list.
type listedTopology struct {
	Topology
	Nodes []int
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
