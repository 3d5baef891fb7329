// Package schema encodes, identifies and applies the schemas of the config blocks of tasks.
//
//	driver ──Of──▶ Schema (digest, bytes) ──▶ server ──Parse──▶ hcldec form ──Check──▶ faults of a block
//
// A client and its servers can have different versions, and a server does not have the plugins of its
// clients. So a client reports the digest of each driver's schema, and servers request the schemas
// that they do not have. The bytes are the protobuf message Spec of the plugin protocol. The digest
// is that of the bytes: two versions may have different digests for the same schema.
//
// Check accepts a reference, which is not interpolated yet, as a value of any type. The node decodes
// the block again after the interpolation. The package never reads files and starts no goroutine.
package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/hashicorp/hcl/v2/hcldec"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/open-nomad/open-nomad/plugins/hclspec"
	"github.com/open-nomad/open-nomad/plugins/proto"
)

// Limits of the schemas that a node reports.
const (
	MaxSize    = 256 << 10 // bytes of a schema
	MaxPerNode = 32        // schemas of a node
)

// Schema is an encoded schema. The zero value means that there is none.
type Schema struct {
	Digest string // lower case hexadecimal SHA-256 of Raw
	Raw    []byte // the message Spec
}

// Of encodes a schema.
func Of(spec hcldec.Spec) (Schema, error) {
	message, err := hclspec.Encode(spec)
	if err != nil {
		return Schema{}, err
	}
	raw, err := protobuf.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return Schema{}, fmt.Errorf("schema: %w", err)
	}
	if len(raw) > MaxSize {
		return Schema{}, fmt.Errorf("schema: has %d bytes: the limit is %d", len(raw), MaxSize)
	}
	return Schema{Digest: Digest(raw), Raw: raw}, nil
}

// Digest returns the digest of an encoded schema.
func Digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Parse decodes a schema that another process encoded.
func Parse(raw []byte) (hcldec.ObjectSpec, error) {
	if len(raw) > MaxSize {
		return nil, fmt.Errorf("schema: has %d bytes: the limit is %d", len(raw), MaxSize)
	}
	message := &proto.Spec{}
	if err := protobuf.Unmarshal(raw, message); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return hclspec.Decode(message)
}
