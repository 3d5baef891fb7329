// Package codec encodes, copies and checks the types of package nomad:
//
//   - Encode, Decode and EncodeCommand use msgpack, for RPC, Raft commands, snapshots and the client's state database.
//   - EncodeJSON uses the JSON form of the HTTP API.
//   - Copy returns a deep copy of a value.
//   - CheckNulls rejects a decoded request with null elements.
//
// It works on any struct by reflection. It does not validate values, and it starts no goroutine.
package codec

import (
	"bytes"
	"io"
	"reflect"
	"sync"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// MsgpackHandle is the codec of RPC, Raft commands, snapshots and the client's state database, with the
// settings of Nomad 2.0. It never changes after init.
var MsgpackHandle = func() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{}
	h.RawToString = true
	h.BasicHandle.TimeNotBuiltin = true
	h.MapType = reflect.TypeOf(map[string]any(nil))
	h.TypeInfos = codec.NewTypeInfos([]string{"codec"})
	return h
}()

var encoders = sync.Pool{New: func() any { return codec.NewEncoder(nil, MsgpackHandle) }}

var decoders = sync.Pool{New: func() any { return codec.NewDecoder(nil, MsgpackHandle) }}

// buffers are those of Encode and EncodeCommand. Their results have no spare capacity, because they are kept for long:
// Raft caches its latest entries.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxBuffer is the largest buffer that is used again. A plan may be several megabytes.
const maxBuffer = 64 << 10

// Encode returns v as msgpack.
func Encode(v any) ([]byte, error) { return encoded(nil, v) }

// encoded returns head, followed by v.
func encoded(head []byte, v any) ([]byte, error) {
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	buf.Write(head)
	err := encodeTo(buf, v)
	out := bytes.Clone(buf.Bytes())
	if buf.Cap() <= maxBuffer {
		buffers.Put(buf)
	}
	return out, err
}

// EncodeCommand returns the Data of a Raft log entry: the message type, followed by v.
func EncodeCommand(t message.CommandType, v any) ([]byte, error) {
	if t.Ours() {
		t |= message.IgnoreUnknownTypeFlag
	}
	return encoded([]byte{byte(t)}, v)
}

// encodeTo appends v to buf. It resets the encoder before returning it to the pool, so that the pool does
// not keep buf alive: a plan may be several megabytes.
func encodeTo(buf *bytes.Buffer, v any) error {
	enc := encoders.Get().(*codec.Encoder)
	defer encoders.Put(enc)
	defer enc.Reset(io.Discard)
	enc.Reset(buf)
	return enc.Encode(v)
}

// Decode reads one msgpack value into the pointer v.
func Decode(b []byte, v any) error {
	dec := decoders.Get().(*codec.Decoder)
	defer decoders.Put(dec)
	defer dec.ResetBytes(nil)
	dec.ResetBytes(b)
	return dec.Decode(v)
}
