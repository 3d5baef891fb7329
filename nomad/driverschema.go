package nomad

import (
	"iter"
	"slices"
)

// MaxDriverSchemas limits the schemas that the servers keep.
const MaxDriverSchemas = 1024

// DriverSchema is the schema of the config blocks of the tasks of a driver, which a node reported. It is open-nomad
// only.
type DriverSchema struct {
	Digest      string // lower case hexadecimal SHA-256 of Spec
	Spec        []byte // protobuf message Spec of the plugin protocol
	CreateIndex uint64
	ModifyIndex uint64
}

// SchemaDigest returns the digest of the schema of a driver instance, or "" if the node does not report one.
func (n *Node) SchemaDigest(driver string) string { return n.Attributes["driver."+driver+".schema"] }

// SchemaDigests returns the digests of the schemas of the node's drivers. A digest may occur more than once.
func (n *Node) SchemaDigests() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range n.Drivers {
			if digest := n.SchemaDigest(name); digest != "" && !yield(digest) {
				return
			}
		}
	}
}

// NamesSchema reports whether a driver of the node has the schema with the digest.
func (n *Node) NamesSchema(digest string) bool {
	for own := range n.SchemaDigests() {
		if own == digest {
			return true
		}
	}
	return false
}

// LostSchemas returns the digests that old names and n does not, sorted. Either may be nil.
func LostSchemas(old, n *Node) (out []string) {
	if old == nil {
		return nil
	}
	for digest := range old.SchemaDigests() {
		if n == nil || !n.NamesSchema(digest) {
			out = append(out, digest)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
