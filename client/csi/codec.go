package csi

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxParts limits the fields of an answer, with those of its messages. An empty message needs 2 bytes in an answer and about
// 100 bytes in memory, so the limit of bytes alone does not limit memory.
const maxParts = 400_000

// codec encodes and decodes messages as gRPC does. It refuses answers with too many parts before it decodes them.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(encodingproto.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("decode into a %T, which is not a protobuf message", v)
	}
	raw := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer raw.Free()
	left := maxParts
	if err := count(m.ProtoReflect().Descriptor(), raw.ReadOnlyData(), &left); err != nil {
		return err
	}
	return proto.Unmarshal(raw.ReadOnlyData(), m)
}

var errParts = errors.New("the answer has too many parts")

// count subtracts the fields of an encoded message from left, with the fields of the messages in it.
func count(kind protoreflect.MessageDescriptor, raw []byte, left *int) error {
	for len(raw) > 0 {
		if *left--; *left < 0 {
			return errParts
		}
		number, wire, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return protowire.ParseError(n)
		}
		raw = raw[n:]
		field := kind.Fields().ByNumber(number)
		if field == nil || field.Message() == nil || wire != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, wire, raw); n < 0 {
				return protowire.ParseError(n)
			}
			raw = raw[n:]
			continue
		}
		inner, n := protowire.ConsumeBytes(raw)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := count(field.Message(), inner, left); err != nil {
			return err
		}
		raw = raw[n:]
	}
	return nil
}
